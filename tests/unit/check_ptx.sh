#!/usr/bin/env bash
# What the compiler makes of the kernels: the multimem instructions are the wide ones that add in fp32, nothing but the
# multimem kernels has them, nothing spills, and there are neither too many kernels nor too large a fat binary.
# And that kernels which use all of symm/device.cuh have every instruction that they should, for every generation of GPUs.
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
compile() { # architecture, source, output
    "$nvcc" -std=c++17 -Wno-deprecated-gpu-targets -I"$root/include" -gencode "arch=compute_$1,code=compute_$1" \
        -ptx -o "$3" "$root/$2"
}
compile 90a src/collectives/kernels.cu "$work/90a.ptx"
compile 80 src/collectives/kernels.cu "$work/80.ptx"

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

# Everything in symm/device.cuh: what all GPUs have, and what only those from sm_90 on have.
everywhere=(
    ld.relaxed.sys.global.u32 ld.acquire.sys.global.u32 ld.acquire.sys.global.u64
    st.relaxed.sys.global.u32 st.release.sys.global.u32 st.release.sys.global.u64
    ld.relaxed.sys.global.b128 st.relaxed.sys.global.b128 fence.proxy.alias
    atom.acq_rel.gpu.global.add.u32 atom.acquire.gpu.global.cas.b32
    ld.global.v4.u32 st.global.v4.u32 ld.global.{u8,u16,u32,u64} st.global.{u8,u16,u32,u64}
    red.relaxed.sys.global.add.{u32,u64,f32,f64} cvt.f32.f16 cvt.rn.{f16x2,bf16x2}.f32
)
bulk=(
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes cp.async.bulk.global.shared::cta.bulk_group
    cp.async.bulk.commit_group cp.async.bulk.wait_group cp.async.bulk.wait_group.read fence.proxy.async
    mbarrier.init.shared::cta.b64 mbarrier.arrive.expect_tx.shared::cta.b64 mbarrier.try_wait.parity.shared::cta.b64
    mbarrier.inval.shared::cta.b64
)
switch=(
    multimem.ld_reduce.relaxed.sys.global.add.{v4.f32,acc::f32.v4.f16x2,acc::f32.v4.bf16x2,f64,u32,u64}
    multimem.ld_reduce.relaxed.sys.global.{min,max}.{v4.f16x2,v4.bf16x2,u32,s32,u64,s64}
    multimem.st.relaxed.sys.global.v4.f32
    multimem.red.relaxed.sys.global.add.{u32,u64,f32,f64,v4.f32,v4.f16x2,v4.bf16x2}
)
has() { # instruction, file: whole, and not the beginning of another one
    grep -E "(^|[[:space:];])${1//./\\.}([[:space:];]|$)" "$2" >/dev/null
}
for architecture in 80 90a 100a; do
    ptx=$work/device_$architecture.ptx
    compile $architecture tests/support/device_kernels.cu "$ptx"
    "$(dirname "$nvcc")/ptxas" -arch=sm_$architecture -o "$work/cubin" "$ptx" 2>"$work/ptxas.txt" ||
        fail "sm_$architecture: device.cuh does not assemble: $(head -3 "$work/ptxas.txt")"
    for instruction in "${everywhere[@]}"; do
        has "$instruction" "$ptx" || fail "sm_$architecture: device.cuh has no $instruction"
    done
    for instruction in "${bulk[@]}" "${switch[@]}"; do
        if [ $architecture = 80 ]; then
            ! has "$instruction" "$ptx" || fail "sm_80: device.cuh has $instruction"
        else
            has "$instruction" "$ptx" || fail "sm_$architecture: device.cuh has no $instruction"
        fi
    done
    [ $architecture != 80 ] || ! grep -E 'multimem\.|cp\.async\.bulk|mbarrier\.' "$ptx" >"$work/found" ||
        fail "sm_80: device.cuh has $(head -1 "$work/found")"
    # Sums of 16-bit floats are made in fp32, all of them.
    ! grep -E 'ld_reduce.*\.add\..*(f16x2|bf16x2)' "$ptx" | grep -qv 'acc::f32' || fail "a sum without .acc::f32"
done
echo "device.cuh: $((${#everywhere[@]} + ${#bulk[@]} + ${#switch[@]})) instructions found for sm_90a and sm_100a," \
    "${#everywhere[@]} and none of the others for sm_80"
