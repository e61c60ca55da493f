#!/usr/bin/env python3
"""Rank 0 exits without destroying its process group; the other ranks go on for five seconds and exit with code 0.

Started by torchrun, with libsymm_nccl.so. usage: exit.py
"""
import os
import sys
import time

import torch
import torch.distributed as dist

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
x = torch.ones(1 << 16, device="cuda")
for _ in range(10):
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
torch.cuda.synchronize()
if dist.get_rank() > 0:
    time.sleep(5)
print(f"rank {dist.get_rank()} exits", flush=True)
sys.exit(0)
