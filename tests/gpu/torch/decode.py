#!/usr/bin/env python3
"""Times a decode step of a tensor-parallel transformer with the sizes of Llama 7B, captured in a CUDA graph.

Started by torchrun, with and without libsymm_nccl.so. Prints for each number of tokens the median time of the slowest
rank, and a hash of the output: the sums of two ranks are equal in every bit. "none" leaves the all-reduces out.
usage: decode.py nccl|none [TOKENS...]
"""
import hashlib
import os
import statistics
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F

DIM, HIDDEN, HEADS, HEAD, LAYERS, CONTEXT, REPLAYS = 4096, 11008, 32, 128, 32, 256, 30


class Step:
    def __init__(self, tokens, reduces):
        ranks = dist.get_world_size()
        draw = torch.Generator("cuda").manual_seed(1 + dist.get_rank())

        def weights(n, k):
            return torch.randn(n, k, generator=draw, device="cuda", dtype=torch.bfloat16) * k**-0.5

        self.reduces, self.heads = reduces, HEADS // ranks
        wide, part = self.heads * HEAD, HIDDEN // ranks
        self.layers = [
            (weights(3 * wide, DIM), weights(DIM, wide), weights(2 * part, DIM), weights(DIM, part))
            for _ in range(LAYERS)
        ]
        shape = tokens, self.heads, CONTEXT, HEAD
        self.cache = [torch.randn(shape, generator=draw, device="cuda", dtype=torch.bfloat16) for _ in "kv"]
        self.norm = torch.ones(DIM, device="cuda", dtype=torch.bfloat16)

    def reduce(self, x):
        if self.reduces:
            dist.all_reduce(x)
        return x

    def attention(self, x, qkv):
        q, k, v = F.linear(x, qkv).view(x.shape[0], 3, self.heads, 1, HEAD).unbind(1)
        keys, values = self.cache
        keys[:, :, -1:], values[:, :, -1:] = k, v
        return F.scaled_dot_product_attention(q, keys, values).flatten(1)

    def __call__(self, x):
        for qkv, output, up, down in self.layers:
            x = x + self.reduce(F.linear(self.attention(F.rms_norm(x, (DIM,), self.norm), qkv), output))
            gate, value = F.linear(F.rms_norm(x, (DIM,), self.norm), up).chunk(2, 1)
            x = x + self.reduce(F.linear(F.silu(gate) * value, down))
        return x


def times(graph):
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(REPLAYS)]
    for begin, end in pairs:
        begin.record()
        graph.replay()
        end.record()
    torch.cuda.synchronize()
    return [begin.elapsed_time(end) for begin, end in pairs]


def main():
    reduces = sys.argv[1] == "nccl"
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    for tokens in [int(t) for t in sys.argv[2:]] or [1, 16, 64, 256]:
        torch.manual_seed(tokens)
        step = Step(tokens, reduces)
        x = torch.randn(tokens, DIM, device="cuda", dtype=torch.bfloat16)
        with torch.no_grad():
            for _ in range(2):
                step(x)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = step(x)
        times(graph)
        all_times = [None] * dist.get_world_size()
        dist.all_gather_object(all_times, times(graph))
        y = y.view(torch.int16).cpu().numpy().tobytes()
        if dist.get_rank() == 0:
            ms = statistics.median(map(max, zip(*all_times)))
            digest = hashlib.sha256(y).hexdigest()[:16]
            print(f"decode {sys.argv[1]} tokens {tokens:4d} ms {ms:.3f} hash {digest}", flush=True)
        del graph, step
    dist.destroy_process_group()


main()
