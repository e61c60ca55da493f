#!/usr/bin/env bash
# symm-bench --schedule-of on the emulated driver.
set -euo pipefail
. "$(dirname "$0")/bench.sh"

gathers='AllGather1D_TilingCD_RotatingA AllGather1D_TilingCD_RotatingB'
scatters='ReduceScatter1D_TilingA_RotatingC ReduceScatter1D_TilingB_RotatingC'

# command_of SCHEDULE: the command that has it.
command_of() {
    case $1 in
    AllGather*) echo all-gather-matmul ;;
    *) echo matmul-reduce-scatter ;;
    esac
}

# here SCHEDULE M N K RANKS: the shape of symm's product.
here() {
    case $1 in
    *RotatingA) echo "$2 $(($3 / $5)) $4" ;;
    *RotatingB) echo "$3 $(($2 / $5)) $4" ;;
    *TilingA*) echo "$2 $3 $(($4 / $5))" ;;
    *) echo "$3 $2 $(($4 / $5))" ;;
    esac
}

# scheduled RANKS SCHEDULE OPTION...
scheduled() {
    local n=$1 schedule=$2
    shift 2
    product "$n" "$(command_of "$schedule")" --schedule-of "cutlass:$schedule" "$@"
}

case_every_schedule_is_right() {
    local schedule ranks way
    for schedule in $gathers $scatters; do
        for ranks in 1 2 4; do
            run 0 scheduled $ranks "$schedule" --m=48 --n=80 --k=64 --check
            [ "$(column 1) $(column 2) $(column 3) $(column 4)" = "$(here "$schedule" 48 80 64 $ranks) 1" ] ||
                die "$schedule on $ranks ranks: the shape"
            for way in product auto fused pipelined unfused; do
                [ "$(grep -cE " float16 +$way +[a-z-]+ +$ranks .* 0\$" "$work/out")" = 1 ] ||
                    die "$schedule: not one right row of $way on $ranks ranks"
            done
            said "^# cutlass:$schedule: 48 x 80 x 64 x 1 on $ranks ranks?; a rank multiplies $(here "$schedule" 48 80 64 $ranks | sed 's/ / x /g')"
        done
        said '^# its structure is that of the strategy pipelined$'
        case $schedule in
        *B | *TilingB*) said "transposed: D' = B' A'\$" ;;
        *) ! grep -q transposed "$work/out" || die "$schedule is transposed" ;;
        esac
    done
}

case_options_of_the_example() {
    local schedule
    for schedule in $gathers $scatters; do
        run 0 scheduled 2 "$schedule" --m=26 --n=38 --k=12 --l=3 --alpha=1.5 --beta=-0.5 --eps=1e-5 \
            --iterations=3 --warmup-iterations=2 --check
        [ "$(column 4) $(column 16)" = '3 - 0' ] || die "$schedule: wrong elements"
        said '^# 3 repetitions of 1 operation after 2 to warm up'
        said ' elements compared, eps 1e-05$'
        # Sums in fp32 are not exact.
        run 1 scheduled 2 "$schedule" --m=64 --n=512 --k=300 --eps=1e-12 --check --seed 7
        errors '^# rank [01]: (auto|product), .* off, and no more than '
    done
}

case_defaults() {
    run 0 product 2 all-gather-matmul --schedule-of cutlass --strategy auto
    said '^# cutlass:AllGather1D_TilingCD_RotatingA: 256 x 1664 x 256 x 1 on 2 ranks; a rank multiplies 256 x 832 x 256$'
    said '^# bytes of a rank: A 65536, B 425984, D 425984; the workspace of each strategy 131072$'
    [ "$(column 5)" = float16 ] || die "another type"
    run 0 product 2 matmul-reduce-scatter --schedule-of cutlass --strategy auto --dtype bf16 --json out.json
    said '^# cutlass:ReduceScatter1D_TilingA_RotatingC: 256 x 1664 x 256 x 1 on 2 ranks; a rank multiplies 256 x 1664 x 128$'
    said '^# bytes of a rank: A 65536, B 425984, D 425984; the workspace of each strategy 851968, of fused twice that$'
    [ "$(column 5)" = bfloat16 ] || die "another type"
    [ "$(json out.json options schedule_of)" = cutlass:ReduceScatter1D_TilingA_RotatingC ] || die "the name in JSON"
    run 0 product 2 all-gather-matmul
    [ "$(column 5)" = bfloat16 ] || die "another type without a schedule"
}

