#!/usr/bin/env python3
"""Mutation tests of the device protocols.

    mutate.py weave SOURCE OUT    copies of the device headers and kernels of which every barrier,
                                  fence and order can be taken away at run time (PROOF_MUTANT=N)
    mutate.py run OUT PROGRAM     takes each of them away, one at a time: a protocol must fail

A site is named by file, function and its number there. redundant.txt lists the mutations that no
run can find, with the reason; they take the longest, so only PROOF_EXPLAINED=1 tries them.
PROOF_ONLY=TEXT tries the sites with that text in their name. PROOF_SINCE=COMMIT tries sites in
files that changed since, and PROOF_SAMPLE=N other sites at random. Exit code: 0 if a protocol
fails under every tried mutation, and none fails without a mutation.
"""
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# Removed code: pattern -> its replacements, one for each mutation of the site.
# {0} is the call's arguments.
OPERATORS = {
    "__syncthreads": ["(void)0"],
    "__syncthreads_or": ["(int)({0})"],
    "__syncthreads_and": ["(int)({0})"],
    "store_release": ["{q}store_relaxed({0})"],
    "load_acquire": ["{q}load_relaxed({0})"],
    "fetch_add": ["{q}fetch_add_acquire({0})", "{q}fetch_add_release({0})"],
    "compare_and_swap": ["{q}compare_and_swap_relaxed({0})"],
    "fence_alias": ["(void)0"],
    "fence_if_multicast": ["(void)0"],
    "fence_async": ["(void)0"],
    "bulk_wait": ["(void)0"],
    "symm_dev_barrier": ["(void)0"],
    "symm_dev_barrier_test_equal": ["true"],
    "symm_dev_barrier_require_equal": ["true"],
    "symm_dev_grid_sync": ["(void)0"],
    "symm_dev_grid_barrier": ["(void)0"],
    "symm_dev_aborted": ["false"],
    # One alone would only wait for ever: the n-th of a file goes with the n-th of the others. Where
    # waits peek, and all signals are taken at the end, each of them goes alone.
    "symm_dev_signal": ["(void)0"],
    "symm_dev_wait": ["(void)0"],
    "symm_dev_wait_peek": ["(void)0"],
    "symm_dev_arrive": ["(void)0"],
    "symm_dev_arrive_both": ["symm_dev_arrive_next({0})"],
    "symm_dev_epoch_begun": ["(void)0"],
    "symm_dev_await_epoch": ["true"],
    "symm_dev_wait_all": ["(void)0"],
    "symm_dev_wait_all_test_equal": ["true"],
    "symm_dev_wait_all_require_equal": ["true"],
    "symm_dev_wait_all_both": ["symm_dev_wait_all_next({0})"],
}
# Of the Hopper kernel, and of norms whose rows blocks share.
PIPELINE_OPERATORS = {
    "__syncwarp": ["(void)0"],
    "bulk_commit": ["(void)0"],
    "bulk_wait_all": ["(void)0"],
    "cluster_arrive": ["(void)0"],
    "cluster_expect": ["(void)0"],
    "cluster_meet": ["(void)0"],
    "cluster_store": ["(void)0"],
    "cluster_sync": ["(void)0"],
    "cluster_wait": ["(void)0"],
    "consumer_meet": ["(void)0"],
    "fence_barriers": ["(void)0"],
    "mbarrier_arrive": ["(void)0"],
    "mbarrier_arrive_here": ["(void)0"],
    "mbarrier_expect": ["(void)0"],
    "mbarrier_acquire": ["(void)0"],
    "mbarrier_release": ["(void)0"],
    "mbarrier_wait": ["(void)0"],
    "wgmma_commit": ["(void)0"],
    "wgmma_fence": ["(void)0"],
    "wgmma_wait": ["(void)0"],
    "wgmma_wait_but_one": ["(void)0"],
}
OPERATORS.update(PIPELINE_OPERATORS)
PIPELINE = ["mainloop.cuh", "persistent.cuh", "plain.cuh", "split.cuh", "store.cuh", "box_store.cuh",
            "followers.cuh", "shared_k.cuh", "all_reduce_rms_norm.cuh"]
SENT = {"symm_dev_signal": "signal and wait", "symm_dev_arrive": "arrive and wait",
        "symm_dev_arrive_both": "arrive and wait", "symm_dev_epoch_begun": "tell and await"}
