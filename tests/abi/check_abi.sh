#!/usr/bin/env bash
# The binary interface of libsymm.so is the one that libsymm.abi describes: functions, struct layouts, enum values.
# usage: check_abi.sh LIBSYMM INCLUDE_DIR [--update]; exit code 77: there is no abidw. A debug build is needed.
# --update stores the description of this library: a change of the interface, to be named in CHANGELOG.md.
set -euo pipefail
library=$1 include=$(realpath "$2")
stored=$(dirname "$0")/libsymm.abi

command -v abidw >/dev/null && command -v abidiff >/dev/null || {
    echo "check_abi.sh: skipped: no abidw (Debian: abigail-tools)"
    exit 77
}
describe() {
    abidw --exported-interfaces-only --headers-dir "$include" --drop-private-types --no-show-locs --no-comp-dir-path \
        --no-corpus-path --no-architecture --no-parameter-names --no-elf-needed --type-id-style hash "$library" |
        sed -E "s,path='[^']*/src/,path='src/,"
}
now=$(mktemp)
trap 'rm -f "$now"' EXIT
describe >"$now"
grep -q "<class-decl name='symm_view' size-in-bits" "$now" || {
    echo "check_abi.sh: $library says nothing of symm_view: it was built without debug information" >&2
    exit 1
}
if [ "${3:-}" = --update ]; then
    cp "$now" "$stored"
    exit 0
fi
abidiff --no-default-suppression "$stored" "$now" || {
    echo "check_abi.sh: the interface differs from tests/abi/libsymm.abi (check_abi.sh LIBSYMM INCLUDE --update stores it)" >&2
    exit 1
}
