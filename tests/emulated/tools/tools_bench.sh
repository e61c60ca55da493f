#!/usr/bin/env bash
# symm-bench on the emulated driver: table, JSON, CSV, usage errors, and the message about a dead rank.
# Options are lists of words, so they are not quoted.
# shellcheck disable=SC2046,SC2086
set -euo pipefail
. "$(dirname "$0")/bench.sh"

# measure RANKS OPERATION OPTION...
measure() {
    local n=$1
    shift
    "$bin/symm-run" --emulated -n "$n" --timeout 200 \
        "$bin/symm-bench" "$@" --iters 2 --warmup 0
}

# bench RANKS OPTION...: measures the all-reduce.
bench() {
    local n=$1
    shift
    measure "$n" all-reduce "$@"
}

rows() {
    table "$1" 12
}

# right RANKS OPERATION OPTION...: checks that all results are right.
right() {
    run 0 measure "$@" --check
    [ "$(column 12)" = 0 ] || die "wrong elements: $*"
}

# rows_each N ALGO...: checks that each algorithm has N rows.
rows_each() {
    local n=$1 algo
    shift
    for algo in "$@"; do
        [ "$(grep -cE " $algo +[0-9]+ +(yes|no) " "$work/out" || true)" = "$n" ] || die "not $n rows of $algo"
    done
}

# with_multimem LIST: adds multimem to a list of algorithms if the build has multicast.
with_multimem() {
    if bench 2 --algo multimem --sizes 1K >/dev/null 2>&1; then
        echo "$1,multimem"
    else
        echo "$1"
    fi
}

# rows_of N LIST: checks that the table has N rows for each item of the list.
rows_of() {
    rows $(($1 * $(tr , '\n' <<<"$2" | wc -l)))
}

case_every_variant_is_right() {
    right 4 all-reduce --algo all --sizes 2,1K,1002,96K
    rows_each 4 auto low_latency low_latency_two_shot one_shot two_shot copy_engine
    said '^# +bytes +count +dtype +op +algo ranks in_place +time_us +p95_us +algbw +busbw +wrong$'
    said '^# .*emulation'
    said '^# seed 0x'
    rows "$(grep -vc '^#' "$work/out")"
}

# types OPERATION TYPES OP...: checks all pairs of type and op; an all-gather has the op "-".
types() {
    local operation=$1 dtypes=$2 dtype op
    shift 2
    for dtype in $dtypes; do
        for op in "$@"; do
            case $dtype$op in int*avg) continue ;; esac
            right 3 "$operation" --iters 1 --algo all --sizes 1,1000,6008 --dtype "$dtype" \
                $([ "$op" = - ] || echo --op "$op")
            [ "$(column 3) $(column 4)" = "$dtype $op" ] || die "other rows than $op of $dtype"
        done
    done
}

case_types_and_operations() {
    types all-reduce 'bfloat16 float16 float32 float64 int32 int64' sum avg min max
    run 0 bench 3 --algo two_shot,low_latency --check --sizes 1000 --dtype int64 --op max \
        --json out.json
    [ "$(json out.json options dtype)" = int64 ]
    [ "$(json out.json options op)" = max ]
    [ "$(json out.json rows 1 op)" = max ]
    [ "$(json out.json rows 1 wrong)" = 0 ]
}

case_shares_of_every_type() {
    types all-gather 'bfloat16 float16 float32 float64 int32 int64 uint8 float8_e4m3 float8_e5m2' -
    types broadcast 'bfloat16 float64 uint8 float8_e4m3' -
    types reduce-scatter 'bfloat16 float64 int32' sum avg min max
}

case_types_and_modes() {
    local algos dtype mode
    algos=$(with_multimem low_latency,two_shot)
    for dtype in float16 int64; do
        for mode in '' --graph --in-place '--graph --in-place' '--memory plain'; do
            right 3 all-reduce --algo "$algos" --sizes 8,4000,40K --dtype "$dtype" $mode
            rows_of 3 "$algos"
            [ "$(column 3)" = "$dtype" ]
        done
    done
}

case_shares() {
    # All-gather and reduce-scatter divide a buffer into shares, also among an odd number of ranks.
    local ranks operation
    for ranks in 1 2 3 4 8; do
        for operation in all-gather reduce-scatter; do
            right $ranks $operation --algo all --sizes 2,1002,96K
            rows_each 3 auto low_latency one_shot copy_engine
        done
    done
}

case_shares_and_modes() {
    local operation mode
    for operation in all-gather reduce-scatter; do
        for mode in --graph --in-place '--graph --in-place' '--memory plain' \
            '--memory plain --in-place' '--isolated --graph'; do
            right 3 $operation --algo all --sizes 6,4002 --dtype fp16 $mode
            case $operation$mode in
            all-gather*plain*) said '^# copy_engine: not available: it needs symmetric memory' ;;
            *) [[ $(column 5) == *copy_engine* ]] || die "no copy_engine: $operation $mode" ;;
            esac
        done
    done
}

case_sizes_of_shares() {
    run 0 measure 3 all-gather --sizes 0,2,1000 --json out.json --check
    # With three ranks and elements of two bytes, sizes are multiples of six bytes and at least six, except 0.
    [ "$(column 1)" = '0 6 996' ] || die "sizes: $(column 1)"
    [ "$(column 2)" = '0 3 498' ] || die "counts: $(column 2)"
    [ "$(json out.json operation)" = all-gather ]
    [[ $(json out.json bus_factor) == 0.66666666* ]]
    [ "$(json out.json options op)" = - ]
    run 0 measure 4 reduce-scatter --sizes 1K --json out.json --op max
    [ "$(json out.json bus_factor)" = 0.75 ]
    [ "$(json out.json rows 0 op)" = max ]
}

case_broadcast() {
    # The buffers are whole on all ranks, and one rank's data go to all.
    local ranks mode
    for ranks in 1 2 3 4 8; do
        right $ranks broadcast --algo all --sizes 2,1002,96K --root $((ranks - 1))
        rows_each 3 auto low_latency one_shot copy_engine
        said "^# from rank $((ranks - 1))\$"
    done
    for mode in --graph --in-place '--graph --in-place' '--memory plain' '--isolated --graph'; do
        right 3 broadcast --algo all --sizes 6,4002 --dtype fp16 --root 1 $mode
        case $mode in
        *plain*) said '^# copy_engine: not available: it needs symmetric memory' ;;
        *) [[ $(column 5) == *copy_engine* ]] || die "no copy_engine: $mode" ;;
        esac
    done
    run 0 measure 3 broadcast --sizes 0,2,1000 --json out.json --check
    [ "$(column 1)" = '0 1000 2' ] || die "sizes: $(column 1)"
    [ "$(json out.json bus_factor)" = 1.0 ] || die "bus factor: $(json out.json bus_factor)"
    [ "$(json out.json options op)" = - ]
    [ "$(json out.json options root)" = 0 ]
    run 1 measure 3 broadcast --sizes 1K --root 3
    errors '^# rank [0-2]: SYMM_ERROR_ARGUMENT: symm_broadcast: root is 3; the group has 0 to 2'
    for mode in --chain '--op max' '--root -1' '--root 1000'; do
        run 2 "$bin/symm-bench" broadcast $mode
    done
    run 2 "$bin/symm-bench" all-gather --root 1
}