AWAITED = {"symm_dev_wait": "signal and wait", "symm_dev_wait_all": "arrive and wait",
           "symm_dev_wait_all_test_equal": "arrive and wait",
           "symm_dev_wait_all_require_equal": "arrive and wait",
           "symm_dev_wait_all_both": "arrive and wait", "symm_dev_await_epoch": "tell and await"}
PAIRS = {**SENT, **AWAITED}
CALL = re.compile(r"(?<![\w:])((?:symm_detail::|sm90::)?)(%s)\(" % "|".join(OPERATORS))
# Statements that are no calls: what they are called, the pattern, and what takes its place; {n} is
# the number of the mutation, {0} the match.
STATEMENTS = {
    "poison check": (re.compile(r"\bif \(poison\)(?=\s*return;)"),
                     "if (poison && proof_mutant != {n})"),
    "clear": (re.compile(r"\bsymm_dev_store_bits\(&s\.all\[i\], symm_bits16\{\}\)"),
              "(proof_mutant == {n} ? (void)0 : {0})"),
    "last strip": (re.compile(r"\(row \+ t\.rows - 1\)"),
                   "(proof_mutant == {n} ? row : row + t.rows - 1)"),
    "silence": (re.compile(r"\bs\.flag = 0(?=;)"),
                "s.flag = proof_mutant == {n} ? s.flag : 0"),
    "deafness": (re.compile(r"\blive = symm_dev_take_packs(?=(?:<1>)?\()"),
                 "live = (proof_mutant == {n} && live) | symm_dev_take_packs"),
    "hearing": (re.compile(r"\(b\.first == 0\)"), "(b.first == 0 && proof_mutant != {n})"),
    "hearing among receivers": (re.compile(r"(?<=if \(b\.first == 0\)\n {12})(?=hear_of_all)"),
                                "if (proof_mutant != {n} || is_root) "),
    "set": (re.compile(r"\(epoch & 1\) \* \(a\.block_slots / 2\)"),
            "(proof_mutant == {n} ? 0 : (epoch & 1) * (a.block_slots / 2))"),
    "bytes": (re.compile(r"\bS::rows_loaded\(args\) \+"),
              "(proof_mutant == {n} ? 0 : S::rows_loaded(args)) +"),
    "read boxes": (re.compile(r"\bbulk_wait_read<[^;]*>\(\)(?=;)"),
                   "(proof_mutant == {n} ? (void)0 : {0})"),
    "set of slots": (re.compile(r"\bruns % SYMM_PART_SETS(?=;)"),
                     "(proof_mutant == {n} ? 0 : {0})"),
    "sets of packs": (re.compile(r"\brun\.runs % SYMM_PACK_SETS\b"),
                      "(proof_mutant == {n} ? run.runs % 2 : {0})"),
    "meeting": (re.compile(r"\bsums\.await_begin\(\)(?=;)"),
                "(proof_mutant == {n} ? (void)0 : {0})"),
    "come": (re.compile(r"\(int32_t\)\(arrived - runs - 1\) >= 0"),
             "(proof_mutant == {n} || (int32_t)(arrived - runs - 1) >= 0)"),
    "wait of a run": (re.compile(r"\bawait_signal\((?!const)[^;]*\)(?=;)"),
                      "(proof_mutant == {n} ? (void)0 : {0})"),
    "count of runs": (re.compile(r"(?<=symm_dev_load_one\(runs\) \+ )1\b"),
                      "(proof_mutant != {n})"),
    "results of a part": (re.compile(r"\bif \(w\.part > 0\)(?=\n\s*t\.rows = 0;)"),
                          "if (w.part > 0 && proof_mutant != {n})"),
    "late": (re.compile(r"\breturn leave\(t\)"),
             "return (proof_mutant == {n} ? (void)0 : leave(t))"),
    "channel": (re.compile(r"\(int\)\(epoch & 1\)"), "(proof_mutant == {n} ? 0 : (int)(epoch & 1))"),
}
FUNCTION = re.compile(r"^ *(?:template <[^{;]*?> )?(?:SYMM_DEV(?:_IN_CLASS)?\b[^;{(]*?\b(\w+)(?=\()"
                      r"|SYMM_KERNEL\((\w+))", re.M)
