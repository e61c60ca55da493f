#!/usr/bin/env bash
# symm-bench matmul-reduce-scatter, matmul-all-reduce and matmul-all-scatter on the emulated driver.
set -euo pipefail
. "$(dirname "$0")/bench.sh"

sums='matmul-reduce-scatter matmul-all-reduce'
commands="$sums matmul-all-scatter"

# communication COMMAND: the name of its communication alone.
communication() {
    case $1 in
    matmul-all-scatter) echo all_gather ;;
    *) echo "${1#matmul-}" | tr - _ ;;
    esac
}

# ways COMMAND: the names of its strategies.
ways() {
    case $1 in
    matmul-all-scatter) echo auto fused unfused ;;
    *) echo auto fused unfused pipelined ;;
    esac
}

# all_ways COMMAND N: there are N rows and one for each strategy.
all_ways() {
    rows $(($2 + $(ways "$1" | wc -w)))
}

case_every_kind_is_right() {
    local command ranks
    for command in $commands; do
        for ranks in 1 2 3 4; do
            run 0 product $ranks "$command" --check
            for way in product $(ways "$command"); do
                [ "$(grep -cE " bfloat16 +$way +[a-z-]+ +$ranks .* 0\$" "$work/out")" = 1 ] ||
                    die "$command: not one right row of $way on $ranks ranks"
            done
            [ "$(column 1) $(column 2) $(column 3) $(column 4)" = '256 128 128 1' ] || die "the shape"
        done
        all_ways "$command" 2
        grep -qE " $(communication "$command") .* -\$" "$work/out" || die "$command: no communication alone"
        said '^# +m +n +k +l +dtype +algo +strategy ranks +time_us +p95_us +product_us +exposed_us +tflops speedup +hidden +wrong$'
        run 0 product 1 "$command"
        all_ways "$command" 1
        said "^# $(communication "$command"): not available: there is one rank only\$"
    done
}

case_compares_all_of_a_ranks_result() {
    run 0 product 4 matmul-reduce-scatter --check
    said '^# 256 x 128 x 128: every one of 8192 elements compared, eps 1\.08e-05$' # of 4 x 128 products
    run 0 product 4 matmul-all-reduce --check
    said '^# 256 x 128 x 128: every one of 32768 elements compared, eps 1\.08e-05$'
    run 0 product 4 matmul-all-scatter --check
    said '^# 256 x 128 x 128: every one of 32768 elements compared, eps 5\.39e-06$'
}

# Parts of unequal size, ranks without rows, odd strides, several matrices.
shapes_and_modes() {
    local shape mode
    for shape in '-m 131 -n 37 -k 65' '-m 2 -n 8 -k 1' '-m 7 -n 4 -k 16 -l 3'; do
        for mode in '' '--beta -0.5 --alpha 2 --dtype fp16 --graph' '--alpha 0 --beta 1'; do
            # shellcheck disable=SC2086
            run 0 product 3 "$1" $shape $mode --check
            all_ways "$1" 2
            [ "$(column 16)" = '- 0' ] || die "wrong elements: $shape $mode"
        done
    done
    run 0 product 2 "$1" --check --same-bits --strategy unfused -m 33 -n 20 -k 40
    rows 3
    [ "$(column 16)" = '- 0' ] || die "other bits"
}

case_shapes_of_reduce_scatters() {
    shapes_and_modes matmul-reduce-scatter
}

case_shapes_of_all_reduces() {
    shapes_and_modes matmul-all-reduce
}

case_shapes_of_all_scatters() {
    shapes_and_modes matmul-all-scatter
}

case_partial() {
    local command type
    for command in $sums; do
        for type in bfloat16 float16 float32; do
            for dtype in bf16 fp16; do
                run 0 product 3 "$command" --check --partial $type --dtype $dtype -m 50 -n 30 -k 64 --beta 1
                all_ways "$command" 2
                said "^# partial sums of $type\$"
                [ "$(column 16)" = '- 0' ] || die "wrong elements: $command $type $dtype"
            done
        done
        run 0 product 2 "$command" --dtype fp16 -m 8 -n 8 -k 8
        said '^# partial sums of float16$'
    done
    run 0 product 2 matmul-all-reduce --partial fp32 -m 8 -n 8 -k 8
    said '^# partial sums of float32$'
    run 0 product 2 matmul-all-scatter -m 8 -n 8 -k 8
    ! grep -q partial "$work/out" || die "partial sums without a sum"
}

