#!/usr/bin/env python3
"""Makes one page of HTML of the JSON of symm-bench.

usage: report.py FILE.json... -o FILE.html [--floor GB/s]

Runs of one operation with the same options share their pictures and a table of times. The page has everything that the
files have, loads nothing, and needs no network. plot.py, which lies beside this script, draws the pictures.
"""
import argparse
import os
import shlex
import sys
from html import escape

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
import plot  # noqa: E402

CELLS = {None: "-", True: "yes", False: "no"}

STYLE = """
body { font: 15px/1.45 sans-serif; color: #222; max-width: 1240px; margin: 1.5em auto; padding: 0 1em; }
h2 { border-top: 1px solid #ccc; padding-top: 1em; margin-top: 2em; }
code { overflow-wrap: anywhere; }
figure { margin: 1em 0; }
figcaption, caption { text-align: left; font-weight: bold; padding: .4em 0; }
figure p { margin: 0; color: #666; font-size: 13px; }
svg { max-width: 100%; height: auto; border: 1px solid #ddd; cursor: crosshair; user-select: none; }
svg * { vector-effect: non-scaling-stroke; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; }
td, thead th { text-align: right; padding: .15em .6em; border-bottom: 1px solid #eee; white-space: nowrap; }
.facts th, .facts td { text-align: left; vertical-align: top; white-space: normal; }
th button { all: unset; cursor: pointer; font-weight: bold; }
th button:focus-visible { outline: 2px solid #0072b2; }
th[aria-sort=ascending]::after { content: " \\25b2"; }
th[aria-sort=descending]::after { content: " \\25bc"; }
.best { font-weight: bold; background: #e5f3ea; }
.wrong, .emulated, .error { color: #a40000; font-weight: bold; }
"""

SCRIPT = """
"use strict";
// A click on the head of a column sorts the rows; the next one turns them round. Empty cells stay last.
function sort(table, head) {
  const up = head.getAttribute("aria-sort") !== "ascending", body = table.tBodies[0];
  const value = row => row.cells[head.cellIndex].textContent;
  const compare = (a, b) => a === "-" || b === "-" ? (a === "-") - (b === "-")
    : (up ? 1 : -1) * (isNaN(a) || isNaN(b) ? a.localeCompare(b) : a - b);
  for (const other of head.parentNode.cells)
    other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  body.append(...[...body.rows].sort((a, b) => compare(value(a), value(b))));
}
for (const table of document.querySelectorAll("table.sortable"))
  for (const head of table.tHead.rows[0].cells)
    head.firstChild.addEventListener("click", () => sort(table, head));

// Dragging over a part of a picture zooms in, a double click shows all. Text and dots keep their size on the screen,
// and the numbers of the axes move into view.
function zoomable(svg) {
  const {width, height} = svg.viewBox.baseVal, kept = [];
  for (const [selector, name] of [["[font-size]", "font-size"], ["circle", "r"]])
    for (const part of svg.querySelectorAll(selector))
      kept.push([part, name, +part.getAttribute(name)]);
  const numbers = [...svg.querySelectorAll("[data-up], [data-right]")].map(text =>
    [text, +text.getAttribute("x"), +text.getAttribute("y")]);
  function show(x, y, part) {
    svg.setAttribute("viewBox", [x, y, width * part, height * part].join(" "));
    for (const [element, name, value] of kept)
      element.setAttribute(name, value * part);
    for (const [text, left, top] of numbers) {
      if ("up" in text.dataset)
        text.setAttribute("y", Math.max(+text.dataset.up, Math.min(top, y + (height - 6) * part)));
      else
        text.setAttribute("x", Math.min(+text.dataset.right, Math.max(left, x + 60 * part)));
    }
  }
  const at = event => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  let first = null, frame = null;
  svg.addEventListener("pointerdown", event => {
    first = at(event);
    frame = document.createElementNS(svg.namespaceURI, "rect");
    frame.setAttribute("fill", "#0072b233");
    svg.append(frame);
  });
  addEventListener("pointermove", event => {
    if (!first)
      return;
    const last = at(event);
    for (const [name, value] of [["x", Math.min(first.x, last.x)], ["y", Math.min(first.y, last.y)],
                                 ["width", Math.abs(last.x - first.x)], ["height", Math.abs(last.y - first.y)]])
      frame.setAttribute(name, value);
  });
  addEventListener("pointerup", event => {
    if (!first)
      return;
    const last = at(event), part = Math.max(Math.abs(last.x - first.x) / width, Math.abs(last.y - first.y) / height);
    if (part > 0.01 * svg.viewBox.baseVal.width / width)
      show((first.x + last.x - width * part) / 2, (first.y + last.y - height * part) / 2, part);
    frame.remove();
    first = null;
  });
  svg.addEventListener("dblclick", () => show(0, 0, 1));
}
document.querySelectorAll("figure svg").forEach(zoomable);
"""

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<h1>{title}</h1>
{body}
<script>{script}</script>
</body>
</html>
"""


def cell(value):
    if isinstance(value, float):
        return plot.number(value)
    if isinstance(value, list):
        return " x ".join(map(cell, value))
    if isinstance(value, dict):
        return ", ".join(f"{key} {cell(each)}" for key, each in value.items())
    return CELLS[value] if value is None or isinstance(value, bool) else str(value)


def table(caption, columns, rows):
    """A table that sorts. A row is a list of (text, class) in the order of the columns."""
    head = "".join(f'<th><button type="button">{escape(column)}</button></th>' for column in columns)
    body = "\n".join("<tr>" + "".join(f'<td class="{kind}">{escape(text)}</td>' if kind else f"<td>{escape(text)}</td>"
                                      for text, kind in row) + "</tr>" for row in rows)
    return (f'<div class="scroll"><table class="sortable"><caption>{escape(caption)}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>")


def side_by_side(caption, first, names, lines, best):
    """A table of variants, peers and limits. A line is (label, {name: number}); the best number is marked."""
    rows = []
    for subject, values in lines:
        of_runs = [value for name, value in values.items() if not name.startswith("floor")]
        rows.append([(cell(subject), "")] + [
            (cell(values.get(name)), "best" if values.get(name) == best(of_runs) and values.get(name) in of_runs else "")
            for name in names])
    return table(caption, [first] + names, rows)


def times(title, runs, floor):
    """The times of all variants of some runs of one operation, and the floor."""
    variants = plot.variants(runs)
    floor = floor or runs[0].speed("link")
    names = [name for name, _, _ in variants]
    lines = {row["bytes"]: {} for _, _, rows in variants for row in rows}
    for name, _, rows in variants:
        for row in rows:
            lines[row["bytes"]][name] = row["time_us"]
    if floor:
        names.append(f"floor: {floor:g} GB/s")
        for nbytes, values in lines.items():
            values[names[-1]] = nbytes * runs[0]["bus_factor"] / floor / 1e3
    return side_by_side(f"time_us: {title}", "bytes", names, sorted(lines.items()), min)


def speeds(title, run):
    """The speeds of all algorithms of a product."""
    lines = {}
    for row in run.rows:
        if row["tflops"] is not None:
            lines.setdefault(" x ".join(map(str, plot.shape_of(row))), {})[row["algo"]] = row["tflops"]
    return side_by_side(f"tflops: {title}", "m x n x k x l", run.algos("tflops"), list(lines.items()), max)


def figure(title, draw):
    """A picture that zooms, or the reason why there is none."""
    try:
        picture = draw().svg()
    except plot.Refused as refusal:
        return f"<p>No picture: {escape(str(refusal))}.</p>"
    return (f"<figure><figcaption>{escape(title)}</figcaption>\n{picture}"
            "<p>Drag over a part to zoom in, double-click to see all. Dots and bars show their numbers as hints.</p></figure>")


def facts(run):
    """The machine, the command and the options of a file."""
    command = run["command"]
    known = isinstance(command, list) and all(isinstance(word, str) for word in command)
    pairs = [("command", shlex.join(command) if known else "not in this file"),
             *((key, cell(value)) for key, value in run.json.items()
               if key not in ("command", "rows", "summary", "options", "unavailable", "error")),
             ("options", cell(run.options)),
             *((f"{item['algo']}: not available", item["reason"]) for item in run["unavailable"] or ())]
    lines = "\n".join(f"<tr><th>{escape(name)}</th><td>{'<code>' * (name == 'command')}{escape(text)}</td></tr>"
                      for name, text in pairs)
    error = f'<p class="error">This run failed: {escape(run["error"])}</p>\n' if run["error"] else ""
    return f'{error}<table class="facts">\n{lines}\n</table>'


def records(what, run, rows):
    """A table of dictionaries."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    cells = [[(cell(row.get(key)), "wrong" if key == "wrong" and row.get(key) else "") for key in columns] for row in rows]
    return table(f"{what} of {run.name}{plot.EMULATED * run.is_emulated}", columns, cells)


