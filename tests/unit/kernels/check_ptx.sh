#!/usr/bin/env bash
# Checks the compiled kernels:
# - only multimem kernels have multimem instructions, the widest ones of their type, which add in fp32;
# - kernels hardly spill, and the numbers of kernels and of bytes of machine code are limited;
# - products of Hopper GPUs stay asynchronous, by ptxas's report and, if cuobjdump and nvdisasm exist, by their machine code;
# - kernels that use all of symm/device.cuh have the expected instructions for every generation of GPUs.
# usage: check_ptx.sh BUILD_DIR; exit code 77: there is no nvcc.
set -euo pipefail
root=$(realpath "$(dirname "$0")/../../..")
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
compile() { # architecture, source, output, options...
    "$nvcc" -std=c++17 -Wno-deprecated-gpu-targets -I"$root/include" -I"$root/src" -gencode "arch=compute_$1,code=compute_$1" \
        -ptx -o "$3" "$root/$2" "${@:4}"
}
mapfile -t images < <(cd "$root" && find src -name '*.cu')
instructions() { # PREFIX FILE: prints each instruction that begins with PREFIX once
    sed -n "s/.*\($1\.[^ ]*\).*/\1/p" "$2" | sort -u
}
# IMAGE.80.ptx: without optimization, since the optimizer adds no kinds of instructions.
for image in "${images[@]}"; do
    compile 80 "$image" "$work/$(basename "$image" .cu).80.ptx" -Xcicc -O0
done &
other=$!
# For sm_90a: IMAGE.90a.ptx, IMAGE.90a.cubin and ptxas's report IMAGE.90a.txt, from the build's cache if it has them.
cache=$(sed -n 's/^SYMM_FATBIN_CACHE:PATH=//p' "$build/CMakeCache.txt" 2>/dev/null || true)
for image in "${images[@]}"; do
    unit=$work/$(basename "$image")
    echo "#include \"$root/$image\"" >"$unit"
    cmake "-DNVCC=$nvcc" "-DVERSION=$("$nvcc" --version | sed -n 's/.*V\([0-9.]*\)$/\1/p')" -DARCHITECTURES=90a \
        "-DINCLUDES=$root/include;$root/src" "-DSOURCE=$unit" "-DOUTPUT=${unit%.cu}.fatbin" \
        "-DCACHE=${cache:-$work/cache}" "-DKEEP=${unit%.cu}.90a" -P "$root/cmake/SymmFatbin.cmake"