# The device header's bodies.
INLINE = ["device_sync.cuh", "device_data.cuh", "device_packet.cuh"]
INCLUDE = re.compile(r'^#include "(.*\.cuh)"', re.M)
# Code that the emulated driver does not compile.
GPU_ONLY = re.compile(r"^#(?:if defined\(__CUDA_ARCH\w*\)|ifdef __CUDACC__)$.*?^#(?:else|endif)\b",
                      re.M | re.S)
# What the emulated driver has in place of instructions.
INSTRUCTIONS = ["ptx_emulated.cuh"]
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)

# The protocols most likely to find a mutation, by its function, or by function and file.
FIRST = {
    "block_sum": ["rms_norm_low_latency"],
    "norm_rows": ["rms_norm_low_latency"],
    "all_reduce_rms_norm_low_latency_two_shot": ["rms_norm_low_latency_two_shot"],
    "all_reduce_rms_norm_lamport": ["rms_norm_lamport"],
    "claim": ["record"],
    "write_record": ["record"],
    "withdraw_record": ["record"],
    "record_mismatch": ["mismatch"],
    "signal": ["silence", "signal", "pairs"],
    "poll_again": ["record", "abort"],
    "wait": ["signal", "barrier"],
    "fence_if_multicast": ["barrier_multicast"],
    "arrive": ["barrier", "barrier_multicast"],
    "wait_all": ["barrier_multicast"],
    "grid_arrive": ["grid_sync", "grid_barrier"],
    "grid_open": ["grid_barrier", "grid_sync"],
    "grid_wait": ["grid_sync"],
    "grid_barrier": ["grid_barrier", "grid_sync", "grid_barrier_multicast"],
    "symm_dev_arrive": ["split", "split_multicast"],
    "symm_dev_wait_all": ["split", "split_multicast"],
    "symm_dev_barrier": ["barrier"],
    "symm_dev_barrier_test_equal": ["agree"],
    "symm_dev_barrier_require_equal": ["insist", "mismatch"],
    "symm_dev_wait_all_test_equal": ["flight", "agree"],
    "symm_dev_wait_all_require_equal": ["flight", "mismatch"],
    "symm_dev_wait_all_both": ["flight", "mismatch"],
    "symm_dev_aborted": ["silence"],
    "symm_dev_put_bulk": ["put"],
    "symm_dev_epoch": ["packets"],
    "symm_dev_block_sum": ["block_sum"],
    "next_epoch": ["wrap"],
    "receive_one": ["hearsay"],
    "receive_from": ["hearsay"],
    "receive_all": ["hearsay"],
    "begin": ["lamport", "reduce_scatter_lamport"],
    "meet": ["lamport", "reduce_scatter_lamport"],
    "take": ["hearsay"],
    "take_one": ["hearsay"],
    "all_reduce_by_reading": ["one_shot", "multimem", "multimem_one_shot"],
    "reduce_by_writing": ["two_shot"],
    "exchange": ["two_shot", "reduce_scatter_one_shot", "all_gather_one_shot",
                 "broadcast_one_shot"],
    "broadcast.cuh take": ["roots", "broadcast_low_latency"],
    "staging.cuh arrive": ["two_shot", "reduce_scatter_one_shot", "all_gather_one_shot"],
    "reduce_scatter_multimem": ["reduce_scatter_multimem"],
    "gather_by_writing": ["all_gather_one_shot", "all_gather_multimem", "broadcast_one_shot",
                          "broadcast_multimem"],
    "stream_signal": ["stream_signal"],
    "await_chunk": ["matmul_fused"],
    "end_arrivals": ["matmul_fused"],
    "await_rows": ["matmul_pipelined"],
    "needed": ["matmul_late"],
    "matmul_product": ["matmul_fused"],
    "signal_workspace_free": ["matmul_fused", "matmul_pipelined"],
    "open_round": ["matmul_fused", "matmul_pipelined", "matmul_silence"],
    "reserve_signals": ["matmul_silence"],
    "push_rows": ["matmul_fused", "matmul_pipelined", "matmul_silence"],
    "collect_reduce_scatter": ["matmul_reduce_scatter"],
    "signal_parts": ["matmul_reduce_scatter_fused"],
    "collect_all_reduce": ["matmul_all_reduce"],
    "collect_all_scatter": ["matmul_all_scatter"],
    "stream_barrier": ["stream_barrier", "all_gather_copy_engine"],
    "stream_meet": ["all_gather_copy_engine", "copy_engine", "reduce_scatter_copy_engine"],
}
# The protocols for kernels of the library that FIRST does not name.
LIBRARY = ["low_latency", "low_latency_two_shot", "lamport", "one_shot", "two_shot", "multimem",
           "multimem_one_shot", "reduce_scatter_low_latency", "reduce_scatter_lamport",
           "reduce_scatter_one_shot",
           "reduce_scatter_multimem", "all_gather_low_latency", "all_gather_one_shot",
           "all_gather_multimem", "copy_engine", "reduce_scatter_copy_engine",
           "all_gather_copy_engine", "broadcast_low_latency", "broadcast_one_shot",
           "broadcast_multimem", "broadcast_copy_engine", "stream_signal", "stream_barrier"]

