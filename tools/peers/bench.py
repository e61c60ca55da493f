"""What the measurements of pytorch.py share: graphs, their times on the slowest rank, and errors counted on all ranks."""
import statistics

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symm_mem

CALLS = 20  # of a graph
LINE_UP = 16  # barriers before a repetition, during which the host gets ahead of the GPU
DTYPES = {"bfloat16": (torch.bfloat16, 2.0**-8), "float16": (torch.float16, 2.0**-11),
          "float32": (torch.float32, 2.0**-24)}  # and the error of a rounding


class Bench:
    """The ranks, a small symmetric buffer whose handle lines them up, and the timing of calls.

    A variant is a name, the name of a function of torch.ops.symm_mem, a call that returns the output, and whether that is
    the input of the next call.
    """

    def __init__(self, options):
        self.options = options
        self.rank, self.nranks = dist.get_rank(), dist.get_world_size()
        self.group = dist.group.WORLD.group_name
        self.dtype, self.rounding = DTYPES[options.dtype]
        self.device = torch.device("cuda", torch.cuda.current_device())
        torch.manual_seed(self.rank + 1)

    def symmetric(self, *shape):
        """Symmetric memory, and its handle."""
        memory = symm_mem.empty(*shape, dtype=self.dtype, device=self.device)
        return memory, symm_mem.rendezvous(memory, self.group)

    def reset(self):
        """Writes the input again, before each run."""

    def line_up(self):
        self.reset()
        for _ in range(LINE_UP):
            self.handle.barrier(channel=0)

    def wrong(self, run, expected):
        """Counts the wrong elements of all ranks after one run."""
        value, bound = expected
        self.output.fill_(float("nan"))
        self.line_up()
        out = run()
        error = (out.reshape(-1).double() - value.reshape(-1).double()).abs()
        total = (~(error <= bound.reshape(-1).double())).sum()  # a NaN is wrong, too
        dist.all_reduce(total)
        return int(total)

    def record(self, call):
        """A graph of the calls, and the result of the last one."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream(), capture_error_mode="thread_local"):
            for _ in range(CALLS):
                out = call()
        return graph, out

    def time(self, graph):
        """Microseconds of one call on this rank."""
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        self.line_up()
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

    def measure(self, case, unavailable):
        """The rows of one case."""
        self.prepare(case)
        expected = self.expected()
        found = []
        for name, function, call, in_place in self.variants():
            if function and not hasattr(torch.ops.symm_mem, function):
                unavailable[name] = f"PyTorch {torch.__version__} has no torch.ops.symm_mem.{function}"
                continue
            wrong = self.wrong(call, expected)
            graph, out = self.record(call)

            def replay(graph=graph, out=out):
                graph.replay()
                return out

            if not in_place:  # there each call of the graph reduces the sums of the one before
                wrong = max(wrong, self.wrong(replay, expected))
            found.append((name, in_place, graph, wrong, []))
        for i in range(-self.options.warmup, self.options.iters):
            for _, _, graph, _, samples in found:
                us = self.time(graph)
                if i >= 0:
                    samples.append(us)
        return [self.row(name, in_place, wrong, *self.worst(samples)) for name, in_place, _, wrong, samples in found]
