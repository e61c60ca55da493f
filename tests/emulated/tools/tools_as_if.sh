#!/usr/bin/env bash
# symm-bench --as-if on the emulated driver: products of two ranks as if they were more.
set -euo pipefail
. "$(dirname "$0")/bench.sh"

# as_if R COMMAND OPTION...
as_if() {
    local ranks=$1 command=$2
    shift 2
    run 0 product 2 "$command" --as-if "$ranks" --check "$@"
    said "^# as if $ranks ranks: each of 2 ranks is rank 0, and the other one plays all others"
}

# right N: N products as if, with right results, beside the product alone.
right() {
    [ "$(grep -cE " as if [3-8] .* 0\$" "$work/out")" = "$1" ] || die "not $1 right products"
    [ "$(grep -v '^#' "$work/out" | grep -cE ' 0$')" = $(($1 + 1)) ] || die "a wrong result"
}

case_every_kind_is_right() {
    local ranks seed=$RANDOM
    for ranks in 3 4 5 8; do
        as_if $ranks all-gather-matmul -m 251 -n 72 -k 40 --seed $seed
        right 2
        as_if $ranks matmul-reduce-scatter -m 240 -n 72 -k 40 --seed $seed
        right 2
        as_if $ranks matmul-all-reduce -m 240 -n 72 -k 40 --seed $seed
        right 2
        as_if $ranks matmul-all-scatter -m 100 -n 77 -k 40 --seed $seed
        right 1
    done
}

case_every_sender_and_kernel_is_right() {
    local wgmma bytes
    for wgmma in 0 1; do
        for bytes in 1 4G; do
            export SYMM_MATMUL_WGMMA=$wgmma SYMM_MATMUL_ENGINE_BYTES=$bytes
            as_if 4 all-gather-matmul -m 600 -n 40 -k 72 -l 2 --graph
            right 2
            as_if 6 all-gather-matmul -m 5 -n 9 -k 16 # the last rank has no rows
            right 2
        done
        as_if 4 matmul-reduce-scatter -m 520 -n 88 -k 72 -l 2 --graph --partial float32
        right 2
        as_if 3 matmul-all-reduce -m 9 -n 65 -k 24 --alpha -0.5
        right 2
    done
}

case_suites_and_names() {
    as_if 4 all-gather-matmul --suite llama --strategy fused --json out.json
    [ "$(grep -cE ' fused as if 4 .* 0$' "$work/out")" = 9 ] || die "not nine right products"
    [ "$(json out.json options as_if)" = 4 ] || die "the JSON does not tell"
    [ "$(json out.json rows 1 algo)" = 'fused as if 4' ] || die "the row does not tell"
}

case_roofline() {
    command -v python3 >/dev/null || skip "no Python"
    # Of 4 ranks, 3 parts of A come over the link: 2 m n k over (m k 2 bytes) 3/4.
    as_if 4 all-gather-matmul --strategy fused -m 256 -n 96 -k 64 --json out.json
    run 0 "$bin/symm-bench" plot out.json -o out.svg --roofline 900 --floor 450
    has_words out.svg '>fused as if 4: 128 operations a byte'
}

case_what_cannot_be() {
    run 1 product 3 all-gather-matmul --as-if 4
    errors '--as-if 4: it needs 2 ranks'
    run 1 product 2 all-gather-matmul --as-if 4 --strategy unfused
    errors '--strategy unfused cannot run here: --as-if has fused and pipelined products'
    run 1 product 2 matmul-reduce-scatter --as-if 3 -m 100 --strategy fused
    errors '--strategy fused cannot run here: --as-if needs equal parts'
    run 1 product 2 all-gather-matmul --as-if 3 -m 100 -l 2 --strategy fused
    errors '--strategy fused cannot run here: --as-if needs equal parts'
    run 2 product 2 all-gather-matmul --as-if 4 --beta 1
    errors '--as-if 4: it needs --beta 0'
    for ranks in 2 9; do
        run 2 product 2 all-gather-matmul --as-if $ranks
        errors "--as-if $ranks: not a number from 3 to 8"
    done
    run 2 product 2 matmul --as-if 4
    errors '--as-if: matmul has no such option'
}

# Programs set the environment themselves.
case_errors_of_the_library() {
    export SYMM_MATMUL_AS_IF=4
    run 1 product 3 all-gather-matmul --strategy fused
    errors 'rank 2: .*SYMM_MATMUL_AS_IF is 4: it needs 2 ranks, the group has 3'
    run 0 product 2 matmul # has no other ranks
    SYMM_MATMUL_AS_IF=2 run 1 product 2 all-gather-matmul --strategy fused
    errors 'rank 0: .*SYMM_MATMUL_AS_IF is 2, not 0 or 3 to 8'
    SYMM_MATMUL_AS_IF=9 run 1 product 2 all-gather-matmul --strategy fused
    errors 'rank 0: .*SYMM_MATMUL_AS_IF=9 is not within 0 to 8'
}

main "$2"