case_norms() {
    # Sizes are whole rows, one at least.
    local mode
    for mode in '' --graph '--memory plain' '--isolated --graph' '--dtype fp16'; do
        right 3 all-reduce-rms-norm --hidden 100 --algo all --sizes 2,1K,20K $mode
        rows_each 3 auto low_latency low_latency_two_shot lamport
        [ "$(column 2)" = '100 10200 500' ] || die "no whole rows: $(column 2)"
    done
    said '^# rows of 100 elements, with residual and weight'
    run 0 measure 2 all-reduce-rms-norm --max-bytes 4K --json out.json
    [ "$(column 1)" = '2048 512' ] || die "sizes: $(column 1)"
    [ "$(json out.json options hidden)" = 256 ]
    for mode in --in-place --chain '--op max' '--peer nccl' '--dtype float32'; do
        run 2 "$bin/symm-bench" all-reduce-rms-norm $mode
    done
    run 2 "$bin/symm-bench" all-reduce --hidden 8
}

case_sizes() {
    run 0 bench 2 --min-bytes 16 --max-bytes 1K --factor 8
    [ "$(column 1)" = '1024 128 16' ] || die "sizes: $(column 1)"
    [ "$(column 12)" = - ] || die "unchecked rows count no wrong elements"
    # The next size would be 2^64, which is 0.
    run 1 bench 2 --min-bytes 16T --max-bytes 128T --factor 1048576
    errors '^# rank [01]: SYMM_ERROR_MEMORY'
    run 0 bench 2 --sizes 7,0
    [ "$(column 1)" = '0 6' ] || die "sizes: $(column 1)"
}

case_options_of_nccl_tests() {
    run 0 "$bin/symm-run" --emulated -n 2 "$bin/symm-bench" -b 1K -e 4K -f 2 all-reduce -n 2 -w 0 -c 1 \
        --json out.json
    rows 3
    [ "$(column 1)" = '1024 2048 4096' ] || die "sizes: $(column 1)"
    [ "$(json out.json options iters) $(json out.json options warmup)" = '2 0' ]
    [ "$(json out.json options check)" = ON ]
    # Products have a letter of the same name: n columns.
    run 0 "$bin/symm-run" --emulated -n 1 "$bin/symm-bench" matmul -m 8 -n 40 -k 8 --iters 1
    said '^ +8 +40 +8 '
}

case_json() {
    run 0 env SYMM_MULTICAST=0 "$bin/symm-run" --emulated -n 2 "$bin/symm-bench" all-reduce \
        --algo all --check --sizes 1K,4K --seed 0x2a --peer all --memory plain --json out.json
    [ "$(json out.json driver)" = emulated ]
    [ "$(json out.json ranks)" = 2 ]
    [ "$(json out.json seed)" = 0x2a ]
    [ "$(json out.json timings)" = 'emulated, no performance' ]
    [ "$(json out.json options check)" = ON ]
    [ "$(json out.json rows 11 bytes)" = 4096 ]
    [ "$(json out.json rows 11 algo)" = two_shot ]
    [ "$(json out.json rows 11 wrong)" = 0 ]
    [ "$(json out.json rows 0 in_place)" = OFF ]
    [ "$(json out.json unavailable 0 algo)" = multimem ]
    [ "$(json out.json unavailable 2 algo)" = copy_engine ]
    [ "$(json out.json unavailable 3 algo)" = nccl ]
    [ "$(json out.json unavailable 4 algo)" = nccl_sym ]
    [ "$(json out.json options timing)" = stream ]
    said "^# nccl: not available: $(json out.json unavailable 3 reason)\$"
}

case_text_that_is_no_utf() {
    # Bytes that are no UTF-8 are ? in the JSON; characters of two and more bytes stay.
    run 0 bench 2 --sizes 1K --csv $'ü\xff€\xc3.csv' --json out.json
    python3 -c 'import json
command = json.load(open("out.json", encoding="utf-8"))["command"]
assert command[command.index("--csv") + 1] == "ü?€?.csv", command' || die "another command"
}

case_csv() {
    run 0 bench 2 --algo one_shot,two_shot --sizes 1K,4K --csv out.csv
    head -n 1 out.csv | grep -qx \
        bytes,count,dtype,op,algo,ranks,in_place,time_us,p95_us,algbw,busbw,wrong || die "its columns"
    [ "$(wc -l <out.csv)" = 5 ] || die "not four rows"
    [ "$(awk -F, 'NF != 12' out.csv | wc -l)" = 0 ] || die "not twelve columns"
}

case_unwritable() {
    for option in --json --csv; do
        run 1 bench 2 --sizes 1K "$option" no/such/folder
        errors '^# rank 0: SYMM_ERROR_SYSTEM: no/such/folder: No such file or directory$'
    done
    [ -c /dev/full ] || return 0
    run 1 bench 2 --sizes 1K --json /dev/full
    errors '^# symm-bench: /dev/full: could not be written$'
    ! "$bin/symm-bench" all-reduce --driver emulated --sizes 1K >/dev/full 2>err ||
        die "a table that cannot be written is no success"
    grep -qx '# symm-bench: the table could not be written' err || die "what could not be written"
}

case_chain() {
    local algos mode
    algos=$(with_multimem one_shot,two_shot)
    for mode in '--chain' '--chain --graph' '--chain --in-place --graph' '--in-place' \
        '--chain --memory plain' '--isolated' '--isolated --graph --in-place'; do
        right 3 all-reduce --algo "$algos" --sizes 4,4000,40K --dtype fp16 $mode
        rows_of 3 "$algos"
    done
    said '^# .*each after a barrier that is subtracted'
    run 0 bench 2 --chain --sizes 1K --json out.json
    said '^# .*each on the result of the one before'
    [ "$(json out.json options timing)" = chain ]
}

