#!/usr/bin/env bash
# symm-bench report on the emulated driver: the page has all rows, loads no other files, sorts and zooms in a browser.
set -euo pipefail
. "$(dirname "$0")/bench.sh"

name='a&"<b>.json' # of a file, with everything that HTML escapes

# measure RANKS FILE.json OPERATION OPTION...
measure() {
    local n=$1 file=$2
    shift 2
    "$bin/symm-run" --emulated -n "$n" --timeout 200 "$bin/symm-bench" "$@" --iters 2 --warmup 0 --json "$file"
}

make_page() {
    command -v python3 >/dev/null || skip "no Python"
    run 0 measure 2 "$name" all-reduce --algo one_shot,two_shot --sizes 1K,64K,4K --check
    run 0 measure 2 again.json all-reduce --algo one_shot --sizes 64K
    run 0 measure 2 product.json all-gather-matmul -m 64 -n 64 -k 64
    run 0 measure 2 links.json p2p --sizes 16 --how put,signal
    run 0 "$bin/symm-bench" report "$name" again.json product.json links.json -o page.html --floor 100
    [ "$(echo page*)" = page.html ] || die "other files beside the page: $(echo page*)"
}

case_page() {
    make_page
    python3 - page.html "$name" again.json product.json links.json <<'PY' 2>"$work/err" || die "the page is wrong"
import html.parser, json, re, sys

class Page(html.parser.HTMLParser):
    """Collects tables ({caption: rows}), the texts of pictures, and headings."""
    def __init__(self, text):
        super().__init__()
        self.tables, self.pictures, self.headings, self.tags, self.inside = {}, [], [], set(), []
        self.feed(text)
    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        self.inside.append(tag)
        if tag == "svg":
            self.pictures.append("")
        elif tag == "tr":
            self.row = []
        elif tag == "td":
            self.row.append("")
    def handle_endtag(self, tag):
        while self.inside.pop() != tag:
            pass
        if tag == "tr" and "tbody" in self.inside:
            self.rows.append(self.row)
    def handle_data(self, text):
        if "svg" in self.inside:
            self.pictures[-1] += text
        elif self.inside[-1:] == ["caption"]:
            self.rows = self.tables[text] = []
        elif self.inside[-1:] == ["h3"]:
            self.headings.append(text)
        elif self.inside[-1:] == ["td"]:
            self.row[-1] += text

text = open(sys.argv[1], encoding="utf-8").read()
page = Page(text)
for mark in "http:", "https:", "src=", "href=", "url(", "@import", "fetch(", "import(":
    assert mark not in text, f"the page loads other files: {mark}"
assert not page.tags & {"b", "link", "img", "iframe"}, page.tags
assert page.headings == sys.argv[2:], page.headings
assert len(page.pictures) == 3 and len(page.tables) == 6, (len(page.pictures), list(page.tables))
for shown in page.pictures + list(page.tables):
    assert "emulated on CPUs" in shown, f"not marked: {shown}"
cell = lambda v: {None: "-", True: "yes", False: "no"}[v] if v is None or isinstance(v, bool) else \
    f"{v:.6g}" if isinstance(v, float) else str(v)
for path in sys.argv[2:]:
    file = json.load(open(path))
    found = page.tables[f"all rows of {path} (emulated on CPUs: no performance)"]
    assert found == [[cell(v) for v in row.values()] for row in file["rows"]], path
    for fact in file["device"], file["host"], file["seed"], file["version"]:
        assert fact in text, fact
times = page.tables["time_us: all-reduce, 2 ranks, bfloat16, eager (emulated on CPUs: no performance)"]
assert [row[0] for row in times] == ["1024", "4096", "65536"] and times[1][3] == "-" != times[2][3], times
assert [row[4] for row in times] == ["0.01024", "0.04096", "0.65536"], "the floor"
PY
    grep -qF -- "--sizes 1K,64K,4K --check --iters 2 --warmup 0 --json &#x27;a&amp;&quot;&lt;b&gt;.json&#x27;" page.html ||
        die "no command"
    # Rows of a GPU have no mark, and the floor of its links.
    sed 's/SYMM emulated device[ 0-9]*/NVIDIA H200/; s/"driver": "emulated"/"driver": "cuda"/' again.json >gpu.json
    run 0 "$bin/symm-bench" report gpu.json -o page.html
    ! grep -q 'emulated on CPUs' page.html || die "this is a GPU"
    grep -q '<button type="button">floor: 395 GB/s<' page.html || die "no floor"
}