case_sample() {
    # The host compares a part of a large sum; the rank's own product is compared by a kernel.
    run 0 product 1 matmul-reduce-scatter --strategy auto --check -m 4000 -n 3000 -k 2
    said '^# 4000 x 3000 x 2: of 12000000 elements compared 3000000 on the host, eps 6\.74e-07: '
    [ "$(column 16)" = 0 ] || die "wrong elements"
}

case_suites() {
    run 0 product 2 matmul-reduce-scatter --suite llama --strategy auto --check
    rows 27
    [ "$(column 16)" = '- 0' ] || die "wrong elements"
    # The layers of all-gather-matmul, backwards.
    [ "$(column 1); $(column 2); $(column 3)" = '128 256 64; 128 256 64; 104 28 56' ] || die "other shapes"
    run 0 product 2 matmul-all-scatter --suite llama --strategy auto --check
    [ "$(column 1); $(column 2); $(column 3)" = '128 256 64; 112 208 56; 128 256 64' ] || die "other shapes"
    run 0 product 2 matmul-all-reduce --suite random --seed 7 --count 4 --check
    [ "$(grep -cv '^#' "$work/out")" = 24 ] || die "other rows"
    [ "$(column 16)" = '- 0' ] || die "wrong elements"
    said '^# m < 1024, 2 shapes: auto / best strategy: geometric mean '
    said '^# m >= 1024, 2 shapes: auto / best strategy: geometric mean .* at '
}

case_json_and_csv() {
    command -v python3 >/dev/null || skip "no Python"
    for command in $commands; do
        run 0 product 2 "$command" --check --seed 0x2a --json out.json --csv out.csv
        run 0 python3 - "$command" "$(communication "$command")" $(ways "$command") <<'END'
import csv, json, sys
command, communication, *ways = sys.argv[1:]
run = json.load(open("out.json"))
assert run["operation"] == command and run["seed"] == "0x2a" and run["ranks"] == 2
assert run["options"]["partial"] == (None if command == "matmul-all-scatter" else "bfloat16"), run["options"]
assert [u["algo"] for u in run["unavailable"]] == ["cublas", "cublas_symm", "cublas_nccl"], run["unavailable"]
rows = {row["algo"]: row for row in run["rows"]}
assert list(rows) == ["product", communication, *ways], rows
time = {name: row["time_us"] for name, row in rows.items()}
for name, row in rows.items():
    assert (row["m"], row["n"], row["k"], row["l"]) == (256, 128, 128, 1), row
    assert row["speedup"] is None and row["time_us"] > 0 and row["p95_us"] > 0, row
    if name == communication:
        assert row["wrong"] is None and row["tflops"] is None, row
        continue
    assert row["wrong"] == 0, row
    columns = 64 if command == "matmul-all-scatter" else 128
    assert abs(row["tflops"] / (2 * 256 * columns * 128 / time[name] / 1e6) - 1) < 1e-6, row
    assert row["strategy"] == {"product": "-", "auto": row["strategy"]}.get(name, name), row
    assert name == "product" or row["strategy"] in ways[1:], row
    if name == "product":
        assert row["hidden"] is None and row["product_us"] is None and row["exposed_us"] is None, row
    else:
        hidden = (time["product"] + time[communication] - time[name]) / time[communication]
        assert abs(row["hidden"] - hidden) < 1e-6 * max(1, abs(hidden)), row
        assert row["product_us"] == time["product"], row
        assert abs(row["exposed_us"] - (time[name] - time["product"])) < 1e-6 * time[name], row
assert [row["algo"] for row in csv.DictReader(open("out.csv"))] == list(rows)
END
    done
}