done
wait $other
cat "$work"/*.80.ptx >"$work/80.ptx"
cat "$work"/*.90a.ptx >"$work/90a.ptx"
cat "$work"/*.txt >"$work/ptxas.log"

# One file a kernel.
awk -v to="$work/" '/\.entry/ { match($0, /entry [A-Za-z0-9_]+/); file = to substr($0, RSTART + 6, RLENGTH - 6) ".entry" }
    file { print > file }' "$work/90a.ptx"
count=0
for kernel in "$work"/*.entry; do
    name=$(basename "$kernel" .entry)
    plain=${name%_traced} # a traced kernel has the instructions of the untraced one, and more
    count=$((count + 1))
    wanted="" stores=no
    case $plain in
    *_multimem_*bfloat16) wanted="add.acc::f32.v4.bf16x2 max.v4.bf16x2 min.v4.bf16x2" ;;
    *_multimem_*float16) wanted="add.acc::f32.v4.f16x2 max.v4.f16x2 min.v4.f16x2" ;;
    *_multimem_*float32) wanted="add.v4.f32" ;;
    *_multimem_*float64) wanted="add.f64" ;;
    *_multimem_*int32) wanted="add.u32 max.s32 min.s32" ;;
    *_multimem_*int64) wanted="add.u64 max.s64 min.s64" ;;
    matmul_sum_bands) wanted="add.acc::f32.v4.bf16x2 add.acc::f32.v4.f16x2 add.v4.f32" ;; # all types
    all_gather_multimem_bytes | broadcast_multimem_bytes) ;;
    *) ! grep -q 'multimem\.' "$kernel" || fail "$name: has a multimem instruction" ;;
    esac
    found=$(instructions 'multimem\.ld_reduce' "$kernel" | sed 's/.*\.relaxed\.sys\.global\.//' | xargs)
    [ "$found" = "$wanted" ] || fail "$name: ld_reduce of \"$found\" instead of \"$wanted\""
    case $plain in
    all_reduce_multimem_one_shot_*) ;;
    all_reduce_multimem_* | all_gather_multimem_* | broadcast_multimem_* | matmul_sum_bands) stores=yes ;;
    esac
    found=$(instructions 'multimem\.st' "$kernel" | xargs)
    case $stores in
    yes) [ "$found" = multimem.st.relaxed.sys.global.v4.f32 ] || fail "$name: multimem stores are \"$found\"" ;;
    no) [ -z "$found" ] || fail "$name: has a multimem store" ;;
    esac
    case $plain in
    all_reduce_* | reduce_scatter_* | all_gather_* | broadcast_* | matmul_sum_bands)
        # lamport uses no multicast address, and no barrier that might guard one.
        [[ $name = *_lamport_* ]] || grep -q 'fence\.proxy\.alias' "$kernel" || fail "$name: no fence.proxy.alias"
        grep -q 'st\.release\.sys' "$kernel" || fail "$name: no release"
        grep -q 'ld\.acquire\.sys' "$kernel" || fail "$name: no acquire"
        ;;
    esac
    case $plain in
    *_low_latency_* | *_lamport_* | matmul_split_* | matmul_all_reduce)
        for instruction in {st,ld}.relaxed.sys.global.b128; do
            grep -qF "$instruction" "$kernel" || fail "$name: no $instruction"
        done
        ;;
    *) ! grep -q 'global\.b128' "$kernel" || fail "$name: has packets" ;;
    esac
    case $plain in
    *_low_latency_* | *_lamport_* | all_reduce_two_shot_* | all_gather_one_shot_* | broadcast_one_shot_* | matmul_late_parts | matmul_sum_bands | matmul_split_*) # launched with PDL, see test_plan.c
        grep -q 'griddepcontrol\.wait' "$kernel" || fail "$name: no griddepcontrol.wait"
        ;;
    matmul_wgmma_*) # lets matmul_late_parts and matmul_sum_bands begin early, but has not been launched so itself
        found=$(instructions 'griddepcontrol' "$kernel" | xargs)
        [ "$found" = "griddepcontrol.launch_dependents;" ] || fail "$name: has \"$found\""
        ;;
    *) ! grep -q 'griddepcontrol' "$kernel" || fail "$name: has griddepcontrol" ;;
    esac
    case $plain in
    matmul_product_*) # by tensor cores, which add in fp32; both layouts of both factors
        case $plain in *_bfloat16) dtype=bf16 ;; *) dtype=f16 ;; esac
        found=$(instructions 'mma\.sync' "$kernel" | xargs)
        [ "$found" = "mma.sync.aligned.m16n8k16.row.col.f32.$dtype.$dtype.f32" ] || fail "$name: multiplies by \"$found\""
        for instruction in cp.async.cg.shared.global ldmatrix.sync.aligned.m8n8.x4{,.trans}.shared.b16; do
            grep -qF "$instruction" "$kernel" || fail "$name: no $instruction"
        done
        ;;
    matmul_wgmma_* | matmul_plain_*)
        case $plain in *_bfloat16) dtype=bf16 ;; *) dtype=f16 ;; esac
        IFS=_ read -r _ _ rows _ cluster _ <<<"$name"
        found=$(instructions 'wgmma\.mma_async' "$kernel" | xargs)
        [ "$found" = "wgmma.mma_async.sync.aligned.m64n${rows}k16.f32.$dtype.$dtype" ] || fail "$name: multiplies by \"$found\""
        tensor=cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes
        for instruction in "$tensor " wgmma.{fence,commit_group,wait_group}.sync.aligned setmaxnreg.{dec,inc}.sync.aligned.u32 \
            fence.proxy.async stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 fence.mbarrier_init.release.cluster elect.sync; do
            grep -qF "$instruction" "$kernel" || fail "$name: no $instruction"
        done
        for instruction in barrier.cluster.{arrive.relaxed,wait}.aligned; do
            case $plain in matmul_plain_*_1_*) continue ;; esac # a block without a cluster meets nobody
            grep -qF "$instruction" "$kernel" || fail "$name: no $instruction"
        done
        # Within a cluster, from one shared memory to another: this is not NVLink multicast.
        [ "$cluster" = 1 ] || grep -qF "$tensor.multicast::cluster" "$kernel" || fail "$name: no load for its cluster"
        [ "$cluster" = 1 ] || grep -qF mapa.shared::cluster.u32 "$kernel" || fail "$name: no arrival at its cluster's barriers"
        ;;
    matmul_split_*)
        case $plain in *_bfloat16) dtype=bf16 ;; *) dtype=f16 ;; esac
        rows=${name#matmul_split_} rows=${rows%%_*}
        found=$(instructions 'wgmma\.mma_async' "$kernel" | xargs)
        [ "$found" = "wgmma.mma_async.sync.aligned.m64n${rows}k16.f32.$dtype.$dtype" ] || fail "$name: multiplies by \"$found\""
        for instruction in elect.sync ld.shared::cluster.v4.f32 mapa.shared::cluster.u32 \
            barrier.cluster.{arrive.relaxed,wait.acquire,wait}.aligned fence.mbarrier_init.release.cluster prefetch.tensormap; do
            grep -qF "$instruction" "$kernel" || fail "$name: no $instruction"
        done
        ;;
    *) ! grep -q 'mma\.' "$kernel" || fail "$name: multiplies matrices" ;;
    esac
    case $plain in
    matmul_reduce_scatter | matmul_all_reduce | matmul_all_scatter) # the other half of each SM is for another group
        grep -q '^\.minnctapersm 2$' "$kernel" || fail "$name: may take more than half of an SM"
        ;;
    all_reduce_rms_norm_low_latency_float16_* | all_reduce_rms_norm_low_latency_bfloat16_*) # blocks of a cluster share a row
        for instruction in st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 \
            fence.mbarrier_init.release.cluster barrier.cluster.{arrive.relaxed,wait}.aligned; do
            grep -qF "$instruction" "$kernel" || fail "$name: no $instruction"
        done
        ! grep -qF barrier.cluster.arrive.release "$kernel" || fail "$name: waits for all of its stores"
        ;;
    esac
done
[ "$count" -ge 30 ] || fail "only $count kernels found"
[ "$count" -le 420 ] || fail "$count kernels: at most 420"
! grep -q 'multimem\.' "$work/80.ptx" || fail "sm_80: has multimem instructions"
! grep -q 'wgmma\.' "$work/80.ptx" || fail "sm_80: has wgmma instructions"

# ptxas serializes instructions that it cannot keep asynchronous, with a warning only.
! grep -E 'C75[0-9]{2}|instructions are serialized|setmaxnreg.*ignored' "$work/ptxas.log" >"$work/found" ||
    fail "ptxas serializes instructions: $(head -3 "$work/found")"
PATH=$(dirname "$nvcc"):$PATH
disassembling=
mapfile -t hopper < <(grep -l 'entry matmul_wgmma' "$work"/*.90a.ptx)
[ ${#hopper[@]} = 2 ] || fail "${#hopper[@]} images have the products for Hopper GPUs, not an untraced and a traced one"
disassemble() { # PTX...: the machine code of its products for Hopper GPUs
    local ptx
    for ptx; do
        cuobjdump -sass -fun "$(sed -n 's/.*entry \(matmul_\(wgmma\|plain\|split\)_[A-Za-z0-9_]*\).*/\1/p' "$ptx" | paste -sd,)" "${ptx%.ptx}.cubin"
    done
}
if command -v cuobjdump >/dev/null && command -v nvdisasm >/dev/null; then # runs beside the checks below
    disassemble "${hopper[@]}" >"$work/sass" &
    disassembling=$!
