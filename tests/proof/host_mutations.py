#!/usr/bin/env python3
"""Mutations of host code: each is built alone and must make a test fail.

host_mutations.py SOURCE WORK [--jobs N] [--threads N] [--cmake=-DNAME=VALUE ...] [--only EXPRESSION]
host_mutations.py --check     only whether the lines of each mutation stand once in their file

Copies the sources into N new folders below WORK, builds the tests there, and shares the mutations of host_mutations.txt among the
folders. Runs the tests without a mutation first: a test that fails then is shown and left out. A test kills a mutation if it
fails twice, since a busy machine may be too slow once. Prints a line for each mutation: killed, with the test that failed, or
survived. Returns 1 if a mutation survives that is not marked as equivalent.
"""
import argparse
import queue
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

# By area: expressions of tests, cheap ones first. A test of a later expression runs if the earlier ones have found nothing.
TESTS = {
    "hub": ["unit/test_(hub_.*|join|message|packet_call)$",
            "fuzz/hub_made_up|emulated/test_(exchange.*|place|rendezvous)$",
            "emulated/test_(joining_misuse|context|group|leave|mismatch|abort|late|misuse|alloc|faults|order|promise)$"],
    "span": ["emulated/test_spanning.*$"],
    "domains": ["unit/test_(meeting|wire)$|emulated/test_domains.*$"],
    "memory": ["unit/test_(heap|offset_allocator)$",
               "emulated/test_(alloc|memory|register|dlpack.*|pointers|getters|signal|view|stream)$",
               "emulated/test_(multicast|misuse|context|group|exchange|place|faults)$"],
    "plan": ["unit/test_(plan|choice|copy_engine)$",
             "emulated/test_(collectives/.*|bad_collectives/.*|packets|tuning)$"],
    "collect/": ["unit/test_matmul_sums$", "emulated/test_matmul_(collect|sums|packs|bands|faults)$"],
    "operation": ["unit/test_cublas$", "emulated/test_matmul_faults$"],
    "matmul": ["unit/test_(cublas|cublas_candidates|cublas_tiles|cublas_trial|matmul_(model|order|plan))$", "emulated/test_matmul_(sums|packs|misuse)$"],
}


def tests_for(path):
    rooms = {"engine/": "span", "spanning": "span", "gather": "domains", "hierarchical": "span", "place_blocks": "span", "root/": "domains", "relay": "domains", "domains": "domains", "span": "domains", "cards": "domains",
             "meeting": "domains", "comm_create": "domains", "collectives": "plan", "memory": "memory", "collect/": "collect/",
             "matmul/operation": "operation", "matmul": "matmul", "settled": "matmul"}
    return TESTS[next((tests for room, tests in rooms.items() if room in path), "hub")]


def read_table(path):
    mutations, current = [], None
    for line in path.read_text().splitlines():
        if line.startswith("== "):
            name, text = line[3:].split(" | ", 1)
            current = {"file": name, "text": text, "old": [], "new": [], "equivalent": None}
            mutations.append(current)
        elif line.startswith("= equivalent: "):
            current["equivalent"] = line[14:]
        elif line.startswith("-"):
            current["old"].append(line[1:])
        elif line.startswith("+"):
            current["new"].append(line[1:])
    return mutations


def lines_of(mutation, which):
    return "\n".join(mutation[which]) + "\n"


def check(mutations):
    root = Path(__file__).parents[2]
    stale = [m for m in mutations if (root / m["file"]).read_text().count(lines_of(m, "old")) != 1]
    for m in stale:
        print(f"host_mutations.txt: the lines of \"{m['text']}\" do not stand once in {m['file']}", file=sys.stderr)
    return 1 if stale else 0


