#!/usr/bin/env python3
"""Rank 0 aborts in the middle of an all-reduce, and rank 1 two seconds later; both must end soon, with and without symm.

NCCL's abort is local: until its own abort, rank 1 has no error. usage: abort.py
"""
import os
import time

import torch
import torch.distributed as dist


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, x = dist.get_rank(), torch.ones(1000, device="cuda")
    dist.all_reduce(x)
    torch.cuda.synchronize()
    start = time.time()
    if rank == 0:
        dist.all_reduce(x, async_op=True)  # alone
    time.sleep(1 + 2 * rank)
    dist.distributed_c10d._get_default_group()._get_backend(torch.device("cuda")).abort()
    torch.cuda.synchronize()
    print(f"abort rank {rank}: {time.time() - start:.1f} s", flush=True)


main()
