#!/usr/bin/env python3
"""Kills rank 1 of two with SIGKILL in a training-like loop. Rank 0 must learn of it and end within two seconds.

Starts both ranks itself, since torchrun would end the other one. usage: death.py
"""
import os
import signal
import subprocess
import sys
import time

LIMIT_S, STEPS = 2, 200


def rank(number):
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(number)
    dist.init_process_group("nccl")
    x = torch.ones(1 << 16, device="cuda")
    for i in range(10**9):
        dist.all_reduce(x, op=dist.ReduceOp.MAX)
        if number == 1 and i == STEPS:
            torch.cuda.synchronize()
            os.write(1, b"%f\n" % time.time())
            os.kill(os.getpid(), signal.SIGKILL)
        if i % 50 == 49:
            torch.cuda.synchronize()


def main():
    env = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29555"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    ranks = [
        subprocess.Popen([sys.executable, __file__, str(r)], env={**env, "RANK": str(r)}, **pipes) for r in range(2)
    ]
    died = float(ranks[1].communicate()[0])
    try:
        text = ranks[0].communicate(timeout=60)[1]
    except subprocess.TimeoutExpired:
        ranks[0].kill()
        sys.exit("FAIL: rank 0 goes on after 60 s")
    took = time.time() - died
    knows = "ncclRemoteError" in text or "remote process" in text
    print(f"rank 0 ended {took:.2f} s after rank 1 died, by ncclRemoteError: {knows}")
    if took > LIMIT_S or not knows:
        print(text[-2000:])
        sys.exit("FAIL")


if len(sys.argv) > 1:
    rank(int(sys.argv[1]))
else:
    main()