else
    echo "check_ptx.sh: skipped: HGMMA in the machine code: no cuobjdump with nvdisasm"
fi
# A stack of 16 bytes holds a pack whose elements are handled one by one. two_shot and lamport for eight ranks need
# slightly more registers than there are for eight addresses and packs, and the largest traced products for a time.
awk '/Function properties/ { name = $NF }
    /bytes stack frame/ && ($1 > 32 || $5 + $9 > 0) && !(name ~ /(two_shot|lamport)_.*_8$/ && $1 <= 64 && $5 <= 128) &&
        !(name ~ /^matmul_wgmma_.*_traced$/ && $1 <= 64 && $5 <= 80) { print name ": " $0 }
    ' "$work/ptxas.log" >"$work/spills"
[ ! -s "$work/spills" ] || fail "kernels spill: $(cat "$work/spills")"
registers_of() { # kernel
    sed -n "/Compiling entry function '$1'/,/Used/s/.*Used \([0-9]*\) registers.*/\1/p" "$work/ptxas.log"
}
# A quarter of an SM has 16384 registers; each thread gets a multiple of 8. A block of a product leaves too few registers
# for a second such block, and enough for a block of one warp, which sends or copies the rows that products wait for.
registers_per_quarter() { # kernel threads
    echo $((($(registers_of "$1") + 7) / 8 * 8 * 32 * (($2 + 127) / 128)))
}
registers_fit() { # product threads kernel...
    local product=$1 threads=$2 left small
    left=$((16384 - $(registers_per_quarter "$product" "$threads")))
    [ "$left" -lt 8192 ] || fail "two blocks of $product fit an SM"
    shift 2
    for small; do
        [ "$(registers_per_quarter "$small" 32)" -le "$left" ] || fail "registers of $small do not fit beside $product"
    done
}
# A busy SM keeps its division into cache and shared memory: the smallest of these sizes that holds a block of the product
# and 1 KiB per block for the system. The small blocks must fit into the rest.
shared_of() { # kernel
    local used
    used=$(sed -n "/Compiling entry function '$1'/,/Used/s/.* \([0-9]*\) bytes smem.*/\1/p" "$work/ptxas.log")
    echo $((${used:-0} + 1024))
}
shared_fits() { # dynamic product kernel...
    local taken=$(($1 + $(shared_of "$2"))) product=$2 kib
    for kib in 8 16 32 64 100 132 164 196 228; do [ $((kib * 1024)) -lt "$taken" ] || break; done
    shift 2
    for small; do taken=$((taken + $(shared_of "$small"))); done
    [ "$taken" -le $((kib * 1024)) ] || fail "shared memory of $* does not fit beside $product into $kib KiB"
}
shared_exceeds() { # dynamic product dynamic kernel
    local taken=$(($1 + $(shared_of "$2") + $3 + $(shared_of "$4"))) kib
    for kib in 8 16 32 64 100 132 164 196 228; do [ $((kib * 1024)) -lt $(($1 + $(shared_of "$2"))) ] || break; done
    [ "$taken" -gt $((kib * 1024)) ] || fail "$4 fits beside $2 and would slow it down"
}
nbytes_of() { # constant in KiB, file in src/matmul
    local kib
    kib=$(sed -n "s/.* $1 = \([0-9]*\) << 10.*/\1/p" "$root/src/matmul/$2")
    [ "${kib:-0}" -gt 0 ] || fail "no $1 in src/matmul/$2"
    echo $((kib * 1024))
}
wgmma_sender=$(nbytes_of SYMM_WGMMA_SENDER_NBYTES sm90/host.h)
portable_sender=$(nbytes_of SYMM_PORTABLE_SENDER_NBYTES portable/host.h)
for nbytes in $wgmma_sender $portable_sender; do
    senders=$(($(nbytes_of SENDERS_SHARED_NBYTES transport/sender_sms.c) / nbytes))
    [ $((senders * (nbytes + $(shared_of matmul_push_free_sms)))) -le $((228 * 1024)) ] ||
        fail "$senders blocks of matmul_push_free_sms do not fit an SM"
