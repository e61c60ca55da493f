#!/usr/bin/env python3
"""Draws the JSON of symm-bench as SVG.

usage: plot.py FILE.json... -o FILE.svg [--floor GB/s] [--roofline TFLOP/s|measured]

Runs of one operation: latency and bus bandwidth over size, and the floor of a link. One run of a product: TFLOP/s of every
algorithm, as bars over shapes or, with --roofline, as points over operations a byte. One timeline of --trace: what each SM did.
"-" reads the standard input.
"""
import argparse
import contextlib
import json
import math
import os
import sys
from xml.sax.saxutils import escape

# GB/s of devices: of a link, one direction, by a copy engine, as measured (docs/performance.md); of the memory, as the maker says.
SPEEDS = {"NVIDIA H200": {"link": 395, "memory": 4800}}
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f3c8d", "#444444", "#b3b300", "#a05030")
GRAY = "#777777"
PRODUCT_NBYTES = 2  # of an element
LEGEND_HEIGHT = 20
EMULATED = " (emulated on CPUs: no performance)"


class Refused(Exception):
    """Names a file or run that cannot be drawn, and the reason."""

    def __init__(self, what, why):
        super().__init__(f"{what}: {why}")


def number(value):
    return f"{value:.6g}"


def write_whole(path, text):
    """Writes a file that appears when it is complete. Devices and pipes are written directly."""
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    whole = os.path.realpath(path)
    part = f"{whole}.{os.getpid()}"
    try:
        with open(part, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(part, whole)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise


def finish(command, options, make):
    """Writes the text of make() to options.output, or exits with the reason of the failure."""
    try:
        write_whole(options.output, make())
    except Refused as refusal:
        sys.exit(f"# symm-bench: {command}: {refusal}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        sys.exit(f"# symm-bench: {command}: {options.files[0]}: no JSON of symm-bench: {error!r}")
    except OSError as error:
        sys.exit(f"# symm-bench: {command}: {options.output}: {error.strerror}")


# ------------------------------------------------------------------------------------------------------------ SVG


class Picture:
    def __init__(self, width, height, title):
        self.width, self.height, self.parts = width, height, []
        self.text(width / 2, 22, title, size=15)

    def add(self, tag, content="", **attributes):
        words = "".join(f' {name.replace("_", "-")}="{escape(str(value))}"' for name, value in attributes.items())
        self.parts.append(f"<{tag}{words}>{content}</{tag}>")

    def text(self, x, y, text, anchor="middle", size=12, **more):
        self.add("text", escape(text), x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor, font_size=size, **more)

    def line(self, points, color, width=1.0, dash="", hint=""):
        self.add("polyline", f"<title>{escape(hint)}</title>" if hint else "", fill="none", stroke=color,
                 stroke_width=width, points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points),
                 **({"stroke_dasharray": dash} if dash else {}))

    def dot(self, x, y, color, hint):
        self.add("circle", f"<title>{escape(hint)}</title>", cx=f"{x:.1f}", cy=f"{y:.1f}", r=3, fill=color)

    def legend(self, entries, x, y, columns, column_width):
        """One line for each (name, color, dash), below one another in columns."""
        for i, (name, color, dash) in enumerate(entries):
            left, top = x + i % columns * column_width, y + i // columns * LEGEND_HEIGHT
            self.line([(left, top), (left + 24, top)], color, 3 if not dash else 1.5, dash)
            self.text(left + 30, top + 4, name, "start")

    def svg(self, namespace=""):
        """The picture as an element of HTML; with a namespace as a file."""
        return (f'<svg{namespace} viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" font-family="sans-serif">\n'
                '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


class Axes:
    """A panel of a picture with its two axes: linear, or logarithmic to base 2 or 10."""

    def __init__(self, picture, box, x_range, y_range, x_base=None, y_base=None):
        self.picture, (self.left, self.top, self.right, self.bottom) = picture, box
        self.x_range, self.y_range, self.x_base, self.y_base = x_range, y_range, x_base, y_base

    @staticmethod
    def _part(value, limits, base):
        low, high = limits
        if base:
            low, high, value = math.log(low), math.log(high), math.log(max(value, low * 1e-3))
        return (value - low) / (high - low)

    def at(self, x, y):
        return (self.left + self._part(x, self.x_range, self.x_base) * (self.right - self.left),
                self.bottom - self._part(y, self.y_range, self.y_base) * (self.bottom - self.top))

    @staticmethod
    def ticks(limits, base):
        low, high = limits
        if base:
            steps = (1, 2, 5) if base == 10 and high / low < 1000 else (1,)
            first, last = math.floor(math.log(low, base)), math.ceil(math.log(high, base))
            every = max(1, round((last - first) / 14))
            found = [step * float(base) ** e for e in range(first, last + 1, every) for step in steps]
        else:
            raw = (high - low) / 6
            unit = 10.0 ** math.floor(math.log10(raw))
            step = next(unit * times for times in (1, 2, 5, 10) if unit * times >= raw)
            found = [low + i * step for i in range(int((high - low) / step) + 1)]
        return [tick for tick in found if low * 0.999 <= tick <= high * 1.001]

    def frame(self, x_title, y_title, x_name=number):
        """Draws the axes. A page may move the numbers into view: up to data-up, right to data-right."""
        p, middle = self.picture, (self.left + self.right) / 2
        for tick in self.ticks(self.x_range, self.x_base) if x_name else ():
            x, _ = self.at(tick, self.y_range[0])
            p.line([(x, self.top), (x, self.bottom)], "#dddddd", 0.7)
            p.text(x, self.bottom + 16, x_name(tick), data_up=self.top + 12)
        for tick in self.ticks(self.y_range, self.y_base):
            _, y = self.at(self.x_range[0], tick)
            p.line([(self.left, y), (self.right, y)], "#dddddd", 0.7)
            p.text(self.left - 6, y + 4, number(tick), "end", data_right=self.right)
        p.line([(self.left, self.top), (self.left, self.bottom), (self.right, self.bottom)], "#333333")
        p.text(middle, self.bottom + 40, x_title)
        x, y = self.left - 66, (self.top + self.bottom) / 2
        p.text(x, y, y_title, transform=f"rotate(-90 {x} {y})")


def bytes_name(nbytes):
    unit = 0
    while nbytes >= 1024 and unit < 4:
        nbytes, unit = nbytes / 1024, unit + 1
    return f"{nbytes:.3g}{' KMGT'[unit].strip()}"


# ----------------------------------------------------------------------------------------------------------- runs


class Run:
    def __init__(self, path, timeline=False):
        """timeline: it may be one of --trace."""
        self.name = "standard input" if path == "-" else path
        try:
            with sys.stdin if path == "-" else open(path, encoding="utf-8") as file:
                self.json = json.load(file)
            self.rows = self.json.get("rows", [])
            self.options = self.json.get("options", {})
            if not (timeline and self.is_timeline) and not (self["operation"] and all(isinstance(row, dict) for row in self.rows)):
                raise ValueError("no operation and rows")
        except OSError as error:
            raise Refused(self.name, error.strerror) from error
        except (ValueError, AttributeError, TypeError) as error:
            raise Refused(self.name, f"no JSON of symm-bench: {error}") from error

    def __getitem__(self, key):
        return self.json.get(key)

    @property
    def is_timeline(self):
        return self["traceEvents"] is not None

    @property
    def is_product(self):
        return bool(self.rows) and "tflops" in self.rows[0]

    @property
    def is_emulated(self):
        return self["driver"] == "emulated"

    def speed(self, of):
        return SPEEDS.get(self["device"], {}).get(of, 0)

    def algos(self, key):
        """The algorithms that have this number, in the order in which they appear."""
        return list(dict.fromkeys(row["algo"] for row in self.rows if "algo" in row and row.get(key) is not None))

    @property
    def words(self):
        """What was measured. Usual options have no words."""
        get = self.options.get
        as_if = f" as if {get('as_if')}" if get("as_if") else ""
        hosts = f" on {self['hosts']} hosts" if self["hosts"] else ""
        ranks = self["ranks"] and f"{self['ranks']} ranks{as_if}{hosts}"  # a model has none
        words = (self["operation"], ranks, get("op"), get("dtype"),
                 {True: "graphs", False: "eager"}.get(get("graph")), get("timing"),
                 get("memory") == "plain" and "plain memory", get("in_place") and "in place",
                 get("hidden") and f"rows of {get('hidden')}", get("root") is not None and f"from rank {get('root')}")
        return [str(word) for word in words if word and word not in ("-", "sum", "stream")]


def title(*runs):
    """What all runs share."""
    shared = [word for word in runs[0].words if all(word in run.words for run in runs)]
    return ", ".join(shared) + EMULATED * any(run.is_emulated for run in runs)


# ------------------------------------------------------------------------------------------------------- pictures


def variants(runs):
    """(name, algorithm, rows) of each variant of each run of an operation. A name that two runs share gets the file's."""
    lines = [(run, algo, [row for row in run.rows if row["algo"] == algo and row["bytes"] > 0 and row["time_us"] > 0])
             for run in runs for algo in run.algos("time_us")]
    lines = [line for line in lines if line[2]]
    algos = [algo for _, algo, _ in lines]
    return [(algo if algos.count(algo) == 1 else f"{algo}, {run.name}", algo, rows) for run, algo, rows in lines]


def draw_operation(runs, floor):
    """A line for each variant of each run, in two panels."""
    first = runs[0]
    for run in runs[1:]:
        if any(run[key] != first[key] for key in ("operation", "ranks", "hosts")):
            raise Refused(run.name, "another operation or number of ranks or hosts than the first")
    lines = variants(runs)
    if not lines or first["bus_factor"] is None:
        raise Refused(first.name, "there are no results of an operation to draw")
    same_device = all(run["device"] == first["device"] for run in runs)
    floor = floor or (first.speed("link") if same_device else 0)
    entries = [(name, COLORS[i % len(COLORS)], "6 4" if algo.startswith(("nccl", "torch")) else "")
               for i, (name, algo, _) in enumerate(lines)]
    if floor:
        entries.append((f"floor: {floor:g} GB/s", GRAY, "2 4"))
    columns = 3 if len(runs) == 1 else 1
    height = 430 + LEGEND_HEIGHT * -(-len(entries) // columns)
    picture = Picture(1200, height, title(*runs))
    rows = [row for _, _, of_line in lines for row in of_line]
    sizes = min(row["bytes"] for row in rows), max(row["bytes"] for row in rows) * 1.0001
    most = max([row["busbw"] for row in rows] + [floor]) * 1.05 or 1
    times = min(row["time_us"] for row in rows) / 1.3, max(row["time_us"] for row in rows) * 1.3
    panels = (("latency in microseconds", "time_us", Axes(picture, (85, 40, 585, 370), sizes, times, 2, 10)),
              ("bus bandwidth in GB/s", "busbw", Axes(picture, (680, 40, 1180, 370), sizes, (0, most), 2)))
    for label, key, axes in panels:
        axes.frame("bytes", label, bytes_name)
        for (_, _, of_line), (name, color, dash) in zip(lines, entries):
            points = [axes.at(row["bytes"], row[key]) for row in of_line]
            picture.line(points, color, 1.5, dash)
            for row, (x, y) in zip(of_line, points):
                picture.dot(x, y, color, f"{name}: {row['bytes']} bytes, {number(row[key])}")
        if floor and key == "busbw":
            picture.line([axes.at(size, floor) for size in sizes], GRAY, 1.2, "2 4", "floor")
        elif floor:  # drawn where it is inside the panel
            us = first["bus_factor"] / floor / 1e3  # a byte
            least = max(sizes[0], times[0] / us)
            if us > 0 and least < sizes[1]:
                picture.line([axes.at(size, size * us) for size in (least, sizes[1])], GRAY, 1.2, "2 4", "floor")
    picture.legend(entries, 90, 436, columns, 1080 // columns)
    return picture


def shape_of(row):
    return row["m"], row["n"], row["k"], row["l"]


def draw_bars(run):
    """A bar for each algorithm at each shape."""
    algos, shapes = run.algos("tflops"), list(dict.fromkeys(map(shape_of, run.rows)))
    found = {(shape_of(row), row["algo"]): row["tflops"] for row in run.rows if row["tflops"] is not None}
    picture = Picture(1200, 540, title(run))
    axes = Axes(picture, (95, 40, 1030, 460), (0, len(shapes)), (0, max(found.values(), default=0) * 1.05 or 1))
    axes.frame("m x n of a rank x k", "TFLOP/s of one rank", None)
    for i, shape in enumerate(shapes):
        x, y = axes.at(i + 0.5, 0)
        picture.text(x, y + 14, f"{shape[0]} x {shape[1]}", size=11)
        picture.text(x, y + 26, f"x {shape[2]}", size=11)
        for j, algo in enumerate(algos):
            value = found.get((shape, algo))
            if value is None:
                continue
            (left, top), (right, _) = (axes.at(i + 0.1 + 0.8 * (j + k) / len(algos), value) for k in (0, 1))
            picture.add("rect", f"<title>{escape(algo)}: {number(value)} TFLOP/s</title>", x=f"{left:.1f}", y=f"{top:.1f}",
                        width=f"{right - left:.1f}", height=f"{y - top:.1f}", fill=COLORS[j % len(COLORS)])
    picture.legend([(algo, COLORS[j % len(COLORS)], "") for j, algo in enumerate(algos)], 1050, 60, 1, 0)
    return picture


# What comes to a rank over the link: in words, and the bytes of all ranks' parts from m, n, k and those of a partial sum.
OVER_LINK = {
    "all-gather-matmul": ("A that comes", lambda m, n, k, _: m * k * PRODUCT_NBYTES),
    "matmul-reduce-scatter": ("partial sums that come", lambda m, n, k, partial: m * n * partial),
    "matmul-all-reduce": ("partial sums and D that come", lambda m, n, k, partial: m * n * (partial + PRODUCT_NBYTES)),
    "matmul-all-scatter": ("D that comes", lambda m, n, k, _: m * n * PRODUCT_NBYTES),
}


def intensity(run, row, over_link):
    """A rank's operations divided by the bytes it moves: those over the link, or all bytes in memory."""
    m, n, k, _ = shape_of(row)
    ranks, partial = run.options.get("as_if") or run["ranks"], 4 if run.options.get("partial") == "float32" else PRODUCT_NBYTES
    if over_link:
        nbytes = OVER_LINK[run["operation"]][1](m, n, k, partial) * (ranks - 1) / ranks
    else:
        nbytes = (m * k + k * n + m * n * (2 if run.options.get("beta") else 1)) * PRODUCT_NBYTES
    return 2 * m * n * k / (ranks if run["operation"] == "matmul-all-scatter" else 1) / nbytes


def peak_of(run):
    """The speed of the fastest product alone, of cuBLAS if it is there, and the algorithm."""
    for algo in ("cublas", "product"):
        peak = max([row["tflops"] for row in run.rows if row["algo"] == algo], default=0)
        if peak > 0:
            return peak, f" of {algo}"
    raise Refused(run.name, "there is no product alone whose speed could be the roof")


def draw_roofline(run, gbs, peak):
    """A roof of two slopes, and a point for each shape and algorithm."""
    over_link = run["operation"] in OVER_LINK and run["ranks"] > 1
    gbs = gbs or run.speed("link" if over_link else "memory")
    peak, source = (peak, "") if peak else peak_of(run)
    if not gbs:
        raise Refused(run.name, "the speed of this device is not known: give --floor GB/s")
    points = [(row["algo"], intensity(run, row, over_link), row["tflops"])
              for row in run.rows if row["tflops"] is not None]
    ridge, all_x = peak * 1e3 / gbs, [x for _, x, _ in points]
    x_range = min(all_x + [ridge]) / 2, max(all_x + [ridge]) * 2
    y_range = min([y for _, _, y in points] + [x_range[0] * gbs / 1e3]) / 1.2, peak * 1.5
    picture = Picture(1000, 500 + LEGEND_HEIGHT * (2 + len(run.algos("tflops")) // 2), title(run))
    axes = Axes(picture, (90, 40, 970, 440), x_range, y_range, 2, 10)
    moved = f"{OVER_LINK[run['operation']][0]} over the link" if over_link else "A, B, C and D in memory"
    axes.frame(f"operations a byte of {moved}",
               "TFLOP/s of one rank")
    roof = f"roof: {gbs:g} GB/s, {peak:.4g} TFLOP/s{source}"
    corners = [(x_range[0], x_range[0] * gbs / 1e3), (ridge, peak), (x_range[1], peak)]
    picture.line([axes.at(*corner) for corner in corners], GRAY, 1.8, hint=f"ridge at {ridge:.9g} operations a byte")
    algos = run.algos("tflops")
    colors = {algo: COLORS[i % len(COLORS)] for i, algo in enumerate(algos)}
    for algo, x, y in points:
        picture.dot(*axes.at(x, y), colors[algo], f"{algo}: {number(x)} operations a byte, {number(y)} TFLOP/s")
    picture.legend([(roof, GRAY, "")] + [(algo, colors[algo], "") for algo in algos], 110, 500, 2, 430)
    return picture


def draw_timeline(run):
    """By the script beside this one, which uses this one."""
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
    import timeline  # pylint: disable=import-outside-toplevel
    if not timeline.spans(run):
        raise Refused(run.name, "there are no events to draw")
    return timeline.draw(run)


def draw(options):
    runs = [Run(path, timeline=True) for path in options.files]
    if any(run.is_timeline for run in runs):
        if len(runs) > 1:
            raise Refused(runs[1].name, "timelines are drawn one at a time")
        return draw_timeline(runs[0])
    if not runs[0].is_product:
        if options.roofline:
            raise Refused(runs[0].name, "there is a roofline of products only")
        return draw_operation(runs, options.floor)
    if len(runs) > 1:
        raise Refused(runs[1].name, "products are drawn one run at a time")
    if options.roofline:
        return draw_roofline(runs[0], options.floor, 0 if options.roofline == "measured" else float(options.roofline))
    return draw_bars(runs[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.svg")
    parser.add_argument("--floor", type=float, default=0, metavar="GB/s")
    parser.add_argument("--roofline", metavar="TFLOP/s|measured")
    options = parser.parse_args()
    finish("plot", options, lambda: draw(options).svg(' xmlns="http://www.w3.org/2000/svg"'))


if __name__ == "__main__":
    main()
