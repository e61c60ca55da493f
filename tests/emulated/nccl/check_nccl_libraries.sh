#!/usr/bin/env bash
# The two libraries in NCCL's place, with programs that know nothing of them, and the stand-in behind them.
# usage: check_nccl_libraries.sh BUILD_DIR
set -euo pipefail
build=$1
export SYMM_DRIVER=emulated SYMM_NCCL_STATS=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

die() {
    echo "check_nccl_libraries.sh: $*" >&2
    cat "$work/out" "$work/err" >&2
    exit 1
}

if grep -q __asan_init "$build/lib/libsymm_nccl.so" || grep -q __tsan_init "$build/lib/libsymm_nccl.so"; then
    echo "# skipped: the runtime of a sanitizer must be the first library"
    exit 77
fi

# with LIBRARY PROGRAM
with() {
    LD_PRELOAD=$build/lib/$1 SYMM_NCCL_LIBRARY=$build/lib/standin/libnccl.so.2 \
        "$build/bin/emulated_test_nccl_$2" >"$work/out" 2>"$work/err" || die "$1 $2"
}

for library in libsymm_nccl.so nccl/libnccl.so.2; do
    with $library results
    for operation in allreduce reducescatter allgather; do
        grep -qE "^symm: nccl: $operation: [1-9][0-9]* calls taken, [1-9][0-9]* bytes" "$work/err" ||
            die "$library took no $operation"
    done
    # All calls go to NCCL: nothing is to be seen of the library but its vote.
    SYMM_NCCL_FORWARD=all with $library comms
    SYMM_NCCL_FORWARD=all with $library streams
    ! grep -qE "calls taken" "$work/err" || ! grep -E "calls taken" "$work/err" | grep -qv ": 0 calls taken" ||
        die "$library took a call"
done
# Without NCCL, only the library that has all names makes communicators of its own.
if LD_PRELOAD=$build/lib/libsymm_nccl.so SYMM_NCCL_LIBRARY=none "$build/bin/emulated_test_nccl_results" >"$work/out" 2>&1; then
    die "libsymm_nccl.so works with SYMM_NCCL_LIBRARY=none"
fi
grep -q "needs nccl/libnccl.so.2 in NCCL's place" "$work/out" || die "no reason"
# Without any, results have a text all the same.
if LD_PRELOAD=$build/lib/nccl/libnccl.so.2 SYMM_NCCL_LIBRARY=$work/none.so "$build/bin/emulated_test_nccl_results" >"$work/out" 2>&1; then
    die "nccl/libnccl.so.2 works without a library"
fi
grep -q "the call is not allowed here" "$work/out" || die "no text of a result"
"$(dirname "$0")/../../lint/nccl_names.sh" "$build/lib/nccl/libnccl.so.2" 23203
echo "# results are right and taken; forwarded calls as without the libraries; all names are there"
