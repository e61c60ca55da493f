#!/usr/bin/env bash
# Checks that libsymm exports exactly the functions of the public headers, and libsymm_emulated cuGetProcAddress_v2 alone.
# usage: exports.sh LIBSYMM LIBSYMM_EMULATED INCLUDE_DIR
set -euo pipefail
libsymm=$1 emulated=$2 include=$3

exported() {
    nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u
}
declared() {
    for header in symm names collectives stream matmul dlpack; do
        [ -f "$include/symm/$header.h" ] || continue
        tr '\n' ' ' <"$include/symm/$header.h" | sed 's,/\*[^*]*\*\+\([^/*][^*]*\*\+\)*/,,g' |
            grep -oE 'SYMM_API[^;(]*\(' | sed -E 's/.*[ *]([a-z_0-9]+)\($/\1/'
    done | sort -u
}

status=0
diff <(declared) <(exported "$libsymm") || {
    echo "exports.sh: < declared in a header, > exported by $(basename "$libsymm")" >&2
    status=1
}
diff <(echo cuGetProcAddress_v2) <(exported "$emulated") || {
    echo "exports.sh: $(basename "$emulated") must export cuGetProcAddress_v2 alone" >&2
    status=1
}
for needed in libcuda libcudart libstdc++ libmpi; do
    if readelf -d "$libsymm" | grep NEEDED | grep -q "$needed"; then
        echo "exports.sh: $(basename "$libsymm") links with $needed" >&2
        status=1
    fi
done
exit $status