done
dynamic_of() { # constant
    sed -n "s/.*$1 = \([0-9* ]*\).*/\1/p" "$root/src/matmul/sm90/args.h"
}
dynamic=$(($(dynamic_of SYMM_WGMMA_PLAIN_SHARED_NBYTES)))
with_parts=$(($(dynamic_of SYMM_WGMMA_SHARED_NBYTES)))
[ "$dynamic" -gt 0 ] && [ "$with_parts" -gt "$dynamic" ] && [ "$(shared_of matmul_product_float16)" -gt 1024 ] || fail "no size of the products' shared memory"
small=(matmul_{open_round,push,await_rows,copy_rows}{,_traced})
for kind in {float16,bfloat16}{,_traced}; do
    case $kind in *_traced) traced=_traced ;; *) traced= ;; esac
    rounds=(matmul_{open_round,push}"$traced")
    registers_fit matmul_product_$kind 256 "${small[@]}"
    shared_fits 0 matmul_product_$kind "${rounds[@]}"
    shared_exceeds 0 matmul_product_$kind $portable_sender matmul_push_free_sms$traced
    for product in "$work"/matmul_wgmma_*_"$kind".entry; do
        product=$(basename "$product" .entry)
        threads=384
        case $product in matmul_wgmma_*_192_*) threads=512 ;; esac
        registers_fit "$product" $threads "${small[@]}"
        shared_fits $dynamic "$product" "${rounds[@]}"
        registers_fit "$product" $threads matmul_late_parts
        for beside in matmul_late_parts "${rounds[@]}"; do # one place beside a product that adds parts
            shared_fits "$with_parts" "$product" "$beside"
        done
        shared_exceeds $dynamic "$product" $wgmma_sender matmul_push_free_sms$traced
    done
