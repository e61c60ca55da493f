#!/usr/bin/env python3
"""Both engines at once: taken and forwarded collectives of two communicators, on two streams, from two threads.

Each thread waits for random times of its own, so that the kernels of the ranks meet in all ways. All results are checked on
the device. Started by torchrun with libsymm_nccl.so preloaded; a hang is the failure to look for, so run it under timeout.
usage: engines.py SECONDS [SEED]
"""
import os
import random
import sys
import threading
import time

import torch
import torch.distributed as dist

SIZES = [1 << 10, 1 << 14, 1 << 18, 1 << 20, 1 << 22, 1 << 24]  # bytes


def reduce(x, want, group, world):
    dist.all_reduce(x, group=group)
    return (x != want * world).any()


def gather(x, want, group, world):
    out = torch.empty(world * x.numel(), device="cuda")
    dist.all_gather_into_tensor(out, x, group=group)
    return (out != want).any()


def scatter(x, want, group, world):
    out = torch.empty(x.numel() // world, device="cuda")
    dist.reduce_scatter_tensor(out, x, group=group)
    return (out != want * world).any()


def broadcast(x, want, group, world):
    if dist.get_rank():
        x.zero_()
    dist.broadcast(x, 0, group=group)
    return (x != want).any()


def exchange(x, want, group, world):
    out = torch.empty_like(x)
    dist.all_to_all_single(out, x, group=group)
    return (out != want).any()


TAKEN, FORWARDED = [reduce, gather, scatter], [broadcast, exchange]


class Worker(threading.Thread):
    def __init__(self, group, calls, seed, seconds):
        super().__init__()
        self.group, self.calls, self.seconds = group, calls, seconds
        self.same, self.own = random.Random(seed), random.Random(seed * 1000 + dist.get_rank())
        self.done = self.wrong = 0

    def call(self, bad):
        size, call = self.same.choice(SIZES), self.same.choice(self.calls)
        x = torch.full((size // 4,), float(self.done % 97), device="cuda")
        if self.own.random() < 0.3:
            time.sleep(self.own.random() ** 4 * 0.004)
        bad += call(x, float(self.done % 97), self.group, dist.get_world_size(self.group))
        self.done += 1

    def run(self):
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        end, more = time.time() + self.seconds, True
        with torch.cuda.stream(torch.cuda.Stream()):
            bad = torch.zeros((), dtype=torch.int64, device="cuda")
            while more:
                for _ in range(self.same.randrange(50, 150)):
                    self.call(bad)
                goes = torch.tensor([float(time.time() < end)], device="cuda")
                dist.broadcast(goes, 0, group=self.group)  # all ranks stop together
                more = bool(goes.item())
            self.wrong = int(bad.item())


def main():
    seconds, seed = float(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    groups = [dist.new_group() for _ in range(2)]
    for group in groups:
        dist.barrier(group=group)
    both = [Worker(groups[0], TAKEN, seed, seconds), Worker(groups[1], FORWARDED + TAKEN[:1], seed + 1, seconds)]
    for worker in both:
        worker.start()
    for worker in both:
        worker.join()
    print(f"rank {dist.get_rank()}: " + ", ".join(f"{w.done} calls, {w.wrong} wrong" for w in both), flush=True)
    dist.destroy_process_group()
    sys.exit(any(w.wrong for w in both))


main()