# (ranks, threads of a block, seeds), tried one after the other: of the Hopper kernel and of norms
# whose rows blocks share.
WIDE_WORLDS = [(2, 512, 20), (3, 512, 40), (2, 512, 100)]
PAIR_WORLDS = [(2, 512, 20), (2, 512, 100)]  # only two ranks have parts
BANDS_WORLDS = [(3, 512, 40), (4, 512, 60), (3, 512, 100)]  # two ranks have parts instead
# Its files and functions, with the worlds and protocols that find their mutations. The first match.
WIDE = [
    # Parts that a product adds.
    (["box_store.cuh", "followers.cuh", "runs.cuh", "sum_parts.cuh", "add_late", "await_parts",
      "collect_late_parts", "collect_parts"],
     PAIR_WORLDS, ["hopper_reduce_scatter", "hopper_all_reduce"]),
    # Only fused all-reduces of few rows have packs.
    (["sum_packs.cuh", "collect_packs", "put_sums"], WIDE_WORLDS, ["hopper_packs"]),
    (["shared_k.cuh", "matmul_wgmma"], WIDE_WORLDS, ["hopper_stream_k", "hopper_fused"]),
    (["plain.cuh"], WIDE_WORLDS, ["hopper_plain"]),
    (["sum_bands.cuh"], BANDS_WORLDS, ["hopper_bands"]),
    (["expect_sums", "cluster_sum", "norm_part"], WIDE_WORLDS, ["rms_norm_clusters"]),
    (["put_to_receiver"], WIDE_WORLDS, ["hopper_all_scatter", "hopper_reduce_scatter"]),
    (["mainloop.cuh", "persistent.cuh", "split.cuh", "store.cuh"],
     WIDE_WORLDS, ["hopper_fused", "hopper_pipelined", "hopper_unfused"]),
]
# The same of all other protocols.
WORLDS = [(3, 32, 60), (2, 3, 60), (4, 64, 60), (3, 64, 200), (8, 32, 100), (5, 3, 200)]
EVERYTHING = [(3, 32, 12), (4, 3, 12)]
# Some mutations are found in one run of fifty, and threads meet at random: a survivor is tried again.
ATTEMPTS = 3
BASELINE = [(3, 32, 6), (2, 3, 6), (4, 64, 6), (8, 32, 6), (5, 3, 6), (3, 512, 6)]


def redundant(source):
    """{site: reason} from redundant.txt: a site a line, a colon, the reason."""
    out = {}
    for line in (source / "redundant.txt").read_text().splitlines():
        if line.strip() and not line.startswith("#"):
            site, reason = line.split(": ", 1)
            out[site] = reason
    return out


# ---------------------------------------------------------------------------------------- weaving


def closing(text, at):
    """The index of the parenthesis that closes the one before `at`."""
    depth = 1
    while depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at - 1


