#!/usr/bin/env python3
"""A tensor-parallel network under torch.compile with CUDA graphs, whose all-reduces are functional collectives.

Prints a hash of the outputs of each round; with and without libsymm_nccl.so they agree, since two addends have one sum.
usage: compiled.py [ROUNDS]
"""
import gc
import hashlib
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn

DIM, LAYERS = 2048, 4


class Layer(nn.Module):
    def __init__(self, world):
        super().__init__()
        self.up = nn.Linear(DIM, 4 * DIM // world, bias=False)
        self.down = nn.Linear(4 * DIM // world, DIM, bias=False)

    def forward(self, x):
        y = functional.all_reduce(self.down(nn.functional.gelu(self.up(x))), "sum", dist.group.WORLD)
        return nn.functional.rms_norm(x + y, (DIM,))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.manual_seed(dist.get_rank())
    layers = [Layer(dist.get_world_size()) for _ in range(LAYERS)]
    model = torch.compile(nn.Sequential(*layers).cuda().bfloat16(), mode="reduce-overhead")
    draw = torch.Generator().manual_seed(7)
    digest = hashlib.sha256()
    with torch.no_grad():
        for _ in range(rounds):
            for rows in (1, 64, 256):
                torch.compiler.cudagraph_mark_step_begin()
                y = model(torch.randn((rows, DIM), generator=draw).bfloat16().cuda())
                digest.update(y.float().cpu().numpy().tobytes())
    print(f"compiled rank {dist.get_rank()}: {digest.hexdigest()[:16]}", flush=True)
    del model, y
    torch.compiler.reset()  # NCCL waits for the end of graphs before it destroys a communicator
    gc.collect()
    dist.destroy_process_group()


main()
