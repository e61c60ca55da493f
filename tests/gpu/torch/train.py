#!/usr/bin/env python3
"""Trains a small transformer with collectives of ProcessGroupNCCL, and prints its losses and a hash of the result.

Started by torchrun, with and without libsymm_nccl.so: the losses agree within rounding. With SYMM_NCCL_DETERMINISTIC=1
two runs agree in every bit. usage: train.py ddp|fsdp|tensor [STEPS]
"""
import hashlib
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

DIM, HEADS, LAYERS, WORDS, LENGTH, BATCH = 512, 8, 4, 1024, 128, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.query, self.key, self.value = (nn.Linear(DIM, DIM, bias=False) for _ in range(3))
        self.output = nn.Linear(DIM, DIM, bias=False)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def attention(self, x):
        q, k, v = (f(x).unflatten(2, (-1, DIM // HEADS)).transpose(1, 2) for f in (self.query, self.key, self.value))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.output(y.transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, DIM), nn.Embedding(LENGTH, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.head = nn.Linear(DIM, WORDS, bias=False)

    def forward(self, x):
        y = self.words(x) + self.places.weight
        for block in self.blocks:
            y = block(y)
        return self.head(y)


def distribute(model, way):
    if way == "ddp":
        return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=4)
    if way == "fsdp":
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        for block in model.blocks:
            fully_shard(block, mp_policy=policy)
        return fully_shard(model, mp_policy=policy)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    for block in model.blocks:
        columns = {name: ColwiseParallel() for name in ("query", "key", "value", "up")}
        parallelize_module(block, mesh, {**columns, "output": RowwiseParallel(), "down": RowwiseParallel()})
    return model


def hash_of(model):
    digest = hashlib.sha256()
    for p in model.parameters():
        p = p.to_local() if hasattr(p, "to_local") else p
        digest.update(p.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def main():
    way, steps = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50
    torch.use_deterministic_algorithms(True)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.manual_seed(1)
    model = distribute(Model().cuda(), way)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=False)
    draw = torch.Generator().manual_seed(0 if way == "tensor" else dist.get_rank())
    losses = []
    for _ in range(steps):
        # Every word follows from the one before it, so that there is something to learn.
        x = torch.randint(WORDS, (BATCH, 1), generator=draw)
        x = ((x * 7919 + torch.arange(LENGTH + 1) * 31) % WORDS).cuda()
        loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1).float(), x[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    losses = torch.stack(losses)
    dist.all_reduce(losses, op=dist.ReduceOp.AVG)
    result = {"way": way, "rank": dist.get_rank(), "hash": hash_of(model), "losses": losses.tolist()}
    print(json.dumps(result), flush=True)
    dist.destroy_process_group()


main()
