"""PyTorch's products with communication, by the shapes of symm-bench."""
import math

import torch
import torch.distributed as dist

from bench import Bench

COLUMNS = (("m", 8), ("n", 7), ("k", 7), ("l", 4), ("dtype", 8), ("algo", 22), ("strategy", 9), ("ranks", 5),
           ("time_us", 11), ("p95_us", 11), ("tflops", 8), ("speedup", 7), ("wrong", 8))
# m of all ranks; n and k of a rank. The Llama shapes of symm-bench: before a product, and behind it.
LLAMA = ((4096, 1792), (8192, 3584), (16384, 6656))
ROWS = (4096, 8192, 16384)


def shapes_of(options):
    if options.m:
        return [(options.m, options.n, options.k)]
    gathers = options.operation == "all-gather-matmul"
    return [(m, own, hidden) if gathers else (m, hidden, own) for hidden, own in LLAMA for m in ROWS]


class Products(Bench):
    """A product of m rows of all ranks. A case is m, n, k; symm-bench counts n and k of a rank, too."""

    columns = COLUMNS

    def __init__(self, options):
        super().__init__(options)
        self.cases = shapes_of(options)
        self.line, self.handle = self.symmetric(self.nranks * 16)

    def prepare(self, case):
        self.m, self.n, self.k = case
        gathers = self.options.operation == "all-gather-matmul"
        self.a = self.draw(self.m // self.nranks if gathers else self.m, self.k)
        self.b = self.draw(self.k, self.n)
        own = self.m if gathers or self.options.operation == "matmul-all-reduce" else self.m // self.nranks
        self.output = torch.empty(own, self.n, dtype=self.dtype, device=self.device)
        if self.options.operation == "matmul-all-reduce":
            self.sums, self.sums_handle = self.symmetric(self.m, self.n)

    def draw(self, rows, columns):
        return torch.randn(rows, columns, device=self.device).to(self.dtype)

    def variants(self):
        ops, group = torch.ops.symm_mem, self.group
        return {
            "all-gather-matmul": (
                ("torch_nccl", None, self.gathered_by_nccl, False),
                ("torch_fused", "fused_all_gather_matmul",
                 lambda: ops.fused_all_gather_matmul(self.a, [self.b], 0, group)[1][0], False)),
            "matmul-reduce-scatter": (
                ("torch_nccl", None, self.scattered_by_nccl, False),
                ("torch_fused", "fused_matmul_reduce_scatter",
                 lambda: ops.fused_matmul_reduce_scatter(self.a, self.b, "sum", 0, group), False)),
            "matmul-all-reduce": (
                ("torch_nccl", None, self.reduced_by_nccl, False),
                ("torch_two_shot", "two_shot_all_reduce_", self.reduced_by_two_shot, False),
                ("torch_one_shot", "one_shot_all_reduce_out", self.reduced_by_one_shot, False)),
        }[self.options.operation]

    def gathered_by_nccl(self):
        whole = torch.empty(self.m, self.k, dtype=self.dtype, device=self.device)
        dist.all_gather_into_tensor(whole, self.a)
        return torch.mm(whole, self.b, out=self.output)

    def scattered_by_nccl(self):
        dist.reduce_scatter_tensor(self.output, torch.mm(self.a, self.b))
        return self.output

    def reduced_by_nccl(self):
        torch.mm(self.a, self.b, out=self.output)
        dist.all_reduce(self.output)
        return self.output

    def reduced_by_two_shot(self):
        torch.mm(self.a, self.b, out=self.sums)
        return torch.ops.symm_mem.two_shot_all_reduce_(self.sums, "sum", self.group)

    def reduced_by_one_shot(self):
        torch.mm(self.a, self.b, out=self.sums)
        return torch.ops.symm_mem.one_shot_all_reduce_out(self.sums, "sum", self.group, self.output)

    def expected(self):
        """The right output, and the largest error of each element, as symm-bench allows."""
        a, gathers = self.a, self.options.operation == "all-gather-matmul"
        if gathers:
            a = torch.empty(self.m, self.k, dtype=self.dtype, device=self.device)
            dist.all_gather_into_tensor(a, self.a)
        # In single precision: a product in double precision takes too long. Its own error is within the bound.
        value = torch.mm(a.float(), self.b.float()).double()
        magnitude = torch.mm(a.float().abs(), self.b.float().abs()).double()
        rounded = value.abs() * self.rounding
        eps = 2.0**-21 * math.sqrt(self.k * (1 if gathers else self.nranks))
        if gathers:
            return value, magnitude * eps + rounded
        for each in (value, magnitude, rounded):
            dist.all_reduce(each)
        bound = magnitude * eps + rounded * self.nranks + value.abs() * self.rounding
        if self.options.operation == "matmul-reduce-scatter":
            mine = slice(self.m // self.nranks * self.rank, self.m // self.nranks * (self.rank + 1))
            value, bound = value[mine], bound[mine]
        return value, bound

    def head(self):
        return {"options": {"strategy": "-"}}

    def row(self, name, _, wrong, median, p95):
        return {"m": self.m, "n": self.n, "k": self.k, "l": 1, "dtype": self.options.dtype, "algo": name, "strategy": "-",
                "ranks": self.nranks, "time_us": median, "p95_us": p95,
                "tflops": 2 * self.m * self.n * self.k / median / 1e6, "speedup": None, "hidden": None, "wrong": wrong}
