#!/usr/bin/env python3
"""Times the all-reduce between other kernels: 64 times a product, an all-reduce and an elementwise kernel, in a CUDA graph.

Started by torchrun, with and without libsymm_nccl.so. Prints for each number of tokens the time of a round with and
without the all-reduce, in microseconds: the median of the slowest rank.
usage: chain.py [TOKENS...]
"""
import os
import statistics
import sys

import torch
import torch.distributed as dist

DIM, ROUNDS, REPLAYS = 4096, 64, 20


def run(x, weights, reduces):
    for _ in range(ROUNDS):
        x = x @ weights
        if reduces:
            dist.all_reduce(x)
        x = x * 0.5
    return x


def round_us(x, weights, reduces):
    with torch.cuda.stream(torch.cuda.Stream()):
        run(x, weights, reduces)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run(x, weights, reduces)
    graph.replay()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(REPLAYS)]
    for begin, end in pairs:
        begin.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    all_times = [None] * dist.get_world_size()
    dist.all_gather_object(all_times, [1000 * begin.elapsed_time(end) / ROUNDS for begin, end in pairs])
    return statistics.median(map(max, zip(*all_times)))


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    for tokens in [int(t) for t in sys.argv[1:]] or [1, 64, 256]:
        x = torch.randn(tokens, DIM, device="cuda", dtype=torch.bfloat16)
        weights = torch.randn(DIM, DIM, device="cuda", dtype=torch.bfloat16) * DIM**-0.5
        with_us, without_us = round_us(x, weights, True), round_us(x, weights, False)
        if dist.get_rank() == 0:
            print(f"chain tokens {tokens:4d} us {with_us:.2f} without {without_us:.2f}", flush=True)
    dist.destroy_process_group()


main()
