#!/usr/bin/env bash
# What the compiler makes of the kernels: the multimem instructions are the wide ones that add in fp32, nothing but the
# multimem kernels has them, nothing spills, and there are neither too many kernels nor too large a fat binary.
# usage: check_ptx.sh BUILD_DIR; exit code 77: there is no nvcc.
set -euo pipefail
root=$(realpath "$(dirname "$0")/../..")
build=${1:-}
nvcc=$(sed -n 's/^SYMM_NVCC:[A-Z]*=//p' "$build/CMakeCache.txt" 2>/dev/null || true)
[ -x "$nvcc" ] || nvcc=$(command -v nvcc || true)
if [ ! -x "$nvcc" ]; then
    echo "check_ptx.sh: skipped: no nvcc"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "check_ptx.sh: $*" >&2
    exit 1
}
compile() { # architecture, output
    "$nvcc" -std=c++17 -Wno-deprecated-gpu-targets -I"$root/include" -gencode "arch=compute_$1,code=compute_$1" \
        -ptx -o "$2" "$root/src/collectives/kernels.cu"
}
compile 90a "$work/90a.ptx"
compile 80 "$work/80.ptx"

# One file a kernel.
awk -v to="$work/" '/\.entry/ { match($0, /entry [A-Za-z0-9_]+/); file = to substr($0, RSTART + 6, RLENGTH - 6) ".entry" }
    file { print > file }' "$work/90a.ptx"
count=0
for kernel in "$work"/*.entry; do
    name=$(basename "$kernel" .entry)
    count=$((count + 1))
    case $name in
    all_reduce_multimem*)
        type=f32
        case $name in *bfloat16) type=bf16x2 ;; *float16) type=f16x2 ;; esac
        accumulate=
        [ $type = f32 ] || accumulate='\.acc::f32'
        grep -q "multimem\.ld_reduce\.relaxed\.sys\.global\.add$accumulate\.v4\.$type " "$kernel" ||
            fail "$name: no ld_reduce of .v4.$type that adds in fp32"
        ! grep 'multimem\.ld_reduce' "$kernel" | grep -qv "$accumulate\.v4\.$type " || fail "$name: another ld_reduce"
        case $name in
        *one_shot*) ! grep -q 'multimem\.st' "$kernel" || fail "$name: stores to all ranks" ;;
        *) grep -q 'multimem\.st\.relaxed\.sys\.global\.v4' "$kernel" || fail "$name: no wide multimem.st" ;;
        esac
        ;;
    *) ! grep -q 'multimem\.' "$kernel" || fail "$name: has a multimem instruction" ;;
    esac
    case $name in
    all_reduce_*)
        grep -q 'fence\.proxy\.alias' "$kernel" || fail "$name: no fence.proxy.alias"
        grep -q 'st\.release\.sys' "$kernel" || fail "$name: no release"
        grep -q 'ld\.acquire\.sys' "$kernel" || fail "$name: no acquire"
        ;;
    esac
done
[ "$count" -ge 30 ] || fail "only $count kernels found"
[ "$count" -le 400 ] || fail "$count kernels: at most 400"
! grep -q 'multimem\.' "$work/80.ptx" || fail "sm_80: has multimem instructions"

"$(dirname "$nvcc")/ptxas" -v -arch=sm_90a -o "$work/cubin" "$work/90a.ptx" 2>"$work/ptxas.txt"
! grep 'bytes stack frame' "$work/ptxas.txt" | grep -qv ' 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads' ||
    fail "kernels spill: $(grep -A1 'Function properties' "$work/ptxas.txt" | grep -B1 '[1-9][0-9]* bytes stack')"
registers=$(grep -o 'Used [0-9]* registers' "$work/ptxas.txt" | grep -o '[0-9]*' | sort -n | tail -1)
echo "$count kernels, at most $registers registers, no spills; sm_90a machine code: $(stat -c %s "$work/cubin") bytes"
fatbin=$(find "$build" -name 'symm__image_kernels.fatbin' 2>/dev/null | head -1)
[ -z "$fatbin" ] || {
    size=$(stat -c %s "$fatbin")
    echo "fat binary of this build: $size bytes"
    [ "$size" -le 30000000 ] || fail "a fat binary of $size bytes: at most 30 MB"
}
