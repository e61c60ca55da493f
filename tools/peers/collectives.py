"""PyTorch's collectives in symmetric memory, by the sizes of symm-bench."""
import torch
import torch.distributed as dist

from bench import Bench

COLUMNS = (("bytes", 11), ("count", 11), ("dtype", 11), ("op", 4), ("algo", 20), ("ranks", 5), ("in_place", 8),
           ("time_us", 11), ("p95_us", 11), ("algbw", 8), ("busbw", 8), ("wrong", 8))


class Collectives(Bench):
    """Two buffers that hold the largest size. A case is a number of bytes."""

    columns = COLUMNS

    def __init__(self, options):
        super().__init__(options)
        self.cases = options.sizes
        most = max(self.count_of(nbytes) for nbytes in options.sizes)
        self.source = torch.randn(most, device=self.device).to(self.dtype)
        self.input, self.handle = self.symmetric(most)
        self.output = torch.empty(most, dtype=self.dtype, device=self.device)

    def count_of(self, nbytes):
        """Elements of the larger buffer. PyTorch divides packs of 16 bytes among the ranks, symm-bench elements."""
        step = self.nranks * 16 // self.dtype.itemsize
        return max(nbytes // self.dtype.itemsize // step * step, step)

    def prepare(self, case):
        self.count = self.count_of(case)

    def reset(self):
        self.input[:self.count].copy_(self.source[:self.count])

    def variants(self):
        ops, group, part = torch.ops.symm_mem, self.group, self.count // self.nranks
        whole, out = self.input[:self.count], self.output[:self.count]
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

    def expected(self):
        """The right output, and the largest error of each element."""
        source, part = self.source[:self.count], self.count // self.nranks
        if self.options.operation == "all-gather":
            out = torch.empty(self.count, dtype=self.dtype, device="cuda")
            dist.all_gather_into_tensor(out, source[:part])
            return out, torch.zeros_like(out)
        total, magnitude = source.double(), source.double().abs()
        dist.all_reduce(total)
        dist.all_reduce(magnitude)
        if self.options.operation == "reduce-scatter":
            mine = slice(part * self.rank, part * (self.rank + 1))
            total, magnitude = total[mine], magnitude[mine]
        return total, magnitude * self.nranks * self.rounding

    def bus_factor(self):
        once = (self.nranks - 1) / self.nranks
        return 2 * once if self.options.operation == "all-reduce" else once

    def head(self):
        return {"bus_factor": self.bus_factor(), "options": {"op": "sum"}}

    def row(self, name, in_place, wrong, median, p95):
        nbytes = self.count * self.dtype.itemsize
        return {"bytes": nbytes, "count": self.count, "dtype": self.options.dtype,
                "op": "-" if self.options.operation == "all-gather" else "sum", "algo": name, "ranks": self.nranks,
                "in_place": in_place, "time_us": median, "p95_us": p95, "algbw": nbytes / median / 1e3,
                "busbw": nbytes / median / 1e3 * self.bus_factor(), "wrong": wrong}