class Weaver:
    def __init__(self):
        self.sites = []  # index + 1 is the number of the mutation
        self.pairs = {}

    def number(self, site):
        self.sites.append(site)
        return len(self.sites)

    def name(self, path, text, at, what, seen):
        functions = [m for m in FUNCTION.finditer(text, 0, at)]
        function = functions[-1].group(1) or functions[-1].group(2)
        key = (function, what)
        seen[key] = seen.get(key, 0) + 1
        return {"file": path.name, "function": function, "what": what, "nth": seen[key]}

    def mutations(self, path, text, at, what, seen):
        """The numbers of the mutations of this call."""
        if what in PAIRS and "symm_dev_wait_peek(" not in text:
            side = (what in SENT, PAIRS[what])
            seen[side] = seen.get(side, 0) + 1
            key = (path.name, PAIRS[what], seen[side])
            if key not in self.pairs:
                site = self.name(path, text, at, PAIRS[what], seen)
                self.pairs[key] = self.number({**site, "nth": seen[side]})
            return [self.pairs[key]]
        site = self.name(path, text, at, what, seen)
        variants = OPERATORS[what]
        names = [what] if len(variants) == 1 else [what + " release", what + " acquire"]
        return [self.number({**site, "what": name}) for name in names]

    def weave(self, path, text):
        unwoven = [m.span() for p in (COMMENT, GPU_ONLY) for m in p.finditer(text)]
        defined = {m.end(1) for m in FUNCTION.finditer(text) if m.group(1)}
        seen, edits = {}, []
        for what, (pattern, instead) in STATEMENTS.items():
            for m in pattern.finditer(text):
                number = self.number(self.name(path, text, m.start(), what, seen))
                choice = instead.replace("{n}", str(number)).replace("{0}", m.group())
                edits.append((m.start(), m.end(), choice, None))
        for m in CALL.finditer(text):
            if any(a <= m.start() < b for a, b in unwoven):
                continue
            qualifier, what = m.groups()
            if m.end(2) in defined or (path.name in INLINE and what in PAIRS):
                continue
            if what in PIPELINE_OPERATORS and path.name not in PIPELINE:
                continue
            end = closing(text, m.end())
            numbers = self.mutations(path, text, m.start(), what, seen)
            choice = "".join(f"proof_mutant == {n} ? {instead} : "
                             for n, instead in zip(numbers, OPERATORS[what]))
            edits.append((m.start(), end + 1, choice, (qualifier, m.end(), end)))
        return self.apply(text, edits)

    def apply(self, text, edits):
        """Innermost last, so that calls inside of arguments are woven, too: from the back."""
        for start, end, choice, call in sorted(edits, reverse=True):
            if call is None:
                text = text[:start] + choice + text[end:]
                continue
            qualifier, first, _ = call
            last = closing(text, first)
            arguments = text[first:last]
            whole = text[start:last + 1]
            choice = choice.replace("{0}", arguments).replace("{q}", qualifier)
            text = f"{text[:start]}({choice}{whole}){text[last + 1:]}"
        return text


def emulated(path, source):
    """The kernel files that the emulated driver has: all that is included but on GPUs only."""
    text = GPU_ONLY.sub("", path.read_text())
    out = {path}
    for name in INCLUDE.findall(text):
        beside = path.parent / name
        out |= emulated(beside if beside.exists() else source / "src" / name, source)
    return out


def weave(source, out):
    weaver = Weaver()
    inline = [source / "include/symm/detail" / name for name in INLINE]
    images = list((source / "src").rglob("*.cu"))
    kernels = sorted({p for image in images for p in emulated(image, source)
                      if p.suffix == ".cuh" and p.name not in INSTRUCTIONS})
    beside = [p for p in (source / "src").rglob("*") if p.suffix in (".cuh", ".def", ".h")]
    for path in [*(source / "include").rglob("*.*"), *images, *beside]:
        if path in inline or path in kernels:
            continue
        write(out / path.relative_to(source), path.read_text())
    write(out / "include/symm/detail/mutants.cuh", (source / "tests/proof/mutants.cuh").read_text())
    for path in [*inline, *kernels]:
        text = weaver.weave(path, path.read_text())
        if path == inline[0]:  # which the others include
            text = text.replace("namespace symm_detail",
                                "#include <symm/detail/mutants.cuh>\n\nnamespace symm_detail", 1)
        write(out / path.relative_to(source), text)
    for what in [*STATEMENTS, *PAIRS.values()]:
        if not any(site["what"] == what for site in weaver.sites):
            sys.exit(f"there is no {what} any more")
    write(out / "sites.json", json.dumps(weaver.sites, indent=1))


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


# ---------------------------------------------------------------------------------------- running


def title(site):
    return f"{site['file']} {site['function']} {site['what']} {site['nth']}"