done
registers=$(grep -o 'Used [0-9]* registers' "$work/ptxas.log" | grep -o '[0-9]*' | sort -n | tail -1)
size=$(cat "$work"/*.cubin | wc -c)
echo "$count kernels, at most $registers registers, no large spill; sm_90a machine code: $size bytes"
[ "$size" -le 34000000 ] || fail "$size bytes of machine code: at most 34 MB"

# The instructions of symm/device.cuh: for all GPUs (everywhere), and for GPUs from sm_90 on (bulk, switch).
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
has() { # INSTRUCTION FILE: finds the whole instruction, not a prefix of another one
    grep -E "(^|[[:space:];])${1//./\\.}([[:space:];]|$)" "$2" >/dev/null
}
for architecture in 80 90a 100a; do
    ptx=$work/device_$architecture.ptx
    compile $architecture tests/support/device/device_kernels.cu "$ptx"
    "$(dirname "$nvcc")/ptxas" -arch=sm_$architecture -o "$work/device.cubin" "$ptx" 2>"$work/ptxas.log" ||
        fail "sm_$architecture: device.cuh does not assemble: $(head -3 "$work/ptxas.log")"
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
    # All sums of 16-bit floats accumulate in fp32.
    ! grep -E 'ld_reduce.*\.add\..*(f16x2|bf16x2)' "$ptx" | grep -qv 'acc::f32' || fail "sum without .acc::f32"
done
echo "device.cuh: $((${#everywhere[@]} + ${#bulk[@]} + ${#switch[@]})) instructions found for sm_90a and sm_100a," \
    "${#everywhere[@]} and none of the others for sm_80"
[ -n "$disassembling" ] || exit 0
wait $disassembling
awk '/Function :/ { name = $3 }
    match($0, /HGMMA\.[0-9x]+/) { print name, substr($0, RSTART, RLENGTH) }' "$work/sass" | sort -u >"$work/hgmma"
for kernel in "$work"/matmul_wgmma_*.entry; do
    name=$(basename "$kernel" .entry)
    rows=${name#matmul_wgmma_} rows=${rows%%_*}
    grep -qxF "$name HGMMA.64x${rows}x16" "$work/hgmma" || fail "$name: its machine code has no HGMMA.64x${rows}x16"
done
echo "machine code: HGMMA in all $(wc -l <"$work/hgmma") products for Hopper GPUs"