case_plot() {
    command -v python3 >/dev/null || skip "no Python"
    run 0 product 2 matmul-all-reduce -m 8 -n 8 -k 8 --strategy auto --plot out.svg
    has_words out.svg '>auto<' '>product<' 'matmul-all-reduce, 2 ranks' TFLOP/s
    # Of 8 x 16 x 32 on two ranks come half of the sums, 64 x 2 bytes or 64 x 4.
    local operation partial intensity
    while read -r operation partial intensity; do
        cat >out.json <<END
{"operation": "$operation", "ranks": 2, "options": {"dtype": "bf16", "partial": "$partial"},
 "rows": [{"m": 8, "n": 16, "k": 32, "l": 1, "algo": "cublas", "tflops": 750}]}
END
        run 0 "$bin/symm-bench" plot -o out.svg out.json --roofline measured --floor 450
        has_words out.svg ">cublas: $intensity operations a byte, 750 TFLOP/s<" 'over the link'
    done <<'END'
matmul-reduce-scatter bfloat16 64
matmul-reduce-scatter float32 32
matmul-all-reduce bfloat16 32
matmul-all-scatter - 32
END
}

case_wrong_results_are_found() {
    local command mode
    for command in $commands; do
        for mode in '' --graph; do
            # shellcheck disable=SC2086
            run 1 preloaded output 3 $command --iters 1 --warmup 0 --check --json out.json $mode
            for way in product $(ways "$command"); do
                grep -qE " $way .* 2\$" "$work/out" || die "$command: not two wrong elements of $way"
                errors "^# rank 2: $way, 256 x 128 x 128: element \[0, 0, 20\] is -1\.68.*e\+38 and should be "
            done
            [ "$(grep -cE '^# rank [01]' "$work/err")" = 0 ] || die "a message about a rank with right results"
        done
        # --eps accepts the result, but it has other bits when it runs again.
        run 1 preloaded turns 2 "$command" --check -m 32 -n 8 -k 200 --eps 1 --seed 7
        errors '^# rank 1: unfused, 32 x 8 x 200: elements that differ in bits from unfused: 1$'
        run 1 preloaded last 2 "$command" --check --same-bits -m 32 -n 8 -k 200 --eps 1 --seed 7
        errors '^# rank 1: unfused, 32 x 8 x 200: elements that differ in bits from auto: 1$'
        run 0 preloaded nothing 2 "$command" --iters 1 --check -m 32 -n 8 -k 20
    done
    # A kernel counts both wrong neighbours of the rank's own product.
    run 1 preloaded output 1 matmul-reduce-scatter --strategy auto --check -m 4000 -n 3000 -k 2 --seed 7
    grep -qE ' product .* 2$' "$work/out" || die "not two wrong elements"
}

case_peers() {
    local command
    for command in $commands; do
        run 0 product 2 "$command" --peer none -m 8 -n 8 -k 8
        ! grep -q cublas "$work/out" || die "a peer despite --peer none"
        run 1 product 2 "$command" --peer cublas,nccl -m 8 -n 8 -k 8
        errors '^# rank 0: .*--peer cublas cannot run here: it needs GPUs, and this is the emulated driver$'
        run 2 product 2 "$command" --peer nccl
        errors '--peer nccl: .*--peer cublas,nccl'
    done
}

case_usage() {
    local command
    for command in $commands; do
        run 2 "$bin/symm-bench" "$command" -m 4 --suite llama
        errors '--suite llama sets m, n and k: leave out -m'
        run 2 "$bin/symm-bench" "$command" --dtype fp32
        errors '--dtype fp32: not one of '
        run 0 "$bin/symm-bench" "$command" --help
        only_comments "$work/out"
        said "$(communication "$command")"
        run 0 "$bin/symm-bench" --help
        said "$command"
    done
    run 2 "$bin/symm-bench" matmul-all-scatter --strategy pipelined
    errors '--strategy pipelined: not one of auto, fused, unfused \('
    for command in $sums; do
        run 0 "$bin/symm-bench" "$command" --help
        said '--partial TYPE '
        run 2 "$bin/symm-bench" "$command" --partial int8
        errors '--partial int8: not one of '
        run 2 "$bin/symm-bench" "$command" --partial
        errors '--partial'
    done
    for command in matmul all-gather-matmul matmul-all-scatter; do
        run 2 "$bin/symm-bench" $command --partial bf16
        errors "--partial: $command has no such option"
    done
    run 1 product 3 matmul-all-scatter -n 2
    errors '--n 2: it is less than the number of ranks, 3$'
}

main "$2"
