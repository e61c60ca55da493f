#!/usr/bin/env bash
# mutations.sh BUILD: builds the woven program and takes every barrier, fence and order away in turn (mutate.py).
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$1
command -v python3 >/dev/null || {
    echo "# skipped: mutations: no python3"
    exit 77
}
grep -q '^SYMM_SANITIZE:[A-Z]*=..*' "$build/CMakeCache.txt" && {
    echo "# skipped: mutations: not with a sanitizer"
    exit 77
}
cmake --build "$build" --target proof_mutants >"$build/proof_mutants.log" 2>&1 || {
    cat "$build/proof_mutants.log"
    exit 1
}
exec python3 "$here/mutate.py" run "$build/tests/proof/woven" "$build/bin/proof_mutants"