case_every_element_of_large_products_is_compared() {
    # B and D by columns: the kernel finds both wrong neighbours.
    run 0 scheduled 1 AllGather1D_TilingCD_RotatingA --strategy auto --check -m 2100 -n 2000 -k 2
    said '^# 2100 x 2000 x 2: every one of 4200000 elements compared by a kernel, 1050000 on the host'
    [ "$(column 16)" = 0 ] || die "wrong elements"
    run 1 preloaded output 1 all-gather-matmul --schedule-of cutlass --iters 1 --warmup 0 --strategy auto --check \
        -m 2100 -n 2000 -k 2
    [ "$(column 16)" = 2 ] || die "not two wrong elements"
}

case_sizes_that_ranks_cannot_share() {
    local schedule size
    while read -r schedule size; do
        # shellcheck disable=SC2086
        run 1 scheduled 4 $schedule --m=48 --n=80 --k=64 --$size
        errors "^# rank 0: .*cutlass:$schedule: ${size/=/ } is no multiple of the number of ranks, 4\$"
    done <<'END'
AllGather1D_TilingCD_RotatingA m=50
AllGather1D_TilingCD_RotatingA n=81
AllGather1D_TilingCD_RotatingB m=50
AllGather1D_TilingCD_RotatingB n=81
ReduceScatter1D_TilingA_RotatingC m=50
ReduceScatter1D_TilingA_RotatingC k=65
ReduceScatter1D_TilingB_RotatingC n=81
ReduceScatter1D_TilingB_RotatingC k=65
END
    run 0 scheduled 4 AllGather1D_TilingCD_RotatingA --m=48 --n=80 --k=65 --check
    run 0 scheduled 4 ReduceScatter1D_TilingA_RotatingC --m=48 --n=81 --k=64 --check
    run 0 scheduled 4 ReduceScatter1D_TilingB_RotatingC --m=50 --n=80 --k=64 --check
}

case_usage() {
    local schedule command
    for command in all-gather-matmul matmul-reduce-scatter; do
        run 2 "$bin/symm-bench" $command --schedule-of cutlass:Ring
        for schedule in $gathers $scatters; do
            errors "--schedule-of cutlass:Ring: not one of cutlass, .*cutlass:$schedule"
        done
        run 2 "$bin/symm-bench" $command --schedule-of cutlass --suite llama
        errors '--schedule-of cutlass and --suite exclude each other '
        run 0 "$bin/symm-bench" $command --help
        said '--schedule-of NAME '
    done
    for schedule in $scatters; do
        run 2 "$bin/symm-bench" all-gather-matmul --schedule-of "cutlass:$schedule"
        errors "cutlass:$schedule: all-gather-matmul has no such schedule: "
    done
    for schedule in $gathers; do
        run 2 "$bin/symm-bench" matmul-reduce-scatter --schedule-of "cutlass:$schedule"
        errors "cutlass:$schedule: matmul-reduce-scatter has no such schedule: "
    done
    run 2 "$bin/symm-bench" matmul-all-reduce --schedule-of cutlass
    errors 'cutlass: matmul-all-reduce has no such schedule: all-gather-matmul has AllGather'
    for command in matmul matmul-all-scatter; do
        run 2 "$bin/symm-bench" $command --schedule-of cutlass
        errors "--schedule-of: $command has no such option"
    done
}

main "$2"
