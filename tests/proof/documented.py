#!/usr/bin/env python3
"""Applies the example of docs/collectives.md to copies of the sources.

documented.py SOURCE OUT: each block of code behind a line

    <!-- add to FILE after: TEXT -->    goes behind the only line of FILE that has TEXT in it
    <!-- new file FILE -->              is FILE

The copies have the same paths below OUT. The files of COPIED are copied even if no block changes them.
"""
import re
import sys
from pathlib import Path

COPIED = ["src/collectives/**/*.*", "src/runtime/base/names.c"]
BLOCK = re.compile(r"^<!-- (?:add to (?P<file>\S+) after: (?P<anchor>.*?)|new file (?P<new>\S+)) -->\n+"
                   r"```\w*\n(?P<code>.*?)^```$", re.M | re.S)


def insert(name, text, anchor, code):
    lines = text.splitlines(keepends=True)
    places = [i for i, line in enumerate(lines) if anchor in line]
    if len(places) != 1:
        sys.exit(f"docs/collectives.md: {len(places)} lines of {name} have \"{anchor}\" in them, not one")
    lines.insert(places[0] + 1, code)
    return "".join(lines)


def main():
    source, out = Path(sys.argv[1]), Path(sys.argv[2])
    files = {path.relative_to(source): path.read_text()
             for pattern in COPIED for path in source.glob(pattern)}
    blocks = list(BLOCK.finditer((source / "docs/collectives.md").read_text()))
    if not blocks:
        sys.exit("docs/collectives.md: no example")
    for block in blocks:
        if block["new"]:
            files[Path(block["new"])] = block["code"]
            continue
        name = Path(block["file"])
        text = files.get(name) or (source / name).read_text()
        files[name] = insert(name, text, block["anchor"], block["code"])
    for name, text in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


main()
