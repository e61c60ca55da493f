#!/usr/bin/env python3
"""Makes the comments of a header doxygen's: filter.py HEADER, doxygen's INPUT_FILTER.

A comment describes the declarations behind it up to the next empty line, so each of them gets it; an inline function has that
of the function before it. Paragraphs of sentences are filled, all other ones keep their lines.
"""
import re
import sys

PARTS = re.compile(r"(?:Scope|Shapes|Units|Memory|Errors|Source): ")
COMMENT = re.compile(r"^ */\*.*?\*/\n", re.M | re.S)
FILE = re.compile(r"symm/\S+ - ")
TYPEDEF = re.compile(r"typedef ((?:struct|enum) (\w+) \{.*?)\} \2;", re.S)  # doxygen would list it twice
MACRO = re.compile(r"([A-Z_]+\([^)]*\)) \{ body \}\n")  # its comment stands for a macro of detail/


def plain(comment):
    """The text of a comment on lines of its own."""
    return re.sub(r"^ *\* ?", "", comment.strip()[2:-2], flags=re.M).strip(" \n")


def is_aligned(part):
    """Whether the lines of a paragraph must stay as they are: code, tables, contracts."""
    return PARTS.match(part) or "  - " not in part and re.search(r"^  ", part, re.M)


def described(text, command=""):
    """A text as a comment of doxygen."""
    parts = [f"\\verbatim\n{part}\n\\endverbatim" if is_aligned(part) else re.sub(r"([@\\<>&#%$])", r"\\\1", part)
             for part in re.split(r"\n{2,}", text)]
    return f"/**{command}\n" + "\n\n".join(parts) + "\n*/\n"


def convert(source):
    doc, depth, ended = "", 0, True  # of the next declarations; the braces that are open; the last declaration is complete
    while source:
        comment = COMMENT.match(source)
        if comment:
            source = source[comment.end():]
            text = plain(comment[0])
            if FILE.match(text):
                yield described(FILE.sub("", text), " \\file")
            elif MACRO.match(text):
                yield described(text) + f"#define {MACRO.match(text)[1]}\n"
            elif depth:
                yield described(text)
            elif not text.startswith("---"):  # a ruler
                doc = described(text)
            continue
        line, _, source = source.partition("\n")
        code, mark, behind = line.partition("/* ")
        if line.startswith('extern "C"') or line == "}" and not depth:
            continue
        if not line and not depth:
            doc = doc if source.startswith("static inline") else ""
        elif ended and line and (line.startswith("#define") or line[0] != "#"):
            yield doc
        yield (f"{code}/**< {behind}" if mark and not line.startswith("#") else line) + "\n"
        depth += code.count("{") - code.count("}")
        ended = not depth and not line.endswith("\\") and (not line or line[0] == "#" or code.rstrip()[-1:] in (";", "}"))


with open(sys.argv[1], encoding="utf-8") as header:
    sys.stdout.write("".join(convert(TYPEDEF.sub(r"\1};", header.read()))))
