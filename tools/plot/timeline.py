"""Draws a timeline of symm-bench --trace: a line for each role of each SM, a panel for each rank."""
from xml.sax.saxutils import escape

import plot

TOP, ROW, PANEL, LEFT, RIGHT = 34, 13, 34, 190, 1180  # pixels
WAIT = "#bbbbbb"


def color_of(event):
    """Of the rank whose rows are multiplied or sent; waits are gray."""
    if event["cat"] == "tile":
        return plot.COLORS[event["args"]["rank"] % len(plot.COLORS)]
    if event["cat"] == "send":
        return plot.COLORS[event["pid"] % len(plot.COLORS)]
    return WAIT


def spans(run):
    return [event for event in run["traceEvents"] if event["ph"] == "X"]


def draw_time(picture, axes, bottom):
    for tick in axes.ticks(axes.x_range, None):
        x, _ = axes.at(tick, 0)
        picture.line([(x, TOP), (x, bottom)], "#dddddd", 0.7)
        picture.text(x, bottom + 16, plot.number(tick))
    picture.text((LEFT + RIGHT) / 2, bottom + 34, "microseconds")


def draw_lanes(picture, run, lanes):
    """The names of ranks and lanes. Returns where each lane is."""
    names = {(event["pid"], event["tid"]): event["args"]["name"]
             for event in run["traceEvents"] if event["name"] == "thread_name"}
    tops, top, before = {}, TOP, None
    for lane in lanes:
        if lane[0] != before:
            picture.text(10, top + 22, f"rank {lane[0]}", "start", 13)
            picture.line([(LEFT, top + 6), (RIGHT, top + 6)], "#333333", 0.7)
            top, before = top + PANEL, lane[0]
        picture.text(LEFT - 8, top + ROW - 3, names[lane], "end", 10)
        tops[lane], top = top, top + ROW
    return tops


def draw_span(picture, axes, top, event):
    (left, _), (right, _) = axes.at(event["ts"], 0), axes.at(event["ts"] + event["dur"], 0)
    inset = 0 if event["cat"] in ("tile", "send") else 3
    hint = f"{event['name']}: {plot.number(event['dur'])} us, {event['args']}"
    picture.add("rect", f"<title>{escape(hint)}</title>", x=f"{left:.1f}", y=top + 1 + inset,
                width=f"{max(right - left, 0.7):.1f}", height=ROW - 2 - 2 * inset, fill=color_of(event), stroke="white",
                stroke_width=0.3)


def draw_arrival(picture, axes, top, event):
    x, _ = axes.at(event["ts"], 0)
    picture.add("path", f"<title>{escape(event['name'])}</title>", d=f"M{x:.1f} {top} l-4 -8 h8 z",
                fill=plot.COLORS[event["args"]["rank"] % len(plot.COLORS)])


def draw(run):
    events, other = spans(run), run["otherData"]
    lanes = sorted({(event["pid"], event["tid"]) for event in events})
    ranks = sorted({rank for rank, _ in lanes})
    bottom = TOP + ROW * len(lanes) + PANEL * len(ranks) + 4
    title = "timeline: " + other["title"] + plot.EMULATED * (other["driver"] == "emulated")
    picture = plot.Picture(RIGHT + 20, bottom + 75, title)
    end = max(event["ts"] + event["dur"] for event in events)
    axes = plot.Axes(picture, (LEFT, TOP, RIGHT, bottom), (0, end * 1.0001), (0, 1))
    draw_time(picture, axes, bottom)
    tops = draw_lanes(picture, run, lanes)
    for event in sorted(events, key=lambda event: (event["ts"], -event["dur"])):
        draw_span(picture, axes, tops[event["pid"], event["tid"]], event)
    for event in run["traceEvents"]:
        if event.get("cat") == "arrived":
            draw_arrival(picture, axes, min(top for lane, top in tops.items() if lane[0] == event["pid"]), event)
    entries = [(f"rows of rank {rank}: tiles, sends, arrivals (triangles)", plot.COLORS[rank % len(plot.COLORS)], "")
               for rank in ranks] + [("waits and rounds", WAIT, "")]
    picture.legend(entries, 30, bottom + 58, len(entries), (RIGHT - 20) // len(entries))
    return picture
