#!/usr/bin/env python3
"""Measures PyTorch's symmetric memory by the operations of symm-bench, on GPUs.

usage: symm-run -n RANKS tools/peers/pytorch.py all-reduce|all-gather|reduce-scatter [--json FILE] ...
       torchrun --nproc-per-node RANKS tools/peers/pytorch.py ...

Measures as symm-bench --graph does: CUDA graphs of 20 calls, the variants alternately, the median over the replays on the
slowest rank; every result is checked before. The JSON is that of symm-bench, so that `symm-bench plot` draws both into
one picture. Multicast is always off, so its variants are left out.
"""
import argparse
import json
import os
import statistics
import sys

os.environ["TORCH_SYMM_MEM_DISABLE_MULTICAST"] = "1"
os.environ["NCCL_NVLS_ENABLE"] = "0"

try:
    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as symm_mem
except ImportError as error:
    sys.exit(f"# pytorch.py: no PyTorch with symmetric memory: {error}")

CALLS = 20  # of a graph
LINE_UP = 16  # barriers before a repetition, during which the host gets ahead of the GPU
DTYPES = {"bfloat16": (torch.bfloat16, 2.0**-8), "float32": (torch.float32, 2.0**-24)}  # and the error of a rounding
COLUMNS = (("bytes", 11), ("count", 11), ("dtype", 11), ("op", 4), ("algo", 20), ("ranks", 5), ("in_place", 8),
           ("time_us", 11), ("p95_us", 11), ("algbw", 8), ("busbw", 8), ("wrong", 8))


