"""The site of the documents: Sphinx on the Markdown files as they are, with the headers by doxygen and Breathe."""
import re
import shlex
import sys
from pathlib import Path

from sphinx.errors import SphinxError

here = Path(__file__).resolve().parent
root = here.parents[1]
headers = ["symm.h", "stream.h", "collectives.h", "matmul.h", "dlpack.h", "names.h", "types.h", "device.cuh"]

project = "symm"
author = "the authors of symm"
root_doc = "README"
extensions = ["myst_parser", "breathe"]
include_patterns = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/*.md", "docs/notes/*.md", "docs/site/api.rst"]
highlight_language = "none"
html_theme = "furo"
html_title = "symm"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]
myst_heading_anchors = 4

breathe_default_project = "symm"
breathe_projects_source = {"symm": (str(root / "include/symm"), headers)}
breathe_domain_by_extension = {"h": "c", "cuh": "cpp"}
breathe_show_include = False
breathe_show_define_initializer = True
breathe_show_enumvalue_initializer = True
breathe_doxygen_config_options = {
    "INPUT_FILTER": f"{shlex.quote(sys.executable)} {shlex.quote(str(here / 'filter.py'))}",
    "EXTENSION_MAPPING": "cuh=C++", "OPTIMIZE_OUTPUT_FOR_C": "YES", "EXTRACT_ALL": "YES", "EXTRACT_STATIC": "YES",
    "SORT_MEMBER_DOCS": "NO", "MACRO_EXPANSION": "YES", "SEARCH_INCLUDES": "NO", "SKIP_FUNCTION_MACROS": "NO",
    "PREDEFINED": "SYMM_API= SYMM_DEV=", "EXPAND_AS_DEFINED": "SYMM_STATUS_MAP", "EXCLUDE_SYMBOLS": "*_CUH *_",
}

CONTENTS = {
    "Learn": ["docs/README", "docs/custom-kernels", "docs/matmul", "docs/glossary"],
    "Use": ["docs/site/api", "docs/tools", "docs/hosts", "docs/errors", "docs/compare", "docs/pytorch", "docs/nccl"],
    "Understand": ["docs/architecture", "docs/protocol", "docs/memory-model", "docs/collectives", "docs/emulation"],
    "Prove": ["docs/proof", "docs/performance", "docs/notes/README", "CONTRIBUTING", "CHANGELOG"],
}
FOLDER = re.compile(r"\[([^]]*)\]\(([\w./]+)\)")


def read(app, docname, source):
    """Leads links to folders to the page about them, and gives the README the table of contents."""
    folder = (root / docname).parent

    def link(match):
        target = (folder / match[2]).resolve()
        if not target.is_dir():
            return match[0]
        return f"[{match[1]}](/docs/site/api.rst)" if target == root / "include/symm" else match[1]

    source[0] = FOLDER.sub(link, source[0])
    if docname == root_doc:
        source[0] += "".join(f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(names) + "\n```\n"
                             for caption, names in CONTENTS.items())
    if docname == "docs/notes/README":
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"


def finish(app, error):
    """Opens the site at the README, and refuses a reference without some name of a header or some function's contract."""
    if error:
        return
    Path(app.outdir, "index.html").write_text('<meta http-equiv="refresh" content="0; url=README.html">\n')
    page = Path(app.outdir, "docs/site/api.html").read_text()
    shown = set(re.findall(r'class="pre">(\w+)<', page)) | {"SYMM_API", "SYMM_DEV"}
    for header in headers:
        code = re.sub(r"/\*.*?\*/|^#(?:if|include).*?$", "", (root / "include/symm" / header).read_text(), flags=re.M | re.S)
        missing = {name for name in re.findall(r"\bsymm_\w+", code, re.I) if not name.endswith(("_H", "_CUH", "_"))} - shown
        if missing:
            raise SphinxError(f"the reference lacks {', '.join(sorted(missing))} of {header}")
    bare = re.findall(r'id="c\.(\w+)">(?:(?!</dt>).)*sig-paren(?:(?!</dt>).)*</dt>\s*<dd></dd>', page, re.S)
    if bare:
        raise SphinxError(f"no comment describes {', '.join(bare)}")


def setup(app):
    app.connect("source-read", read)
    app.connect("build-finished", finish)
