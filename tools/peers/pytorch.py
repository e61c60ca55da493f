#!/usr/bin/env python3
r"""Measures PyTorch's symmetric memory by the operations of symm-bench, on GPUs.

usage: symm-run -n RANKS tools/peers/pytorch.py all-reduce|all-gather|reduce-scatter [--sizes 1K,4M] [--json FILE] ...
       symm-run -n RANKS tools/peers/pytorch.py all-gather-matmul|matmul-reduce-scatter|matmul-all-reduce \
           [-m M -n N -k K] ...
       torchrun --nproc-per-node RANKS tools/peers/pytorch.py ...

Measures as symm-bench --graph does: CUDA graphs of 20 calls, the variants alternately, the median over the replays on the
slowest rank; every result is checked before. The JSON is that of symm-bench, so that `symm-bench plot` draws both into
one picture. Multicast is always off, so its variants are left out. Without -m, products have the nine Llama shapes.
"""
import argparse
import json
import os
import sys
import zlib

os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"
os.environ["NCCL_NVLS_ENABLE"] = "0"

try:
    import torch
    import torch.distributed as dist
    from bench import CALLS, DTYPES
    from collectives import Collectives
    from products import Products
except ImportError as error:
    sys.exit(f"# pytorch.py: no PyTorch with symmetric memory: {error}")

OPERATIONS = {"all-reduce": Collectives, "all-gather": Collectives, "reduce-scatter": Collectives,
              "all-gather-matmul": Products, "matmul-reduce-scatter": Products, "matmul-all-reduce": Products}


def number(least):
    """The type of an option: a whole number from `least` on."""
    def parse(text):
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text}: not a number from {least} on")
        return int(text)
    return parse


def number_of_bytes(text):
    unit = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper())
    digits = text[:-1] if unit else text
    if not digits.isdecimal() or int(digits) == 0:
        raise argparse.ArgumentTypeError(f"{text}: not a number of bytes like 4096, 64K or 1M")
    return int(digits) << (unit or 0)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("operation", choices=OPERATIONS)
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--sizes", type=lambda text: [number_of_bytes(each) for each in text.split(",")],
                        help="bytes of a rank's larger buffer: 1K,96K,4M")
    parser.add_argument("--min-bytes", type=number_of_bytes, default=1 << 10)
    parser.add_argument("--max-bytes", type=number_of_bytes, default=64 << 20)
    parser.add_argument("--factor", type=number(2), default=4)
    parser.add_argument("-m", type=number(1), help="rows of all ranks; with -n and -k")
    parser.add_argument("-n", type=number(1), help="columns of a rank")
    parser.add_argument("-k", type=number(1), help="of a rank")
    parser.add_argument("--iters", type=number(1), default=50)
    parser.add_argument("--warmup", type=number(0), default=5)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if (options.m is None) != (options.n is None) or (options.m is None) != (options.k is None):
        parser.error("-m, -n and -k go together")
    if options.max_bytes < options.min_bytes:
        parser.error(f"--max-bytes {options.max_bytes} is less than --min-bytes {options.min_bytes}")
    if not options.sizes:
        options.sizes = [options.min_bytes]
        while options.sizes[-1] * options.factor <= options.max_bytes:
            options.sizes.append(options.sizes[-1] * options.factor)
    return options


def meet():
    """Sets what PyTorch reads in the environment from what symm-run has set, unless torchrun has set it."""
    for theirs, ours in (("RANK", "SYMM_RANK"), ("WORLD_SIZE", "SYMM_NRANKS"), ("LOCAL_RANK", "SYMM_RANK")):
        if theirs not in os.environ and ours not in os.environ:
            sys.exit(f"# pytorch.py: {theirs} is not set: start it by symm-run -n RANKS or torchrun")
        os.environ.setdefault(theirs, os.environ.get(ours, ""))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    # Each job has a port of its own, below those that the system gives to programs.
    os.environ.setdefault("MASTER_PORT", str((1 << 14) + zlib.crc32(os.environ.get("SYMM_SESSION", "").encode()) % (1 << 14)))


def open_json(options):
    """The file, on rank 0; it is opened before anything is measured."""
    if not options.json or os.environ["RANK"] != "0":
        return None
    try:
        return open(options.json, "w", encoding="utf-8")
    except OSError as error:
        sys.exit(f"# pytorch.py: --json {options.json}: {error.strerror}")


def as_text(row, columns):
    def one(value):
        return {True: "yes", False: "no"}[value] if isinstance(value, bool) else \
            f"{value:.2f}" if isinstance(value, float) else "-" if value is None else str(value)
    return " ".join(f"{one(row[name]):>{width}}" for name, width in columns)


def run(options, file):
    bench = OPERATIONS[options.operation](options)
    say = print if bench.rank == 0 else lambda *words, **options: None
    head = {"version": torch.__version__, "command": sys.argv, "operation": options.operation, "driver": "cuda",
            "device": torch.cuda.get_device_name(), "timings": "measured", "ranks": bench.nranks} | bench.head()
    head["options"] |= {"dtype": options.dtype, "iters": options.iters, "warmup": options.warmup, "operations": CALLS,
                        "graph": True, "check": True, "timing": "stream", "memory": "symmetric", "peer": "pytorch"}
    rows, unavailable = [], {}
    say(f"# PyTorch {torch.__version__}, {options.operation}: {bench.nranks} ranks, {head['device']}")
    say(f"# {options.iters} repetitions of {CALLS} operations after {options.warmup} to warm up, one graph each")
    say("#" + " ".join(f"{name:>{width}}" for name, width in bench.columns)[1:])
    for case in bench.cases:
        for row in bench.measure(case, unavailable):
            say(as_text(row, bench.columns), flush=True)
            rows.append(row)
    for name, reason in unavailable.items():
        say(f"# {name}: not available: {reason}")
    if file:
        head["unavailable"] = [{"algo": name, "reason": reason} for name, reason in unavailable.items()]
        with file:
            json.dump(head | {"rows": rows}, file, indent=1)
            file.write("\n")
    return any(row["wrong"] for row in rows)


def main():
    options = arguments()
    meet()
    file = open_json(options)
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    # Graphs are captured on a separate stream, and a group may use only one stream.
    with torch.cuda.stream(torch.cuda.Stream()):
        wrong = run(options, file)
    torch.cuda.synchronize()
    dist.destroy_process_group()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