def number_of_bytes(text):
    unit = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper())
    return int(text[:-1]) << unit if unit else int(text)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("operation", choices=("all-reduce", "all-gather", "reduce-scatter"))
    parser.add_argument("--dtype", choices=DTYPES, default="bfloat16")
    parser.add_argument("--sizes", type=lambda text: [number_of_bytes(each) for each in text.split(",")],
                        help="bytes of a rank's larger buffer: 1K,96K,4M")
    parser.add_argument("--min-bytes", type=number_of_bytes, default=1 << 10)
    parser.add_argument("--max-bytes", type=number_of_bytes, default=64 << 20)
    parser.add_argument("--factor", type=int, default=4)
    parser.add_argument("--iters", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if not options.sizes:
        options.sizes = [options.min_bytes]
        while options.sizes[-1] * options.factor <= options.max_bytes:
            options.sizes.append(options.sizes[-1] * options.factor)
    return options


class Bench:
    """The ranks, and two symmetric buffers that hold the largest size."""

    def __init__(self, options):
        self.options = options
        self.rank, self.nranks = dist.get_rank(), dist.get_world_size()
        self.group = dist.group.WORLD.group_name
        self.dtype, self.rounding = DTYPES[options.dtype]
        most = max(self.count(nbytes) for nbytes in options.sizes)
        device = torch.device("cuda", torch.cuda.current_device())
        torch.manual_seed(self.rank + 1)
        self.source = torch.randn(most, device=device).to(self.dtype)
        self.input = symm_mem.empty(most, dtype=self.dtype, device=device)
        self.output = torch.empty(most, dtype=self.dtype, device=device)
        self.handle = symm_mem.rendezvous(self.input, self.group)

    def count(self, nbytes):
        """Elements of the larger buffer. PyTorch divides packs of 16 bytes among the ranks, symm-bench elements."""
        step = self.nranks * 16 // self.dtype.itemsize
        return max(nbytes // self.dtype.itemsize // step * step, step)

    def variants(self, count):
        """Lists the name, the function's name, a call that returns the output, whether that is the input."""
        ops, group, part = torch.ops.symm_mem, self.group, count // self.nranks
        whole, out = self.input[:count], self.output[:count]
        wait = torch.ops._c10d_functional.wait_tensor
        return {
            "all-reduce": (
                ("torch_one_shot", "one_shot_all_reduce_out",
                 lambda: ops.one_shot_all_reduce_out(whole, "sum", group, out), False),
                ("torch_two_shot", "two_shot_all_reduce_",
                 lambda: ops.two_shot_all_reduce_(whole, "sum", group), True)),
            "all-gather": (
                ("torch_low_contention", "_low_contention_all_gather",
                 lambda: wait(ops._low_contention_all_gather(self.input[:part], group)), False),),
            "reduce-scatter": (
                ("torch_two_shot", "reduce_scatter_out",
                 lambda: ops.reduce_scatter_out(whole, group, False, self.output[:part]), False),
                ("torch_low_contention", "_low_contention_reduce_scatter",
                 lambda: wait(ops._low_contention_reduce_scatter(whole, "sum", group)), False)),
        }[self.options.operation]

    def expected(self, count):
        """The right output, and the largest error of each element."""
        source = self.source[:count]
        if self.options.operation == "all-gather":
            out = torch.empty(count, dtype=self.dtype, device="cuda")
            dist.all_gather_into_tensor(out, source[:count // self.nranks])
            return out, torch.zeros_like(out)
        total, magnitude = source.double(), source.double().abs()
        dist.all_reduce(total)
        dist.all_reduce(magnitude)
        if self.options.operation == "reduce-scatter":
            mine = slice(count // self.nranks * self.rank, count // self.nranks * (self.rank + 1))
            total, magnitude = total[mine], magnitude[mine]
        return total, magnitude * self.nranks * self.rounding

    def line_up(self, count):
        self.input[:count].copy_(self.source[:count])
        for _ in range(LINE_UP):
            self.handle.barrier(channel=0)

    def wrong(self, run, count, expected):
        """Counts the wrong elements of all ranks after one run."""
        value, bound = expected
        self.output.fill_(float("nan"))
        self.line_up(count)
        out = run()
        right = (out.reshape(-1).double() - value.double()).abs() <= bound.double()  # False for a NaN
        total = (~right).sum()
        dist.all_reduce(total)
        return int(total)

    def record(self, call):
        """A graph of the calls, and the result of the last one."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
            for _ in range(CALLS):
                out = call()
        return graph, out

    def time(self, graph, count):
        """Microseconds of one call on this rank."""
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.line_up(count)
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) * 1000 / CALLS

    def worst(self, samples):
        """The median and the 95th percentile on the slowest rank."""
        samples.sort()
        mine = torch.tensor([statistics.median(samples), samples[-(-len(samples) * 95 // 100) - 1]], device="cuda")
        dist.all_reduce(mine, op=dist.ReduceOp.MAX)
        return mine.tolist()

    def bus_factor(self):
        once = (self.nranks - 1) / self.nranks
        return 2 * once if self.options.operation == "all-reduce" else once

    def measure(self, nbytes, unavailable):
        """The rows of one size."""
        count = self.count(nbytes)
        expected = self.expected(count)
        found = []
        for name, function, call, in_place in self.variants(count):
            if not hasattr(torch.ops.symm_mem, function):
                unavailable[name] = f"PyTorch {torch.__version__} has no torch.ops.symm_mem.{function}"
                continue
            wrong = self.wrong(call, count, expected)
            graph, out = self.record(call)

            def replay(graph=graph, out=out):
                graph.replay()
                return out

            if not in_place:  # there each call of the graph reduces the sums of the one before
                wrong = max(wrong, self.wrong(replay, count, expected))
            found.append((name, in_place, graph, wrong, []))
        for i in range(-self.options.warmup, self.options.iters):
            for _, _, graph, _, samples in found:
                us = self.time(graph, count)
                if i >= 0:
                    samples.append(us)
        return [self.row(count, name, in_place, wrong, samples) for name, in_place, _, wrong, samples in found]

    def row(self, count, name, in_place, wrong, samples):
        median, p95 = self.worst(samples)
        nbytes = count * self.dtype.itemsize
        return {"bytes": nbytes, "count": count, "dtype": self.options.dtype,
                "op": "-" if self.options.operation == "all-gather" else "sum", "algo": name, "ranks": self.nranks,
                "in_place": in_place, "time_us": median, "p95_us": p95, "algbw": nbytes / median / 1e3,
                "busbw": nbytes / median / 1e3 * self.bus_factor(), "wrong": wrong}


def as_text(row):
    def one(value):
        return {True: "yes", False: "no"}[value] if isinstance(value, bool) else \
            f"{value:.2f}" if isinstance(value, float) else str(value)
    return " ".join(f"{one(row[name]):>{width}}" for name, width in COLUMNS)


def run(options):
    bench = Bench(options)
    say = print if bench.rank == 0 else lambda *words, **options: None
    head = {"version": torch.__version__, "command": sys.argv, "operation": options.operation, "driver": "cuda",
            "device": torch.cuda.get_device_name(), "timings": "measured", "ranks": bench.nranks,
            "bus_factor": bench.bus_factor(),
            "options": {"dtype": options.dtype, "op": "sum", "iters": options.iters, "warmup": options.warmup,
                        "operations": CALLS, "graph": True, "check": True, "timing": "stream", "memory": "symmetric",
                        "peer": "pytorch"}}
    rows, unavailable = [], {}
    say(f"# PyTorch {torch.__version__}, {options.operation}: {bench.nranks} ranks, {head['device']}")
    say(f"# {options.iters} repetitions of {CALLS} operations after {options.warmup} to warm up, one graph each")
    say("#" + " ".join(f"{name:>{width}}" for name, width in COLUMNS)[1:])
    for nbytes in options.sizes:
        for row in bench.measure(nbytes, unavailable):
            say(as_text(row), flush=True)
            rows.append(row)
    for name, reason in unavailable.items():
        say(f"# {name}: not available: {reason}")
    if options.json and bench.rank == 0:
        head["unavailable"] = [{"algo": name, "reason": reason} for name, reason in unavailable.items()]
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(head | {"rows": rows}, file, indent=1)
            file.write("\n")
    return any(row["wrong"] for row in rows)


def main():
    options = arguments()
    for theirs, ours in (("RANK", "SYMM_RANK"), ("WORLD_SIZE", "SYMM_NRANKS"), ("LOCAL_RANK", "SYMM_RANK")):
        os.environ.setdefault(theirs, os.environ.get(ours, ""))
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29534")
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    # Graphs are captured on a separate stream, and a group may use only one stream.
    with torch.cuda.stream(torch.cuda.Stream()):
        wrong = run(options)
    torch.cuda.synchronize()
    dist.destroy_process_group()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
