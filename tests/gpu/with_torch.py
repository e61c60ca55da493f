#!/usr/bin/env python3
"""symm beside cudart, PyTorch and NCCL in one process, on real GPUs.

Started by torchrun or symm-run with two or more ranks. symm's buffers become torch tensors without a copy, torch
computes on them on its own stream, and NCCL's and symm's all-reduce take turns on the same stream. Multicast stays
off. usage: with_torch.py LIBSYMM
"""
import ctypes
import os
import sys

SKIP = 77
try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("skipped: no PyTorch")
    sys.exit(SKIP)

FLOAT32, BFLOAT16 = 1, 3  # symm_dtype


class Failure(Exception):
    pass


class Symm:
    """The few calls of libsymm that this test makes."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.symm_error_text.restype = ctypes.c_char_p
        self.lib.symm_context_world.restype = ctypes.c_void_p
        self.ctx = ctypes.c_void_p()
        self.call("symm_context_create_v", None, ctypes.c_uint32(100), ctypes.byref(self.ctx))
        self.world = ctypes.c_void_p(self.lib.symm_context_world(self.ctx))

    def call(self, name, *args):
        status = getattr(self.lib, name)(*args)
        if status:
            raise Failure(f"{name}: {status}: {self.lib.symm_error_text().decode()}")

    def tensor(self, count, dtype):
        """Symmetric memory as a torch tensor."""
        ptr = ctypes.c_void_p()
        nbytes = count * dtype.itemsize
        self.call("symm_alloc", self.world, ctypes.c_size_t(nbytes), ctypes.byref(ptr))

        class Memory:
            __cuda_array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (ptr.value, False), "version": 3}

        return torch.as_tensor(Memory(), device="cuda").view(dtype)

    def all_reduce(self, source, target):
        dtype = FLOAT32 if source.dtype == torch.float32 else BFLOAT16
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.call("symm_all_reduce", self.world, ctypes.c_void_p(source.data_ptr()),
                  ctypes.c_void_p(target.data_ptr()), ctypes.c_size_t(source.numel()), dtype, 0, None, stream)

    def synchronize(self):
        self.call("symm_synchronize", self.world, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream))

    def close(self):
        self.call("symm_context_destroy", self.ctx)


def compare(symm, dtype, symmetric):
    """One round: random data, NCCL's sum and symm's, on torch's stream and from a captured graph."""
    count = 1_000_003
    make = symm.tensor if symmetric else lambda n, t: torch.empty(n, dtype=t, device="cuda")
    source, target = make(count, dtype), make(count, dtype)
    source.copy_(torch.randn(count, device="cuda"))
    target.fill_(float("nan"))
    expected = source.double()
    dist.all_reduce(expected)
    by_nccl = source.clone()
    dist.all_reduce(by_nccl)
    symm.all_reduce(source, target)
    symm.synchronize()
    bound = 2.0 ** -7 if dtype == torch.bfloat16 else 2.0 ** -20
    wrong = int(((target.double() - expected).abs() > bound * (expected.abs() + 4)).sum())

    target.fill_(float("nan"))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        symm.all_reduce(source, target)
    for _ in range(10):
        graph.replay()
    symm.synchronize()
    wrong += int(((target.double() - expected).abs() > bound * (expected.abs() + 4)).sum())
    return wrong


def main():
    rank = int(os.environ.get("LOCAL_RANK", os.environ.get("SYMM_RANK", "0")))
    if not torch.cuda.is_available() or torch.cuda.device_count() < 2:
        print("skipped: two GPUs are needed")
        return SKIP
    torch.cuda.set_device(rank)
    for theirs, ours in (("RANK", "SYMM_RANK"), ("WORLD_SIZE", "SYMM_NRANKS")):
        os.environ.setdefault(theirs, os.environ.get(ours, ""))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29533")
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    symm = Symm(sys.argv[1])
    wrong = 0
    for dtype in (torch.float32, torch.bfloat16):
        for symmetric in (True, False):
            wrong += compare(symm, dtype, symmetric)
    assert torch.cuda.current_device() == rank
    total = torch.tensor([wrong], device="cuda")
    dist.all_reduce(total)
    symm.close()
    dist.destroy_process_group()
    if rank == 0:
        print(f"beside cudart, PyTorch {torch.__version__} and NCCL: {int(total)} wrong elements")
    return 1 if int(total) else 0


if __name__ == "__main__":
    sys.exit(main())