def chapter(title, runs, floor):
    """Runs that share their pictures: of one operation with the same options, or one of a product."""
    parts = [f"<h2>{escape(title)}</h2>"]
    if runs[0].is_emulated:
        parts.append('<p class="emulated">Emulated on CPUs: these times say nothing about performance.</p>')
    if runs[0].is_product:
        parts += [figure(f"Speed: {title}", lambda: plot.draw_bars(runs[0])),
                  figure(f"Roofline: {title}", lambda: plot.draw_roofline(runs[0], floor, 0)), speeds(title, runs[0])]
    elif runs[0]["bus_factor"] is not None:
        parts += [figure(f"Latency and bus bandwidth: {title}", lambda: plot.draw_operation(runs, floor)),
                  times(title, runs, floor)]
    for run in runs:
        parts += [f"<h3>{escape(run.name)}</h3>", facts(run), records("all rows", run, run.rows)]
        if run["summary"]:
            parts.append(records("ratios of times", run, run["summary"]))
    return "\n".join(parts)


def page(files, floor):
    chapters, runs = {}, list(map(plot.Run, files))
    several_devices = len({run["device"] for run in runs if run["device"]}) > 1
    for run in runs:
        title = plot.title(run) + (f", {run['device']}" if several_devices and run["device"] else "")
        chapters.setdefault((title, run.name if run.is_product else ""), []).append(run)
    titles = list(dict.fromkeys(run["operation"] for run in runs))
    return PAGE.format(title=escape(f"symm-bench: {', '.join(titles)}"), style=STYLE, script=SCRIPT,
                       body="\n".join(chapter(title, of_title, floor) for (title, _), of_title in chapters.items()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+", metavar="FILE.json")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.html")
    parser.add_argument("--floor", type=float, default=0, metavar="GB/s")
    options = parser.parse_args()
    plot.finish("report", options, lambda: page(options.files, options.floor))


if __name__ == "__main__":
    main()