case_host_time() {
    local operation
    for operation in all-reduce all-gather reduce-scatter broadcast; do
        right 2 $operation --host-time --sizes 1K,4000 --json out.json --csv out.csv
        rows 2
        said '^# +bytes .* in_place +host_us +p95_us launch_us beside_us +wrong$'
    done
    said '^# .*, host time, symmetric memory$'
    [ "$(json out.json options timing)" = host ]
    # The CSV has more digits than the table.
    awk -F, 'NR > 1 && ($8 <= 0 || $10 <= 0 || $8 - $10 - $11 > 2e-4 || $8 - $10 - $11 < -2e-4) { bad = 1 }
        END { exit bad }' out.csv || die "beside_us is not host_us less launch_us"
    right 1 all-reduce --host-time --sizes 1K
}

case_wrong_results_are_found() {
    local bits=' is -1\.68[0-9]+e\+38 and should be '
    for mode in '' --graph --chain --in-place --isolated; do
        run 1 preloaded output 3 all-reduce --iters 1 --algo two_shot --check --sizes 4,4000 $mode
        errors "^# rank 2: two_shot, 4000 bytes: element 20$bits"
        [ "$(column 12)" != 0 ] || die "no wrong elements"
    done
    # The first call is right: the check after the measurement finds the fault.
    run 1 preloaded late 3 all-reduce --iters 1 --algo two_shot --check --sizes 4000
    errors "^# rank 2: two_shot, 4000 bytes: element 20$bits"
    for mode in '' --in-place; do
        # What one algorithm has left is not the result of the next one.
        run 1 preloaded stale 3 all-gather --iters 1 --algo one_shot,low_latency --check --sizes 6000 $mode
        errors '^# rank 0: one_shot, 6000 bytes: element [0-9]+ is '
        run 1 preloaded output 3 all-gather --iters 1 --algo one_shot --check --sizes 6000 $mode
        errors "^# rank 2: one_shot, 6000 bytes: element 20$bits"
        run 1 preloaded output 3 reduce-scatter --iters 1 --algo one_shot --check --sizes 6000 $mode
        errors "^# rank 2: one_shot, 2000 bytes: element 20$bits"
        run 1 preloaded output 3 broadcast --iters 1 --algo one_shot --check --sizes 6000 $mode
        errors "^# rank 2: one_shot, 6000 bytes: element 20$bits"
    done
}

case_links() {
    run 0 "$bin/symm-run" --emulated -n 3 "$bin/symm-bench" p2p --sizes 16,20016 --blocks 3 \
        --iters 2 --warmup 0 --json out.json --csv out.csv
    said '^# +bytes +how +pattern +blocks ranks +time_us +p95_us +gbs +wrong$'
    [ "$(column 9)" = '- 0' ] || die "wrong words"
    # Six kinds of transfer in five patterns at two sizes, and two kinds of latency.
    [ "$(grep -vc '^#' "$work/out")" = 62 ] || die "not 62 rows"
    [ "$(wc -l <out.csv)" = 63 ] || die "not 62 rows and a head"
    [ "$(json out.json rows 1 how)" = packet ]
    [ "$(json out.json rows 1 wrong)" = 0 ]
    [ "$(json out.json rows 2 pattern)" = pair ]
    [ "$(json out.json options blocks)" = 3 ]
    run 0 "$bin/symm-run" --emulated -n 2 "$bin/symm-bench" p2p --sizes 16 --iters 1
    [ "$(column 3)" = 'pair pair_both' ] || die "with two ranks the others are the same"
    run 1 "$bin/symm-bench" p2p --driver emulated
    errors '^# rank 0: .*two ranks'
}

# height_of TEXT: prints the y of a text of out.svg in whole pixels.
height_of() {
    sed -nE "s/.* y=\"([0-9]+)[^>]*$1.*/\1/p" out.svg | sed -n 1p
}

