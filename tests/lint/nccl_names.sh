#!/usr/bin/env bash
# Compares src/abi/nccl_names.def with a library's exports, or with the functions that a header declares.
# usage: nccl_names.sh LIBRARY|HEADER [VERSION]
# Fails if the file has a name that the list lacks. With VERSION (23203 is 2.32.3) a library must have all names of that version.
set -euo pipefail
list=$(dirname "$0")/../../src/abi/nccl_names.def
file=$1 version=${2:-0}

names() {
    case $file in
    *.h) sed -E 's,/\*.*,,; s,//.*,,; s,^ *\*.*,,' "$file" | grep -oE '\bp?nccl[A-Z][A-Za-z0-9]* *\(' | tr -d ' (' ;;
    *) nm -D --defined-only "$file" | sed -nE 's/@.*//; s/.* [TW] (p?nccl[A-Z].*)/\1/p' ;;
    esac | grep -v '^ncclResetDebugInitInternal$' | sort -u
}
# The names that came with this version or before it.
known() {
    sed -nE 's/^NCCL_NAME\((nccl[A-Za-z0-9]*), ([0-9]+)\)$/\1 \2/p' "$list" |
        awk -v version="$1" '$2 <= version { print $1; print "p" $1 }' | sort -u
}

status=0
unknown=$(comm -13 <(known 999999) <(names))
missing=$(comm -23 <(known "$version") <(names))
[ -n "$(names)" ] || { echo "nccl_names.sh: no name of NCCL in $file" >&2; status=1; }
[ -z "$unknown" ] || { echo "nccl_names.sh: nccl_names.def lacks names of $file:" $unknown >&2; status=1; }
[ -z "$missing" ] || { echo "nccl_names.sh: $file lacks names of version $version:" $missing >&2; status=1; }
exit $status