# chapters TITLE...: makes a page of the files in $files, and checks its chapters.
chapters() {
    run 0 "$bin/symm-bench" report "${files[@]}" -o page.html
    [ "$(grep -oE '<h2>[^<]*' page.html | cut -c5- | sed 's/ (emulated[^)]*)//')" = "$(printf '%s\n' "$@")" ] ||
        die "other chapters: $(grep -oE '<h2>[^<]*' page.html)"
}

case_suite() {
    command -v python3 >/dev/null || skip "no Python"
    run 0 measure 2 suite.json all-gather-matmul --suite random --seed 7 --count 2 --strategy auto,unfused
    run 0 "$bin/symm-bench" report suite.json -o page.html
    grep -q '<caption>ratios of times of suite.json' page.html || die "no table of the ratios"
    grep -qE '<td>[0-9]+ x [0-9]+ x [0-9]+</td>' page.html || die "no shape of the worst ratio"
    ! grep -q "{&#x27;" page.html || die "objects of Python"
}

case_model() {
    command -v python3 >/dev/null || skip "no Python"
    run 0 "$bin/symm-bench" model --hosts 2 --sizes 1M --json model.json
    run 0 "$bin/symm-bench" report model.json -o page.html
    grep -q '<h2>model</h2>' page.html || die "no chapter"
    grep -q '<caption>all rows of model.json</caption>' page.html || die "no rows"
    grep -qE 'symm-bench model --hosts 2 --sizes 1M --json model.json<' page.html || die "no command"
    grep -qE '<td>channels_per_rank [0-9]+, channel_gbs ' page.html || die "no constants"
    run 1 "$bin/symm-bench" plot model.json -o model.svg
    errors '^# symm-bench: plot: model.json: there are no results of an operation to draw$'
}

case_different_runs_are_apart() {
    command -v python3 >/dev/null || skip "no Python"
    run 0 measure 2 a.json all-reduce --sizes 1K --algo one_shot
    local words device option files
    while IFS='|' read -r option words; do
        # shellcheck disable=SC2086
        run 0 measure 2 b.json all-reduce --sizes 1K --algo one_shot $option
        files=(a.json b.json)
        chapters 'all-reduce, 2 ranks, bfloat16, eager' "all-reduce, 2 ranks, $words"
        # A picture of both names what they share.
        run 0 "$bin/symm-bench" plot "${files[@]}" -o out.svg
        has_words out.svg '>all-reduce, 2 ranks, bfloat16, eager (emulated'
    done <<'END'
--memory plain|bfloat16, eager, plain memory
--in-place|bfloat16, eager, in place
--op max|max, bfloat16, eager
END
    run 0 measure 2 norms.json all-reduce-rms-norm --hidden 64 --sizes 1K
    run 0 measure 2 root.json broadcast --root 1 --sizes 1K
    files=(norms.json root.json)
    chapters 'all-reduce-rms-norm, 2 ranks, bfloat16, eager, rows of 64' 'broadcast, 2 ranks, bfloat16, eager, from rank 1'
    for device in 'NVIDIA H100' 'NVIDIA H200'; do
        sed "s/SYMM emulated device[ 0-9]*/$device/; s/\"driver\": \"emulated\"/\"driver\": \"cuda\"/" a.json >"$device.json"
    done
    files=('NVIDIA H100.json' 'NVIDIA H200.json')
    chapters 'all-reduce, 2 ranks, bfloat16, eager, NVIDIA H100' 'all-reduce, 2 ranks, bfloat16, eager, NVIDIA H200'
    # The link of one device is no floor of another one.
    run 0 "$bin/symm-bench" plot 'NVIDIA H200.json' 'NVIDIA H100.json' -o out.svg
    ! grep -q floor out.svg || die "the floor of one of two devices"
}