class Folder:
    def __init__(self, source, place, options):
        self.source, self.place, self.options = source, place, options
        self.build = place / "build"

    def run(self, *command, timeout=600):
        try:
            return subprocess.run(command, cwd=self.place, timeout=timeout, text=True, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 124, "", "")

    def prepare(self):
        shutil.rmtree(self.place, ignore_errors=True)  # programs of an earlier run may have its last mutation
        shutil.copytree(self.source, self.place, ignore=shutil.ignore_patterns("build*", ".git", ".dev", ".cuda"))
        done = self.run("cmake", "-S", ".", "-B", "build", "-G", "Ninja", "-DSYMM_CUDA=OFF", *self.options.cmake)
        if done.returncode:
            return done
        self.names = re.findall(r": (\S+/\S+)$", self.run("ctest", "--test-dir", "build", "-N").stdout, re.MULTILINE)
        for stages in TESTS.values():
            done = self.make("|".join(stages))
            if done.returncode:
                return done
        if "-DSYMM_MULTICAST=OFF" in self.options.cmake:
            done = self.run("tests/lint/no_multicast.sh", "build")
        return done

    def make(self, expression):
        """Builds the programs of these tests: unit_test_heap of unit/test_heap, fuzz_hub of fuzz/hub_made_up."""
        programs = {"_".join(re.sub("_made_up$", "", name).split("/")[:2]) for name in self.names
                    if re.search(expression, name)}
        return self.run("cmake", "--build", "build", "-j", str(self.options.threads), "--target", "symm", "symm_emulated",
                        *sorted(programs))

    def ctest(self, expression, *options):
        """The tests that fail, and ctest's output."""
        done = self.run("ctest", "--test-dir", "build", "-R", expression, "-j", str(self.options.threads), "--timeout", "120",
                        "--output-on-failure", *options, timeout=1200)
        failed = re.findall(r"^\s+\d+ - (\S+) \((?!Skipped|Disabled|Not Run)", done.stdout, re.MULTILINE)
        return (failed or ["ctest"]) if done.returncode else [], done.stdout

    def mutate(self, mutation):
        path = self.place / mutation["file"]
        text = path.read_text()
        old, new = lines_of(mutation, "old"), lines_of(mutation, "new")
        if text.count(old) != 1:
            return "not applied", f"its lines stand {text.count(old)} times in the file"
        path.write_text(text.replace(old, new))
        try:
            for expression in tests_for(mutation["file"]):
                done = self.make(expression)
                if done.returncode:
                    errors = [line for line in done.stdout.splitlines() if "error:" in line]
                    return "not built", errors[0] if errors else "timeout"
                failed, _ = self.ctest(expression, "--stop-on-failure", "--repeat", "until-pass:2", *self.options.without)
                if failed:
                    return "killed", failed[0]
            return "survived", mutation["equivalent"] or ""
        finally:
            path.write_text(text)


def work(folder, waiting, results):
    while True:
        try:
            number, mutation = waiting.get_nowait()
        except queue.Empty:
            return
        began = time.monotonic()
        outcome, detail = folder.mutate(mutation)
        results.append((outcome, mutation))
        print(f"# {number} {outcome}: {mutation['file']}: {mutation['text']}; {detail} ({time.monotonic() - began:.0f} s)",
              flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path, nargs="?")
    parser.add_argument("work", type=Path, nargs="?")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cmake", action="append", default=[])
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    if not options.check and not options.work:
        parser.error("SOURCE and WORK are needed")
    return options


def main():
    options = parse_arguments()
    waiting, results = queue.Queue(), []
    mutations = read_table(Path(__file__).with_suffix(".txt"))
    if options.check:
        return check(mutations)
    for number, mutation in enumerate(mutations, 1):
        if re.search(options.only, f"{mutation['file']}: {mutation['text']}"):
            waiting.put((number, mutation))
    folders = [Folder(options.source, options.work / str(i), options) for i in range(options.jobs)]
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in pool.map(Folder.prepare, folders):
            if done.returncode:
                print(done.stdout[-3000:])
                return 1
        left_out, output = folders[0].ctest("|".join(sum(TESTS.values(), [])), "-j", str(options.jobs * options.threads))
        if left_out:
            print(output, flush=True)
        options.without = ["-E", "^(" + "|".join(map(re.escape, left_out)) + ")$"] if left_out else []
        list(pool.map(lambda folder: work(folder, waiting, results), folders))
    bad = [r for r in results if r[0] != "killed" and not (r[0] == "survived" and r[1]["equivalent"])]
    killed = sum(r[0] == "killed" for r in results)
    print(f"# {len(results)} mutations of host code: {killed} killed, {len(bad)} to look at; "
          f"left out: {' '.join(left_out) or 'no test'}")
    return 1 if bad else 0


sys.exit(main())
