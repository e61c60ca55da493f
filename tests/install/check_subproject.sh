#!/usr/bin/env bash
# Builds symm by add_subdirectory(). The parent's program runs. symm adds no tests, installs nothing and keeps GPU code
# in the parent's build folder.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "check_subproject.sh: $*" >&2
    exit 1
}

quietly() {
    "$@" >"$work/log" 2>&1 || {
        cat "$work/log" >&2
        fail "failed: $*"
    }
}

quietly cmake -S "$here/subproject" -B "$work/build" -DSYMM_CUDA=OFF
grep -q "^SYMM_FATBIN_CACHE:PATH=$work/build/" "$work/build/CMakeCache.txt" ||
    fail "$(grep SYMM_FATBIN_CACHE: "$work/build/CMakeCache.txt")"
tests=$(ctest --test-dir "$work/build" -N 2>/dev/null | sed -nE 's/^ *Test +#[0-9]+: //p' | paste -sd ' ')
[ "$tests" = own ] || fail "$(wc -w <<<"$tests") tests instead of the parent's own: $tests"
quietly cmake --build "$work/build" --parallel "$(nproc)" --target subproject symm-run
quietly ctest --test-dir "$work/build"
quietly cmake --install "$work/build" --prefix "$work/prefix"
installed=$(cd "$work/prefix" && find . -type f | sort | paste -sd ' ')
[ "$installed" = ./bin/subproject ] || fail "installed instead of the parent's program alone: $installed"
echo "by add_subdirectory: a program with kernels runs; the only test and the only installed file are the parent's"