case_plot() {
    run 0 bench 2 --sizes 1K,64K --algo one_shot,two_shot --json out.json
    mkdir empty
    run 1 env PATH="$work/empty" "$bin/symm-bench" plot out.json -o out.svg
    errors '^# symm-bench: plot: python3 is not there: install '
    [ ! -e out.svg ] || die "a picture without python3"
    command -v python3 >/dev/null || skip "no Python"
    run 0 "$bin/symm-bench" plot out.json -o out.svg --floor 100
    has_words out.svg '>one_shot<' '>two_shot<' 'floor: 100 GB/s' latency bandwidth 'emulated on CPUs' '>64K<'
    # A dot for each size in each panel, with the numbers of the row.
    [ "$(grep -c '<circle' out.svg)" = 8 ] || die "not two sizes of two variants in two panels"
    for key in time_us busbw; do
        value=$(python3 -c 'import json, sys
print(*[f"{row[sys.argv[1]]:.6g}" for row in json.load(open("out.json"))["rows"] if row["algo"] == "two_shot"][1:])' $key)
        has_words out.svg "two_shot: 65536 bytes, $value<"
    done
    # The legend is below the axes, away from the lines.
    [ "$(height_of '>floor: 100 GB.s<')" -gt "$(height_of '>bytes<')" ] || die "the legend is above"
    # Without --floor there is one where the speed of the device is known.
    run 0 "$bin/symm-bench" plot out.json -o out.svg
    ! grep -q floor out.svg || die "a floor for a device that does not exist"
    sed 's/SYMM emulated device[ 0-9]*/NVIDIA H200/; s/"driver": "emulated"/"driver": "cuda"/' \
        out.json >gpu.json
    run 0 "$bin/symm-bench" plot gpu.json -o out.svg
    has_words out.svg 'floor: 395 GB/s'
    ! grep -q 'emulated on CPUs' out.svg || die "this is a GPU"
    run 0 "$bin/symm-bench" plot gpu.json out.json -o out.svg
    has_words out.svg 'emulated on CPUs' # one of the two
    run 0 measure 2 all-gather --sizes 1K,64K --plot again.svg --json gather.json
    has_words again.svg 'all-gather, 2 ranks' 'emulated on CPUs'
    run 0 bench 2 --sizes 1K,64K --algo one_shot,low_latency --json "it's.json"
    run 0 "$bin/symm-bench" plot out.json "it's.json" -o out.svg
    has_words out.svg '>two_shot<' '>low_latency<' '>one_shot, out.json<' ">one_shot, it's.json<"
    run 1 "$bin/symm-bench" plot out.json gather.json -o out.svg
    errors '^# symm-bench: plot: gather.json: another operation or number of ranks or hosts than the first$'
    run 1 "$bin/symm-bench" plot nothing.json -o out.svg
    errors '^# symm-bench: plot: nothing.json: No such file'
    echo '[1' >broken.json
    run 1 "$bin/symm-bench" plot broken.json -o out.svg
    errors '^# symm-bench: plot: broken.json: no JSON of symm-bench: '
    run 1 bench 2 --sizes 1K --plot no/such/folder.svg
    errors '^# symm-bench: plot: no/such/folder.svg: No such file'
}

tune() {
    local n=$1
    shift
    "$bin/symm-run" --emulated -n "$n" --timeout 200 "$bin/symm-bench" tune --iters 1 --warmup 0 "$@"
}

case_tune() {
    run 0 tune 3 --output table --max-bytes 4K --dtypes bf16,int64
    said '^# +bytes +operation +dtype +memory +algo ranks +time_us +p95_us taken$'
    said '^# written: table$'
    [ "$(ls table*)" = table ] || die "other files: $(ls)"
    [ "$(sed -n 2p table)" = 'symm-tuning 1' ] || die "no table"
    for kind in 'all-reduce 3 bfloat16' 'all-reduce 3 int64' 'all-gather 3 any' 'broadcast 3 any' \
        'reduce-scatter 3 bfloat16' 'reduce-scatter 3 int64'; do
        for memory in symmetric any; do
            grep -qE "^$kind $memory 0 [a-z_]+\$" table || die "no row $kind $memory 0"
        done
    done
    # At each of three sizes, a row for each algorithm that auto may choose; one of them is taken.
    [ "$(grep -c ' all-reduce .* symmetric .* two_shot ' "$work/out")" = 6 ] || die "not 6 rows"
    [ "$(grep -c ' all-gather .* any .* any ' "$work/out")" -ge 6 ] || die "not 6 rows"
    [ "$(grep -cE ' yes$' "$work/out")" = 36 ] || die "not one taken of each kind at each size"
    ! grep -qE ' (auto|multimem_one_shot) ' "$work/out" || die "an algorithm that auto may not take"
    [ "$(awk '$5 == "copy_engine" && $2 != "reduce-scatter" { print $4 }' "$work/out" | sort -u)" = \
        symmetric ] || die "copy_engine in symmetric memory and nowhere else"
    grep -qE 'reduce-scatter .* any .* copy_engine ' "$work/out" || die "no copy_engine in any memory"
    run 0 env SYMM_TUNING_FILE=table "$bin/symm-run" --emulated -n 3 "$bin/symm-bench" all-reduce \
        --check --sizes 1K,4K --iters 1
    # The table names its machine, and symm refuses it on another one.
    [[ $(sed -n 3p table) =~ ^'machine emulated '[0-9.]+' SYMM emulated device'$ ]] || die "no machine"
    sed 's/^machine emulated/machine cuda/' table >other
    run 1 env SYMM_TUNING_FILE=other "$bin/symm-run" --emulated -n 3 "$bin/symm-bench" all-reduce
    errors 'SYMM_TUNING_FILE=other, line 3: measured on "cuda .*, and this is "emulated .*symm-bench tune'
    # The output file is not read as the tuning file.
    export SYMM_TUNING_FILE=new
    run 0 tune 2 --output new --operations all-gather --max-bytes 1K
    [ "$(grep -vcE '^#|^symm-tuning 1$|^machine |^all-gather 2 any ' new)" = 0 ] || die "rows of other operations"
}

# The stand-in's NCCL is measured in plain memory only. Above twice the largest size the calls are its own.
case_tune_beside_nccl() {
    run 1 tune 2 --peer nccl --output beside --max-bytes 1K
    errors '^# rank 0: SYMM_ERROR_UNSUPPORTED: --peer nccl cannot run here: it needs GPUs'
    export SYMM_NCCL_LIBRARY=$bin/../lib/standin/libnccl.so.2 NCCL_NVLS_ENABLE=0
    run 0 tune 2 --peer nccl --output beside --operations all-gather --max-bytes 2K
    [ "$(grep -c ' any .* any .* forward ' "$work/out")" = 2 ] || die "NCCL was not measured at two sizes"
    [ "$(grep -c ' symmetric .* forward ' "$work/out")" = 0 ] || die "NCCL in symmetric memory"
    grep -qE '^all-gather 2 any any [0-9]+ forward$' beside || die "no row forward"
    run 0 env SYMM_TUNING_FILE=beside "$bin/symm-run" --emulated -n 2 "$bin/symm-bench" all-gather \
        --memory plain --check --sizes 1K,8K --iters 1
}

# on_hosts RANKS HOSTS ARGUMENT...: runs symm-bench on pretended hosts, with the stand-in for NCCL.
on_hosts() {
    local n=$1 hosts=$2
    shift 2
    env SYMM_NCCL_LIBRARY="$bin/../lib/standin/libnccl.so.2" NCCL_NVLS_ENABLE=0 \
        "$bin/symm-run" --emulated -n "$n" --hosts "$hosts" --timeout 200 "$bin/symm-bench" "$@" --iters 1 --warmup 0
}

case_hosts() {
    local operation options
    for operation in all-reduce all-gather reduce-scatter 'broadcast --root 3'; do
        # shellcheck disable=SC2086
        run 0 on_hosts 4 2 $operation --check --sizes 1K,20K --json run.json
        table 6 13
        [ "$(column 5)" = "auto flat hierarchical" ] || die "other forms: $(column 5)"
        [ "$(column 12)/$(column 13)" = 0/2 ] || die "wrong elements, or not 2 hosts"
    done
    said '^# 2 hosts, 2 ranks on each$'
    said '^# the hosts are pretended .*say nothing about a network$'
    [ "$(json run.json hosts) $(json run.json ranks_per_host) $(json run.json pretended_hosts)" = "2 2 ON" ]
    [ "$(json run.json rows 2 algo) $(json run.json rows 2 hosts)" = "hierarchical 2" ]
    for options in '--chain --graph --op avg' '--in-place --isolated --memory plain --dtype float16' '--dtype int64 --op max'; do
        # shellcheck disable=SC2086
        run 0 on_hosts 4 2 all-reduce --check --sizes 4K --algo flat,hierarchical $options
        [ "$(column 5)/$(column 12)" = "flat hierarchical/0" ] || die "$options"
    done
    # NCCL over the same ranks.
    run 0 on_hosts 4 2 all-gather --check --sizes 4K --algo flat --peer nccl
    [ "$(column 5)/$(column 12)" = "flat nccl nccl_sym/0" ] || die "no NCCL"
    # Hosts of different sizes, and variants of the other kind of groups.
    run 0 on_hosts 3 2 all-reduce --check --sizes 4K
    [ "$(column 5)/$(column 12)" = "auto flat/0" ] || die "not flat alone"
    said '^# 2 hosts, with different numbers of ranks: all calls are flat$'
    said '^# hierarchical: not available: hierarchical needs domains of as many ranks each$'
    run 1 on_hosts 3 2 all-reduce --algo hierarchical
    errors '^# rank 0: SYMM_ERROR_UNSUPPORTED: --algo hierarchical cannot run here: hierarchical needs domains'
    run 1 on_hosts 2 2 all-reduce --algo auto,one_shot
    errors '^# rank 0: SYMM_ERROR_UNSUPPORTED: --algo one_shot cannot run here: a group of several domains has'
    run 1 "$bin/symm-run" --emulated -n 2 "$bin/symm-bench" all-reduce --algo flat
    errors '^# rank 0: SYMM_ERROR_UNSUPPORTED: --algo flat cannot run here: it is a form of groups of several'
    run 1 env -u SYMM_NCCL_LIBRARY "$bin/symm-run" --emulated -n 2 --hosts 2 "$bin/symm-bench" all-reduce
    errors '^# rank [01]: SYMM_ERROR_UNSUPPORTED: .*set SYMM_NCCL_LIBRARY'
}

case_hosts_wrong_results() {
    run 1 env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" SYMM_TEST_WRONG=output \
        SYMM_NCCL_LIBRARY="$bin/../lib/standin/libnccl.so.2" "$bin/symm-run" --emulated -n 4 --hosts 2 \
        env LD_PRELOAD="$build/lib/libtools_wrong.so" "$bin/symm-bench" all-reduce --check --sizes 4K --iters 1
    errors '^# rank [0-3]: hierarchical, 4096 bytes: element [0-9]+ is .* and should be '
}

# launches TABLE: the kernels of symm in all-reduces of auto by this table.
launches() {
    rm -f trace.*
    SYMM_TUNING_FILE=$1 SYMM_EMULATED_TRACE=$work/trace \
        run 0 on_hosts 4 2 all-reduce --algo auto --check --sizes 1K --memory plain
    cat trace.* | grep -c '^cuLaunchKernelEx' || true
}

case_tune_hosts() {
    local flat hierarchical
    run 0 on_hosts 4 2 tune --output table --max-bytes 2K --dtypes bf16
    [ "$(sed -n 1,2p table)" = "# symm-bench tune, 2x2 ranks
symm-tuning 1" ] || die "another head: $(sed -n 1,2p table)"
    for kind in 'all-reduce 2x2 bfloat16' 'reduce-scatter 2x2 bfloat16' 'all-gather 2x2 any' 'broadcast 2x2 any'; do
        grep -qE "^$kind any 0 (flat|hierarchical)\$" table || die "no row $kind any 0"
    done
    ! grep -q symmetric table || die "rows of symmetric memory"
    [ "$(grep -cE ' yes +2$' "$work/out")" = 8 ] || die "not one form taken at each of 2 sizes"
    # auto follows the rows: with other words in them it takes the other form.
    sed 's/hierarchical$/flat/' table >flat
    sed 's/flat$/hierarchical/' table >hierarchical
    flat=$(launches flat) hierarchical=$(launches hierarchical)
    [ "$hierarchical" -gt "$flat" ] || die "$hierarchical kernels by the table of hierarchical rows, $flat by that of flat ones"
    run 1 on_hosts 3 2 tune --output none
    errors '^# rank 0: SYMM_ERROR_UNSUPPORTED: the hosts have different numbers of ranks'
    run 1 on_hosts 4 2 tune --output none --peer nccl
    errors '^# rank 0: SYMM_ERROR_UNSUPPORTED: --peer nccl is for libsymm_nccl.so'
    [ ! -e none ] || die "a file is left"
}

case_model() {
    run 0 "$bin/symm-bench" model --json model.json --csv model.csv
    said '^# symm-bench [0-9.]+ model: calculated, not measured$'
    said '^# 8 GPUs on each host, '
    table 108 8
    # 2 (7 x 1.25 + 8.5) + 14 us of NCCL's steps and 256 KiB; docs/hosts.md has the table.
    said '^ +262144 +all-reduce +2 +16 +51\.[0-9]+ +51\.[0-9]+ +29\.[0-9]+ hierarchical$'
    said '^ +1073741824 +all-gather +1024 +8192 +20764\.[0-9]+ '
    [[ $(json model.json timings) == *'not measured' ]]
    [ "$(json model.json rows 0 hosts) $(json model.json constants channels_per_rank)" = "2 2" ]
    [ "$(wc -l <model.csv)" = 109 ]
    run 0 "$bin/symm-bench" model --hosts 3 --ranks-per-host 1 --sizes 1M
    table 3 8
    [ "$(column 4)/$(column 8)" = 3/flat ] || die "other ranks or forms"
    awk '!/^#/ && $5 != $7 { exit 1 }' "$work/out" || die "hosts of one GPU: two forms differ"
    run 1 "$bin/symm-bench" model --json no/such/folder
    errors '^# symm-bench: no/such/folder: '
}

case_tune_leaves_nothing_behind() {
    mkdir made
    run 1 tune 2 --output no/such/folder --max-bytes 1K
    errors '^# rank 0: SYMM_ERROR_SYSTEM: no/such/folder\.[0-9]+: No such file or directory$'
    run 1 env SYMM_EMULATED_FAULT='cuMemcpyAsync@1#9=700' \
        "$bin/symm-run" --emulated -n 2 "$bin/symm-bench" tune --output made/table
    errors '^# rank [01]: SYMM_ERROR_'
    run 1 "$bin/symm-bench" tune --driver emulated --output made/table
    errors 'one rank alone has nothing to choose'
    # A signal ends it in the middle.
    "$bin/symm-run" --emulated -n 2 "$bin/symm-bench" tune --output made/table --iters 1000 >"$work/out" 2>"$work/err" &
    while kill -0 $! && ! grep -q '^# 1000 repetitions' "$work/out"; do
        sleep 0.05
    done
    kill $!
    ! wait $! || die "it was not ended"
    [ -z "$(ls made)" ] || die "a file of what was not measured to the end: $(ls made)"
    mkdir made/folder
    run 1 tune 2 --output made/folder --operations all-gather --max-bytes 1K
    errors '^# rank 0: SYMM_ERROR_SYSTEM: made/folder: Is a directory$'
    [ "$(ls made)" = folder ] || die "other files: $(ls made)"
}

case_pytorch_peer() {
    # pytorch.py needs GPUs. Checked here: the syntax of its files, and its message without PyTorch. Below: its options.
    command -v python3 >/dev/null || skip "no Python"
    local peer file
    peer=$(dirname "$0")/../../../tools/peers/pytorch.py
    for file in "$(dirname "$peer")"/*.py; do
        run 0 python3 -c 'import ast, sys; ast.parse(open(sys.argv[1]).read())' "$file"
    done
    ! python3 -c 'import torch' 2>/dev/null || return 0
    run 1 python3 -B "$peer" all-reduce
    errors '^# pytorch.py: no PyTorch with symmetric memory: '
}

# stub_pytorch: makes modules of PyTorch's names. They say where the ranks meet, and have tensors of one number.
stub_pytorch() {
    mkdir -p stub/torch/distributed
    : >stub/torch/distributed/_symmetric_memory.py
    cat >stub/torch/__init__.py <<'END'
import types
class Number(float):
    def float(self): return self
    double = float
    def abs(self): return Number(abs(float.__float__(self)))
def mm(a, b): return Number(a * b)
def empty(*_, **__): return Number(1)
def device(*_): pass
bfloat16 = float16 = float32 = None
cuda = types.SimpleNamespace(set_device=lambda _: None)
END
    cat >stub/torch/distributed/__init__.py <<'END'
import os, sys
def all_gather_into_tensor(*_): pass
def init_process_group(*_, **__): sys.exit(" ".join(os.environ[name] for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_PORT")))
END
    export PYTHONPATH="$work/stub"
}

case_pytorch_usage() {
    command -v python3 >/dev/null || skip "no Python"
    local peer arguments text port
    peer=$(dirname "$0")/../../../tools/peers
    stub_pytorch
    while IFS='|' read -r arguments text; do
        run 2 timeout 20 python3 -B "$peer/pytorch.py" $arguments
        errors ": error: .*$text\$"
    done <<'END'
all-reduce --factor 1|1: not a number from 2 on
all-reduce --min-bytes 0|0: not a number of bytes like 4096, 64K or 1M
all-reduce --sizes 1K,x|x: not a number of bytes like 4096, 64K or 1M
all-reduce --min-bytes 4K --max-bytes 1K|--max-bytes 1024 is less than --min-bytes 4096
all-reduce --iters 0|0: not a number from 1 on
all-reduce --warmup x|x: not a number from 0 on
matmul-all-reduce -m 0 -n 1 -k 1|0: not a number from 1 on
END
    run 1 python3 -B "$peer/pytorch.py" all-reduce
    errors '^# pytorch.py: RANK is not set: start it by symm-run -n RANKS or torchrun$'
    # Each job meets at a port of its own.
    for _ in 1 2; do
        run 1 "$bin/symm-run" -n 1 python3 -B "$peer/pytorch.py" all-reduce
        errors '^0 1 0 [0-9]+$'
        port="${port:-} $(sed -n 's/^0 1 0 //p' "$work/err")"
    done
    [ "${port% *}" != " ${port##* }" ] || die "two jobs at one port: $port"
    # A file that cannot be written is known before the ranks meet.
    run 1 "$bin/symm-run" -n 1 python3 -B "$peer/pytorch.py" all-reduce --json no/such/folder
    errors '^# pytorch.py: --json no/such/folder: No such file or directory$'
    # The bound of a product of gathered rows has the k of one rank.
    run 0 env PYTHONPATH="$PYTHONPATH:$peer" python3 -B - <<'END'
import types, torch
from products import Products
product = Products.__new__(Products)
vars(product).update(options=types.SimpleNamespace(operation="all-gather-matmul"), m=1, k=64, nranks=4, rounding=0,
                     a=torch.Number(1), b=torch.Number(1), dtype=None, device=None)
assert product.expected() == (1, 2.0**-18), product.expected()
END
}

case_stress() {
    run 0 "$bin/symm-run" --emulated -n 3 "$bin/symm-bench" stress --seconds 5
    said '^# seed 0x'
    said '^# [0-9]+ rounds, [0-9]+ calls, [0-9]+ elements checked, none wrong$'
    only_comments "$work/out"
    run 0 "$bin/symm-run" --emulated -n 2 "$bin/symm-bench" stress --strategy fused,unfused --seconds 1
    said ' none wrong$'
    run 1 env SYMM_MULTICAST=0 "$bin/symm-run" --emulated -n 2 "$bin/symm-bench" stress --algo multimem
    errors '^# rank 0: SYMM_ERROR_UNSUPPORTED: --algo multimem runs here in no operation$'
    run 1 env SYMM_MULTICAST=0 "$bin/symm-run" --emulated -n 2 \
        "$bin/symm-bench" stress --algo one_shot,multimem --seconds 1
    errors '^# rank 0: SYMM_ERROR_UNSUPPORTED: --algo multimem runs here in no operation$'
    [ "$(grep -c '^# rank' "$work/err")" = 1 ] || die "one rank says it for all"
}

case_stress_finds_wrong_results() {
    local first
    run 1 preloaded output 3 stress --algo all --seed 7
    errors '^# rank [0-2]: wrong in round [0-9]+, group .*: element [0-9]+ is .* and should be '
    errors '^#   (all-reduce|all-gather|reduce-scatter|broadcast) [a-z_]+, ((sum|avg|min|max) of )?[0-9]+ [a-z0-9_]+( from rank [0-9]+)?, '
    said ', WRONG$'
    first=$(sort "$work/err" | grep wrong)
    run 1 preloaded output 3 stress --algo all --seed 7
    [ "$(sort "$work/err" | grep wrong)" = "$first" ] || die "another seed: $first"
    run 1 preloaded behind 3 stress --algo all
    errors ': something beside the output was written$'
    run 1 preloaded input 3 stress --algo all
    # In place, the output or the rest of the buffer that contains it is wrong.
    errors ': (the input was written|element .*|something beside the output was written)$'
    # Products, too; a small result ends before the spoiled byte.
    run 1 preloaded output 3 stress --strategy all
    errors ': (element \[[0-9]+, [0-9]+, [0-9]+\] is .* and should be .*|something beside the output was written)$'
    errors '^#   (matmul|all-gather-matmul|matmul-(reduce-scatter|all-reduce|all-scatter)) (auto|fused|pipelined|unfused|product|data_parallel|stream_k), m [0-9]+, n [0-9]+, k [0-9]+, l [1-3], '
    run 1 preloaded behind 3 stress --strategy all
    errors ': something beside the output was written$'
    run 1 preloaded input 3 stress --strategy all
    errors ': (an input was written|element .*)$'
}

# without_multicast OPERATION OPTION...: runs symm-bench with SYMM_MULTICAST=0.
without_multicast() {
    env SYMM_MULTICAST=0 "$bin/symm-run" --emulated -n 2 "$bin/symm-bench" "$@" --sizes 1K
}

case_progress() {
    # On a terminal; nowhere else, not even where only the output is one.
    local job="$bin/symm-run --emulated -n 2 $bin/symm-bench"
    run 0 script -qec "$job stress --seconds 1" /dev/null
    said 'stress: round [0-9]+, [01] s left'
    run 0 script -qec "$job tune --iters 1 --warmup 0 --output table --max-bytes 1K" /dev/null
    said 'tuning all-reduce, bfloat16, symmetric memory, 1024 bytes'
    run 0 env SYMM_EMULATED_DEVICES=2 script -qec "$bin/symm-info --verify --driver emulated" /dev/null
    said 'verifying all-reduce auto'
    run 0 script -qec "$job stress --seconds 1 2>errors" /dev/null
    [ ! -s errors ] || die "progress that is no terminal's: $(cat errors)"
}

case_unavailable() {
    # A named algorithm must run...
    local operation
    for operation in all-reduce all-gather reduce-scatter broadcast; do
        for algos in multimem one_shot,multimem; do
            run 1 without_multicast $operation --algo $algos --check --json out.json
            said '^# multimem: not available: .*(SYMM_MULTICAST|without multicast)'
            errors '^# rank 0: SYMM_ERROR_UNSUPPORTED: --algo multimem cannot run here: .*(SYMM_MULTICAST|without multicast)'
            [ "$(grep -c '^# rank' "$work/err")" = 1 ] || die "more than one rank prints the error"
            [[ $(json out.json error) == *'--algo multimem'* ]] || die "no error in the JSON"
        done
        run 1 without_multicast $operation --peer nccl
        said '^# nccl: not available: it needs GPUs'
        errors '^# rank 0: .*--peer nccl cannot run here: it needs GPUs'
        # ... and of `all`, at least one.
        run 0 without_multicast $operation --algo all --peer all
        said '^# multimem: not available: .*(SYMM_MULTICAST|without multicast)'
        said '^# nccl: not available: it needs GPUs'
    done
    run 1 measure 2 all-gather --memory plain --algo copy_engine --sizes 1K
    errors '--algo copy_engine cannot run here: it needs symmetric memory'
    run 1 measure 2 p2p --pattern pair,ring --sizes 1K
    errors '--pattern ring cannot run here: it needs 3 ranks$'
}

case_nothing_measured() {
    run 1 preloaded unavailable 2 all-reduce --algo all --check --sizes 1K
    said '^# auto: not available: by SYMM_TEST_WRONG$'
    errors '^# rank 0: SYMM_ERROR_UNSUPPORTED: nothing was measured$'
    rows 0
    run 1 preloaded unavailable 2 tune --output table --operations all-reduce --max-bytes 1K
    errors '^# rank 0: SYMM_ERROR_UNSUPPORTED: nothing was measured$'
    [ ! -e table ] || die "a table without measurements"
}

case_alone() {
    run 0 "$bin/symm-bench" all-reduce --driver emulated --algo all --check --sizes 1K
    said '^# symm-bench .*: 1 rank, emulated driver'
    said '^# one rank alone: .*symm-run -n N symm-bench all-reduce '
    [ "$(column 12)" = 0 ] || die "wrong elements"
    run 0 bench 2 --sizes 1K
    ! grep -q 'one rank' "$work/out" || die "the hint for one rank on two ranks"
}

case_under_torchrun_and_mpirun() {
    # Sets the variables of torchrun.
    local job=(MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + $$ % 10000)) TORCHELASTIC_RUN_ID=test)
    for rank in 0 1; do
        env "${job[@]}" RANK=$rank WORLD_SIZE=2 LOCAL_RANK=$rank LOCAL_WORLD_SIZE=2 SYMM_DIR="$work" \
            "$bin/symm-bench" all-reduce --driver emulated --check --sizes 1K >"out.$rank" 2>&1 &
    done
    wait
    cp out.0 "$work/out"
    rows 1
    [ ! -s out.1 ] || die "rank 1 prints: $(cat out.1)"
    command -v mpirun >/dev/null || return 0
    run 0 env SYMM_DRIVER=emulated SYMM_DIR="$work" \
        mpirun --allow-run-as-root --oversubscribe -n 2 "$bin/symm-bench" all-reduce --check --sizes 1K
    rows 1
}

case_dead_rank() {
    # The other ranks name the dead rank; --keep-going, because symm-run would stop them.
    run 137 env SYMM_EMULATED_FAULT='cuLaunchKernelEx@2#50=kill' \
        "$bin/symm-run" --emulated -n 4 --keep-going "$bin/symm-bench" all-reduce --algo two_shot --sizes 64K --iters 1000 --json out.json
    errors '^# symm-run: rank 2 was killed by SIGKILL$'
    for rank in 0 1 3; do
        errors "^# rank $rank: SYMM_ERROR_PEER: .*rank 2 "
    done
    [[ $(json out.json error) == *"rank 2 "* ]] || die "no error in the JSON"
}

case_failing_rank() {
    run 1 env SYMM_EMULATED_FAULT='cuMemcpyAsync@1#3=700' \
        "$bin/symm-run" --emulated -n 3 --keep-going "$bin/symm-bench" all-reduce --check --sizes 1K
    errors '^# rank 1: SYMM_ERROR_DRIVER: '
    errors '^# rank 0: SYMM_ERROR_PEER: .*rank 1'
}

case_usage() {
    while read -r arguments; do
        run 2 "$bin/symm-bench" $arguments
        only_comments "$work/err"
        errors "${arguments##*[ ,]}"
        [ ! -s "$work/out" ] || die "something on the standard output"
    done <<'END'
nonsense
all-reduce more
all-reduce --algo foo
all-reduce --algo one_shot,bar
all-reduce --dtype int8
all-reduce --op prod
all-reduce --dtype int32 --op avg
all-gather --op
all-gather --algo two_shot
reduce-scatter --algo multimem_one_shot
reduce-scatter --dtype e4m3
all-reduce --dtype uint8
p2p --op
all-reduce --sizes 1K,-1
all-reduce --sizes 1X
all-reduce --min-bytes 0
all-reduce --max-bytes 99999999999999999999
all-reduce --factor 1
all-reduce --iters 0
all-reduce --warmup -1
all-reduce --peer mpi
all-reduce --memory shared
all-reduce --seed xyz
all-reduce --driver hip
all-reduce --timeout 0
all-reduce --json
all-reduce --floor x
all-reduce --seconds
p2p --how fly
p2p --pattern pair,square
p2p --blocks 4,0
p2p --threads 513
p2p --algo
model --hosts 2,1
model --ranks-per-host 0
model --graph
stress --seconds 0
tune --output x --operations gather
tune --output x --dtypes bf16,uint8
tune --algo
stress --json
plot
all-reduce --nonsense
END
    run 2 "$bin/symm-bench" all-reduce --algo ''
    errors '^# symm-bench: --algo: an empty list '
    while IFS='|' read -r arguments text; do
        run 2 "$bin/symm-bench" $arguments
        errors "^# symm-bench: $text \(symm-bench --help shows the usage\)\$"
    done <<'END'
|the command is missing: all-reduce, .* plot and report
all-reduce --min-bytes 4K --max-bytes 1K|--max-bytes 1024 is less than --min-bytes 4096
all-reduce --chain --isolated|--chain and --isolated exclude each other
all-reduce --host-time --graph|--host-time excludes --chain, --isolated, --graph and --plot
all-gather --op sum|--op: all-gather has no such option
all-gather --chain|--chain: all-gather has no such option
plot x.json|plot: -o FILE.svg is missing
report x.json|report: -o FILE.html is missing
report -o x.html|report: the JSON file is missing
tune|tune: --output FILE is missing
all-reduce --nonsense=3|--nonsense: no such option
all-reduce -x|-x: no such option
all-reduce -c|-c needs a value
all-reduce -n 0|--iters 0: not a number from 1 to 1000000
matmul -b 1K|--min-bytes: matmul has no such option
all-reduce --check -xh|-x: no such option
all-reduce --check=2|--check=2: --check takes no value
all-reduce --algo|--algo needs a value
matmul -m|-m needs a value
all-reduce --ch|--ch may be one of --chain, --check
all-reduce --m 4 --se 1|--se may be one of --seconds, --seed
all-reduce --max 0|--max-bytes 0: not a number of bytes like 4096, 64K or 1M
all-reduce all-gather|all-gather: a second command, after all-reduce
all-gather --algo two_shot|--algo two_shot: not one of auto, low_latency, one_shot, multimem, copy_engine, flat, hierarchical
all-reduce --peer cublas|--peer cublas: the only one is nccl
all-reduce --dtype uint8|--dtype uint8: not one of bfloat16, float16, float32, float64, int32, int64
all-reduce --dtype float32,float16|--dtype float32,float16: not one of bfloat16, float16, float32, float64, int32, int64
all-reduce --op max,|--op max,: not one of sum, avg, min, max
all-reduce --max-bytes 8388608T|--max-bytes 8388608T: more than 128T
stress --max-bytes 129T|--max-bytes 129T: more than 128T
all-reduce --sizes 1K,129T|--sizes 129T: more than 128T
all-reduce --seed -5|--seed -5: not a number from 0 to 2\^64 - 1
all-reduce --seed 18446744073709551616|--seed 18446744073709551616: not a number from 0 to 2\^64 - 1
all-reduce --memory plain,symmetric|--memory plain,symmetric: not one of symmetric, plain
tune --output x --dtypes uint8|--dtypes uint8: not one of bfloat16, float16, float32, float64, int32, int64
tune --output x --operations sum|--operations sum: not one of all-reduce, all-gather, reduce-scatter, broadcast
END
    run 0 "$bin/symm-bench" --version
    said '^# symm-bench [0-9]'
}

commands=(all-reduce all-reduce-rms-norm all-gather reduce-scatter broadcast matmul all-gather-matmul p2p stress tune model plot report)

# Prints the options that the help in $work/out describes, one a line.
described() {
    sed -nE 's/^#   (-., )?--([a-z-]+)( .*)?$/\2/p' "$work/out" | sort
}

# Each option of option_table.c, with a valid value.
every_option=(
    algo=auto how=put pattern=pair blocks=1 threads=1 hidden=1 root=1 m=1 n=1 k=1 l=1 suite=llama count=1 strategy=auto alpha=1 beta=1
    dtype=bf16 operations=all-gather dtypes=fp32 op=sum min-bytes=1K max-bytes=1K factor=2 sizes=1K iters=1
    iterations=1 warmup=1 warmup-iterations=1 graph in-place chain isolated host-time memory=plain check eps=1 seconds=1
    seed=1 peer=all json=x csv=x plot=x output=x floor=1 roofline=measured driver=emulated timeout=1
)

case_help() {
    # A command's help describes the command's own options, and names the common ones, which symm-bench --help
    # describes. Together they are all options of the command.
    local command option
    run 0 "$bin/symm-bench" --help
    only_comments "$work/out"
    described >common
    for command in "${commands[@]}"; do
        run 0 "$bin/symm-bench" "$command" --help
        only_comments "$work/out"
        said "^# Usage: .*symm-bench $command "
        described >own
        [ -z "$(comm -12 common own)" ] || die "$command --help describes a common option"
        [ -z "$(uniq -d own)" ] || die "$command --help describes an option twice"
        sed -n '/^#   common:/,/describes them/p' "$work/out" | grep -oE -- '--[a-z-]+' |
            grep -vx -- --help | cut -c3- | sort >named
        [ -z "$(comm -13 common named)" ] || die "$command --help names an option that is not common"
        cat own named | sort >has
        cp "$work/out" help
        for option in "${every_option[@]}"; do
            # With SYMM_NRANKS=none joining fails, so symm-bench ends after the check of its options.
            env SYMM_NRANKS=none "$bin/symm-bench" "$command" "--$option" \
                >"$work/out" 2>"$work/err" || true
            if grep -q 'has no such option' "$work/err"; then
                ! grep -qx "${option%%=*}" has || die "$command refuses --$option of its help"
            else
                grep -qx "${option%%=*}" has || die "$command takes --$option, which its help does not name"
            fi
        done
    done
    # The help of an operation lists only its own algorithms.
    run 0 "$bin/symm-bench" all-gather --help
    ! grep -q two_shot "$work/out" || die "all-gather has no two_shot"
    ! grep -qE -- '--(op|chain) ' "$work/out" || die "all-gather reduces nothing"
    run 0 "$bin/symm-bench" all-reduce --help
    said 'two_shot'
}

main "$2"