case_errors() {
    run 0 measure 2 out.json all-reduce --sizes 1K
    mkdir empty
    run 1 env PATH="$work/empty" "$bin/symm-bench" report out.json -o page.html
    errors '^# symm-bench: report: python3 is not there: install '
    command -v python3 >/dev/null || skip "no Python"
    run 1 "$bin/symm-bench" report out.json nothing.json -o page.html
    errors '^# symm-bench: report: nothing.json: No such file'
    echo '[1' >broken.json
    run 1 "$bin/symm-bench" report out.json broken.json -o page.html
    errors '^# symm-bench: report: broken.json: no JSON of symm-bench: '
    run 0 "$bin/symm-info" --driver emulated --json
    cp "$work/out" info.json
    run 1 "$bin/symm-bench" report out.json info.json -o page.html
    errors '^# symm-bench: report: info.json: no JSON of symm-bench: no operation and rows$'
    [ ! -e page.html ] || die "a page in spite of an error"
    run 1 "$bin/symm-bench" report out.json -o no/such/page.html
    errors '^# symm-bench: report: no/such/page.html: No such file'
    [ ! -c /dev/full ] || run 1 "$bin/symm-bench" report out.json -o /dev/full
    # The page gives the reason of a failed run, and of a missing picture.
    run 1 measure 2 failed.json all-reduce --algo one_shot --sizes 1K --peer nccl
    run 0 "$bin/symm-bench" report failed.json -o page.html
    grep -q '<p class="error">This run failed: .*--peer nccl cannot run here' page.html || die "no reason"
    grep -q '<p>No picture: failed.json: there are no results' page.html || die "no reason for no picture"
}

case_browser() {
    local chromium
    chromium=$(command -v chromium chromium-browser google-chrome | sed -n 1p) || skip "no Chromium"
    make_page
    cat >>page.html <<'HTML'
<script>
const found = {orders: []}, tables = [...document.querySelectorAll("table")];
for (const [caption, name] of [["all rows of a&", "bytes"], ["all rows of a&", "bytes"], ["all rows of a&", "algo"],
                               ["time_us: all-reduce", "one_shot, again.json"]]) {
    const table = tables.find(each => each.caption?.textContent.startsWith(caption));
    const head = [...table.tHead.rows[0].cells].find(each => each.textContent === name);
    head.firstChild.click();
    found.orders.push([...table.tBodies[0].rows].map(row => row.cells[head.cellIndex].textContent).join());
}
const svg = document.querySelector("svg"), box = svg.getBoundingClientRect(), label = svg.querySelector("[data-up]");
const view = () => svg.getAttribute("viewBox").split(" ").map(each => Math.round(each)).join(" ");
const drag = (type, x, y) => svg.dispatchEvent(new PointerEvent(type, {
    bubbles: true, clientX: box.left + x * box.width, clientY: box.top + y * box.height}));
found.views = [view()];
drag("pointerdown", 0.3, 0.6), drag("pointermove", 0.4, 0.4), drag("pointerup", 0.2, 0.3);
found.views.push(view());
found.dots = +svg.querySelector("circle").getAttribute("r");
found.label = +label.getAttribute("y") < svg.viewBox.baseVal.y + svg.viewBox.baseVal.height;
svg.dispatchEvent(new MouseEvent("dblclick", {bubbles: true}));
found.views.push(view());
found.loaded = performance.getEntriesByType("resource").length;
document.title = JSON.stringify(found);
</script>
HTML
    run 0 env HOME="$work" TMPDIR="$work" timeout 120 "$chromium" --headless --no-sandbox --disable-gpu \
        --user-data-dir="$work/profile" --window-size=1280,1000 --dump-dom "file://$work/page.html"
    height=$(grep -oE 'viewBox="0 0 1200 [0-9]+' page.html | sed -n 1p | grep -oE '[0-9]+$')
    [ "$(grep -c '<title>{' "$work/out")" = 1 ] || die "the page's script failed"
    python3 - "$work/out" "$height" <<'PY' 2>"$work/err" || die "the browser shows something else"
import json, re, sys
found = json.loads(re.search("<title>(.*)</title>", open(sys.argv[1]).read())[1])
height = int(sys.argv[2])
orders = found["orders"]
assert orders == ["1024,1024,4096,4096,65536,65536", "65536,65536,4096,4096,1024,1024",
                  "one_shot,one_shot,one_shot,two_shot,two_shot,two_shot", orders[3]], found
assert orders[3].endswith(",-,-"), orders  # empty cells are last
part = 120, 0.3 * height, 360, 0.3 * height  # around the middle of the dragged part
assert found["views"][::2] == [f"0 0 1200 {height}"] * 2, found
assert all(abs(int(one) - other) < 3 for one, other in zip(found["views"][1].split(), part)), (found, part)
assert abs(found["dots"] - 0.9) < 0.01 and found["label"] and found["loaded"] == 0, found
PY
}

main "$2"
