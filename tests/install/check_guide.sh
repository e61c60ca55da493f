#!/usr/bin/env bash
# Checks the blocks of docs/custom-kernels.md against docs/examples, and runs its commands. The line before a block names
# its kind: "<!-- file: PATH -->" the whole file PATH, "<!-- part: PATH -->" consecutive lines of it, "<!-- run -->"
# commands, which run one after the other in one shell, as a reader pastes them; "<!-- nvcc -->" commands that are left out
# without nvcc or with SYMM_CUDA=OFF.
# usage: check_guide.sh PREFIX, where symm is installed: ~/symm of the document
set -euo pipefail
prefix=$(realpath "$1")
docs=$(realpath "$(dirname "$0")/../../docs")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/blocks" "$work/home"
ln -s "$prefix" "$work/home/symm"

# Writes a file NUMBER:KIND:PATH for each block, with % for / in the path.
awk -v folder="$work/blocks" '
    /^<!-- (file|part|run|nvcc)/ { kind = $2 ":" $3; sub(/:+(-->)?$/, "", kind); gsub("/", "%", kind); gsub(":+", ":", kind); next }
    /^```/ && inside { close(name); inside = 0; kind = ""; next }
    /^```/ { name = sprintf("%s/%03d:%s", folder, ++n, kind == "" ? "free" : kind); printf "" >name; inside = 1; next }
    inside { print >name }' "$docs/custom-kernels.md"

libdir=$(basename "$(dirname "$(find "$prefix" -name libsymm.so)")")
cd "$docs/examples"
for block in "$work"/blocks/*; do
    IFS=: read -r _ kind path <<<"$(basename "$block")"
    [ "$kind" != nvcc ] || { [ "${SYMM_CUDA:-}" != OFF ] && command -v nvcc >/dev/null; } || continue
    path=${path//%//}
    case $kind in
    file) cmp "$block" "$path" ;;
    part) [[ $(<"$path") == *"$(<"$block")"* ]] || {
        echo "check_guide.sh: docs/examples/$path does not contain this block:" >&2
        cat "$block" >&2
        exit 1
    } ;;
    run | nvcc)
        echo "echo '# block $(basename "${block%%:*}")'" >>"$work/commands"
        sed "s,symm/lib/,symm/$libdir/," "$block" >>"$work/commands"
        ;;
    *)
        echo "check_guide.sh: this block has no line <!-- file, part, run or nvcc --> before it:" >&2
        cat "$block" >&2
        exit 1
        ;;
    esac
done
cd "$work"
HOME=$work/home bash -euo pipefail commands >log 2>&1 || {
    echo "check_guide.sh: a command of docs/custom-kernels.md fails in the last block:" >&2
    tail -n 60 log >&2
    exit 1
}
echo "docs/custom-kernels.md: $(find "$work/blocks" -type f | wc -l) blocks equal the examples or run"