def attempt(program, number, ranks, block, seeds, protocols):
    """Returns None if every protocol passed, else a text that names the failure."""
    environment = {**os.environ, "PROOF_MUTANT": str(number), "SYMM_TIMEOUT_MS": "2000",
                   "SYMM_EMULATED_LEAKS": "off"}
    command = [program, str(ranks), str(block), "0", str(seeds), *protocols]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    if done.returncode == -signal.SIGALRM:
        return f"{' '.join(protocols) or 'some protocol'}, of which a run does not end"
    failed = re.search(r"# failed: (\w+) after (\d+) runs", done.stdout)
    if failed:
        return f"{failed.group(1)} after {failed.group(2)} runs"
    return f"a crash ({done.returncode}): {done.stderr.strip()[-200:]}"


def judge_in(worlds, program, number, protocols):
    for ranks, block, seeds in worlds:
        found = attempt(program, number, ranks, block, seeds, protocols)
        if found:
            return f"{found} ({ranks} ranks, blocks of {block})"
    return None


def judge(program, number, site):
    for names, worlds, protocols in WIDE:
        if site["file"] in names or site["function"] in names:
            return judge_in(worlds * ATTEMPTS, program, number, protocols)
    inline = site["file"] in INLINE
    first = (FIRST.get(f"{site['file']} {site['function']}") or
             FIRST.get(site["function"], ["barrier", "signal"] if inline else LIBRARY))
    return (judge_in(WORLDS * ATTEMPTS, program, number, first) or
            judge_in(EVERYTHING, program, number, []))


def changed_since(here, commit):
    command = ["git", "-C", str(here), "diff", "--name-only", commit]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return {Path(line).name for line in done.stdout.splitlines()}


def select(here, numbered):
    """Picks mutations of changed files and a random sample of the others; all without PROOF_SINCE."""
    since, size = os.environ.get("PROOF_SINCE"), int(os.environ.get("PROOF_SAMPLE", "0"))
    if not since:
        return numbered
    changed = changed_since(here, since)
    chosen = [pair for pair in numbered if Path(pair[1]["file"]).name in changed]
    others = [pair for pair in numbered if pair not in chosen]
    seed = int(os.environ.get("SYMM_TEST_SEED") or random.getrandbits(32))
    sample = random.Random(seed).sample(others, min(size, len(others)))
    print(f"# of {len(numbered)} mutations: {len(chosen)} of files changed since {since}, and "
          f"{len(sample)} of the others by SYMM_TEST_SEED={seed}", flush=True)
    return chosen + sample


def run(here, out, program):
    start = time.monotonic()
    sites = json.loads((out / "sites.json").read_text())
    explained = redundant(here)
    only = os.environ.get("PROOF_ONLY", "")
    for ranks, block, seeds in BASELINE:
        found = attempt(program, 0, ranks, block, seeds, [])
        if found:
            print(f"# without any mutation: {found}")
            return 1
    survivors = unused = 0
    chosen = [(n, s) for n, s in enumerate(sites, 1) if only in title(s)]
    if not os.environ.get("PROOF_EXPLAINED"):
        for _, site in chosen:
            if title(site) in explained:
                print(f"{title(site)}: NOT TRIED, explained: {explained[title(site)]}")
        chosen = [(n, s) for n, s in chosen if title(s) not in explained]
    chosen = select(here, chosen)
    with ThreadPoolExecutor(int(os.environ.get("PROOF_JOBS", "3"))) as pool:
        verdicts = pool.map(lambda pair: judge(program, *pair), chosen)
        for (_, site), found in zip(chosen, verdicts):
            reason = explained.get(title(site))
            if found:
                print(f"{title(site)}: found by {found}", flush=True)
                unused += reason is not None
            else:
                why = ", explained: " + reason if reason else ""
                print(f"# {title(site)}: SURVIVED{why}", flush=True)
                survivors += reason is None
    for name in explained.keys() - {title(s) for s in sites}:
        print(f"# redundant.txt names a mutation that does not exist: {name}")
        survivors += 1
    print(f"{len(chosen)} mutations, {survivors} survived unexplained, "
          f"{len(explained)} explained ({unused} of them found), "
          f"{time.monotonic() - start:.0f} s")
    return 1 if survivors else 0


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in ("weave", "run"):
        sys.exit(__doc__)
    if sys.argv[1] == "weave":
        weave(Path(sys.argv[2]), Path(sys.argv[3]))
        return 0
    return run(Path(__file__).parent, Path(sys.argv[2]), sys.argv[3])


if __name__ == "__main__":
    sys.exit(main())
