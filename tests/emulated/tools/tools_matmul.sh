#!/usr/bin/env bash
# symm-bench matmul and all-gather-matmul on the emulated driver.
set -euo pipefail
. "$(dirname "$0")/bench.sh"

case_every_strategy_is_right() {
    local ranks
    for ranks in 1 2 3 4; do
        run 0 product $ranks all-gather-matmul --check
        for way in product auto fused pipelined unfused; do
            [ "$(grep -cE " bfloat16 +$way +[a-z-]+ +$ranks .* 0\$" "$work/out")" = 1 ] ||
                die "not one right row of $way on $ranks ranks"
        done
        [ "$(column 1) $(column 2) $(column 3) $(column 4)" = '256 128 128 1' ] || die "the shape"
        said '^# 256 x 128 x 128: every one of 32768 elements compared, eps 5\.39e-06$'
    done
    rows 6
    said '^# +m +n +k +l +dtype +algo +strategy ranks +time_us +p95_us +product_us +exposed_us +tflops speedup +hidden +wrong$'
    said '^# .*emulation'
    said '^# seed 0x'
    for way in fused pipelined unfused; do
        grep -qE " $way +$way " "$work/out" || die "$way is another strategy"
    done
}

case_shapes_and_modes() {
    # Shards of unequal size, ranks without rows, odd strides, several matrices.
    local shape mode
    for shape in '-m 131 -n 37 -k 65' '-m 2 -n 8 -k 1' '--m 64 --n 1 --k 200 --l 3' '-m 7 -n 9 -k 16 -l 2'; do
        for mode in '' --graph '--beta -0.5 --alpha 2 --dtype fp16' '--alpha 0 --beta 1 --graph' '--alpha 0'; do
            # shellcheck disable=SC2086
            run 0 product 3 all-gather-matmul $shape $mode --check
            rows 6
            [ "$(column 16)" = '- 0' ] || die "wrong elements: $shape $mode"
        done
    done
    run 0 product 2 all-gather-matmul --strategy fused,unfused --check --graph --seed 7 \
        --iters 3 --warmup 2
    rows 4
    said '^# 3 repetitions of 1 operation after 2 to warm up, one graph each'
    [ "$(column 6)" = 'all_gather fused product unfused' ] || die "other strategies: $(column 6)"
}

case_alone() {
    run 0 "$bin/symm-bench" matmul --driver emulated --check -m 33 -n 17 -k 20
    rows 1
    [ "$(column 6) $(column 7) $(column 16)" = 'product - 0' ] || die "the row"
    run 0 product 2 matmul --check --beta 1
    rows 1
    [ "$(column 16)" = 0 ] || die "wrong elements"
    run 0 product 2 matmul
    [ "$(column 16)" = - ] || die "unchecked rows count no wrong elements"
}

case_sample() {
    # A product too large to compare all of it: one element of every tile is compared.
    run 0 "$bin/symm-bench" matmul --driver emulated --check -m 4000 -n 3000 -k 2 --iters 1 --warmup 0
    said '^# 4000 x 3000 x 2: every one of 12000000 elements compared by a kernel, 3000000 on the host, eps 6\.74e-07: '
    said 'one row and one column of each 2$'
    [ "$(column 16)" = 0 ] || die "wrong elements"
    # The kernel counts both of two neighbours that are wrong.
    run 1 preloaded output 1 matmul --check -m 4000 -n 3000 -k 2 --iters 1 --warmup 0
    [ "$(column 16)" = 2 ] || die "not two wrong elements"
}

case_suite() {
    run 0 product 2 all-gather-matmul --suite llama --strategy auto --check
    rows 27
    [ "$(column 16)" = '- 0' ] || die "wrong elements"
    said '^# emulated: each extent is a 64th'
    [ "$(column 1); $(column 2); $(column 3)" = '128 256 64; 104 28 56; 128 256 64' ] ||
        die "other shapes"
}

case_random() {
    run 0 product 2 all-gather-matmul --suite random --seed 7 --count 6 --check --json out.json
    [ "$(grep -cv "^#" "$work/out")" = 36 ] || die "other rows" # columns may be too narrow for such times
    said '^# m < 1024, 3 shapes: auto / best strategy: geometric mean '
    said '^# m >= 1024, 3 shapes: auto / best strategy: geometric mean .* at '
    column 1 >first
    run 0 product 1 matmul --suite random --seed 7 --count 6
    [ "$(column 1)" = "$(cat first)" ] || die "another seed's shapes"
    command -v python3 >/dev/null || return 0
    run 0 python3 - <<'END'
import json, math
run = json.load(open("out.json"))
assert run["options"]["suite"] == "random" and run["options"]["count"] == 6
shapes = []
for row in run["rows"]:
    if row["algo"] == "product":
        shapes.append({})
    shapes[-1][row["algo"]] = row["time_us"]
few = shapes[::2]  # in turns
assert all(row["wrong"] == (None if row["algo"] == "all_gather" else 0) for row in run["rows"]), run["rows"]
ratios = {r["rows"]: r for r in run["summary"] if r["ratio"] == "auto / best strategy"}
assert ratios["m < 1024"]["shapes"] == 3 and ratios["m >= 1024"]["shapes"] == 3, run["summary"]
want = [t["auto"] / min(t[s] for s in ("fused", "pipelined", "unfused")) for t in few]
assert abs(ratios["m < 1024"]["worst"] - max(want)) < 1e-6 * max(want), (ratios, want)
assert abs(ratios["m < 1024"]["mean"] - math.prod(want) ** (1 / 3)) < 1e-6 * max(want), (ratios, want)
END
}

case_json_and_csv() {
    command -v python3 >/dev/null || skip "no Python"
    run 0 product 2 all-gather-matmul --check --seed 0x2a --json out.json --csv out.csv
    run 0 python3 - <<'END'
import csv, json
run = json.load(open("out.json"))
assert run["operation"] == "all-gather-matmul" and run["driver"] == "emulated"
assert run["seed"] == "0x2a" and run["ranks"] == 2 and run["timings"] == "emulated, no performance"
assert run["options"]["check"] is True and run["options"]["strategy"] == "all"
assert [u["algo"] for u in run["unavailable"]] == ["cublas", "cublas_symm", "cublas_nccl"], run["unavailable"]
rows = {row["algo"]: row for row in run["rows"]}
assert list(rows) == ["product", "all_gather", "auto", "fused", "pipelined", "unfused"], rows
time = {name: row["time_us"] for name, row in rows.items()}
for name, row in rows.items():
    assert (row["m"], row["n"], row["k"], row["l"]) == (256, 128, 128, 1), row
    assert row["speedup"] is None, "there is no cuBLAS"
    assert row["time_us"] > 0 and row["p95_us"] > 0, row
    if name == "all_gather":
        assert row["wrong"] is None and row["tflops"] is None, row
        continue
    assert row["wrong"] == 0, row
    assert abs(row["tflops"] / (2 * 256 * 128 * 128 / time[name] / 1e6) - 1) < 1e-6, row
    if name == "product":
        assert row["hidden"] is None and row["product_us"] is None and row["exposed_us"] is None, row
    else:
        hidden = (time["product"] + time["all_gather"] - time[name]) / time["all_gather"]
        assert abs(row["hidden"] - hidden) < 1e-6 * max(1, abs(hidden)), row
        assert row["product_us"] == time["product"], row
        assert abs(row["exposed_us"] - (time[name] - time["product"])) < 1e-6 * time[name], row
table = list(csv.DictReader(open("out.csv")))
assert [row["algo"] for row in table] == list(rows)
assert table[1]["wrong"] == "-" and table[2]["wrong"] == "0" and table[0]["hidden"] == "-", table
options = {"schedule": "none", "same_bits": False, "any_order": False, "constant_b": False, "eps": None, "peer": None}
assert options.items() <= run["options"].items(), run["options"]
END
    # Each option that changes what is measured or right.
    run 0 product 2 all-gather-matmul --strategy fused --schedule data_parallel --same-bits --check --eps 0.125 --peer none \
        --json out.json
    [ "$(json out.json options schedule) $(json out.json options same_bits)" = 'data_parallel ON' ] || die "its schedule"
    [ "$(json out.json options eps) $(json out.json options peer)" = '0.125 none' ] || die "its bound and peers"
    run 0 product 2 all-gather-matmul --strategy fused --any-order --constant-b --json out.json
    [ "$(json out.json options any_order) $(json out.json options constant_b)" = 'ON ON' ] || die "its flags"
}

case_plot() {
    command -v python3 >/dev/null || skip "no Python"
    run 0 product 2 all-gather-matmul --suite llama --strategy fused --json out.json --plot out.svg
    has_words out.svg '>fused<' '>product<' '64 x 28<' '256 x 104<' '>x 256<' 'all-gather-matmul, 2 ranks' \
        TFLOP/s 'emulated on CPUs'
    ! grep -q '>all_gather<' out.svg || die "a bar of what multiplies nothing"
    run 0 "$bin/symm-bench" plot out.json -o again.svg
    cmp out.svg again.svg || die "another picture"
    run 1 "$bin/symm-bench" plot out.json out.json -o again.svg
    errors 'out.json: products are drawn one run at a time'
}

case_roofline() {
    command -v python3 >/dev/null || skip "no Python"
    # 8192 x 1792 x 4096 over the link of two ranks, and in the memory of one.
    cat >out.json <<'END'
{"operation": "all-gather-matmul", "ranks": 2, "device": "NVIDIA H200", "options": {"dtype": "bf16", "graph": true, "beta": 0},
 "rows": [{"m": 8192, "n": 1792, "k": 4096, "l": 1, "algo": "product", "tflops": 800},
          {"m": 8192, "n": 1792, "k": 4096, "l": 1, "algo": "all_gather", "tflops": null},
          {"m": 8192, "n": 1792, "k": 4096, "l": 1, "algo": "cublas", "tflops": 750},
          {"m": 4096, "n": 256, "k": 4096, "l": 2, "algo": "cublas", "tflops": 700},
          {"m": 4096, "n": 256, "k": 4096, "l": 2, "algo": "fused", "tflops": 200}]}
END
    sed 's/"ranks": 2/"ranks": 1/; s/"beta": 0/"beta": 0.5/; /cublas/d' out.json >one.json
    roofline() {
        run 0 "$bin/symm-bench" plot -o out.svg --roofline "$@"
    }
    # drawn TEXT...: checks that the picture has these texts, and no other points.
    drawn() {
        local points=0 text
        has_words out.svg "$@"
        for text in "$@"; do
            case $text in *TFLOP/s\<*) points=$((points + 1)) ;; esac
        done
        [ "$(grep -c '<circle' out.svg)" = "$points" ] || die "other points"
    }
    local points=('>product: 3584 operations a byte, 800 TFLOP/s<' '>cublas: 3584 operations a byte, 750 TFLOP/s<'
        '>cublas: 512 operations a byte, 700 TFLOP/s<' '>fused: 512 operations a byte, 200 TFLOP/s<') file text
    roofline measured out.json
    drawn "${points[@]}" '>ridge at 1898.73418 operations' '>roof: 395 GB/s, 750 TFLOP/s of cublas' \
        'bf16, graphs' '>fused' 'over the link'
    roofline 900 out.json --floor 450
    drawn "${points[@]}" '>ridge at 2000 operations' '>roof: 450 GB/s, 900 TFLOP/s' 'over the link'
    ! grep -q '900 TFLOP/s of' out.svg || die "this roof was not measured"
    roofline measured one.json
    drawn '>product: 855.881 operations a byte, 800 TFLOP/s<' '>fused: 215.579 operations a byte, 200 TFLOP/s<' \
        '>roof: 4800 GB/s, 800 TFLOP/s of product' 'of A, B, C and D in memory'
    sed 's/NVIDIA H200/another/; s/"ranks"/"driver": "emulated", "ranks"/' out.json >other.json
    roofline measured other.json --floor 450
    drawn "${points[@]}" '>roof: 450 GB/s, 750 TFLOP/s of cublas' 'emulated on CPUs'
    sed 's/"product"/"auto"/; s/"cublas"/"unfused"/' out.json >none.json
    printf '{"operation": "all-gather", "ranks": 2, "rows": [{"algo": "auto"}]}' >gather.json
    while IFS='|' read -r file text; do
        run 1 "$bin/symm-bench" plot "$file" -o none.svg --roofline measured
        errors "^# symm-bench: plot: $file: $text\$"
    done <<'END'
other.json|the speed of this device is not known: give --floor GB/s
none.json|there is no product alone whose speed could be the roof
gather.json|there is a roofline of products only
END
}

# timeline RANKS M N: checks out.json, of a product of M x N.
timeline() {
    run 0 python3 - "$@" <<'END'
import collections, json, sys
ranks, m, n = map(int, sys.argv[1:])
run = json.load(open("out.json"))
assert run["otherData"]["driver"] == "emulated" and run["otherData"]["dropped"] == 0, run["otherData"]
assert run["otherData"]["ranks"] == ranks and run["displayTimeUnit"] == "ns"
names, lanes, kinds = {}, collections.defaultdict(list), collections.Counter()
seen = [[0] * (m * n) for _ in range(ranks)]
for event in run["traceEvents"]:
    assert 0 <= event["pid"] < ranks, event
    if event["ph"] == "M":
        names[event["name"], event["pid"], event["tid"]] = event["args"]["name"]
        continue
    assert event["ts"] >= 0, event
    kinds[event["pid"], event["cat"]] += 1
    if event["ph"] == "i":
        assert event["args"]["rank"] != event["pid"], event
        continue
    assert event["ph"] == "X" and event["dur"] >= 0, event
    lanes[event["pid"], event["tid"]].append((event["ts"], -event["ts"] - event["dur"]))
    args = event["args"]
    if event["cat"] in ("send", "wait for rows", "wait for workspace"):
        assert 0 <= args["rank"] < ranks and args["rank"] != event["pid"], event
    if event["cat"] == "tile":
        for i in range(args["row"], args["row"] + args["rows"]):
            for j in range(args["column"], args["column"] + args["columns"]):
                seen[event["pid"]][i * n + j] += 1
assert all(set(rank) == {1} for rank in seen), "an element that is not in one tile"
for rank in range(ranks):
    assert names["process_name", rank, 0] == f"rank {rank}", names
for lane, events in lanes.items():
    assert names["thread_name", lane[0], lane[1]], lane
    ends = []
    for begin, end in sorted(events):  # those of a lane follow each other, or are nested
        while ends and ends[-1] <= begin + 1e-3:
            ends.pop()
        assert not ends or -end <= ends[-1] + 1e-3, (lane, begin, -end, ends)
        ends.append(-end)
print("# kinds:", " ".join(f"{kind} {kinds[0, kind]}," for kind in sorted({kind for _, kind in kinds})))
END
}

case_timeline() {
    command -v python3 >/dev/null || skip "no Python"
    local wgmma
    for wgmma in 0 1; do
        export SYMM_MATMUL_WGMMA=$wgmma SYMM_MATMUL_ENGINE_BYTES=4G
        run 0 product 3 all-gather-matmul --strategy fused,unfused --trace out.json --check -m 300 -n 40 -k 64
        rows 4
        said '^# out\.json: fused, 300 x 40 x 64, 3 ranks, rank 2: [0-9]+ events$'
        timeline 3 300 40
        said '^# kinds:.* arrived 2,.* open round 1, send 2, tile [1-9].* wait for rows [1-9]'
        run 0 product 2 all-gather-matmul --strategy pipelined --trace out.json -m 300 -n 40 -k 64
        timeline 2 300 40
        said '^# kinds: arrived 1, open round 1, send 1, tile [1-9][0-9]*, wait for rows 1, '
        export SYMM_MATMUL_ENGINE_BYTES=1
        run 0 product 2 all-gather-matmul --strategy fused --trace out.json -m 300 -n 40 -k 64
        timeline 2 300 40
        said '^# kinds: arrived [1-9]'
        ! grep -q ' send ' "$work/out" || die "copy engines record nothing"
        run 0 product 2 matmul --trace out.json -m 300 -n 40 -k 64
        timeline 2 300 40
        said '^# kinds: tile [1-9][0-9]*,$'
    done
    unset SYMM_MATMUL_WGMMA SYMM_MATMUL_ENGINE_BYTES
    run 0 product 1 all-gather-matmul --trace out.json
    timeline 1 256 128
    run 0 product 2 all-gather-matmul --trace out.json
    said '^# out\.json: auto, 256 x 128 x 128, 2 ranks, rank 1: '
    run 0 "$bin/symm-bench" plot out.json -o out.svg
    has_words out.svg '>rank 0<' '>rank 1<' '>tile of rank 0: ' 'timeline: auto, 256 x 128 x 128, 2 ranks' 'emulated on CPUs'
    run 1 "$bin/symm-bench" plot out.json out.json -o out.svg
    errors 'out.json: timelines are drawn one at a time'
    run 1 "$bin/symm-bench" report out.json -o out.html
    errors 'out.json: no JSON of symm-bench: no operation and rows'
    run 1 product 2 all-gather-matmul --trace "$work/none/out.json"
    errors "^# rank 0: SYMM_ERROR_SYSTEM: $work/none/out.json: No such file or directory\$"
    errors '^# rank 1: SYMM_ERROR_'
}

case_wrong_results_are_found() {
    local mode
    for mode in '' --graph; do
        # shellcheck disable=SC2086
        run 1 preloaded output 3 all-gather-matmul --iters 1 --warmup 0 --check --json out.json $mode
        for way in product auto fused pipelined unfused; do
            grep -qE " $way .* 2\$" "$work/out" || die "not two wrong elements of $way"
            errors "^# rank 2: $way, 256 x 128 x 128: element \[0, 0, 20\] is -1\.68.*e\+38 and should be "
        done
        [ "$(grep -cE '^# rank [01]' "$work/err")" = 0 ] || die "a message about a rank with right results"
        [ "$(json out.json rows 3 wrong)" = 2 ]
    done
    run 1 preloaded output 2 matmul --iters 1 --warmup 0 --check
    errors '^# rank 1: product, '
    # --eps accepts the result, but its bits differ from those of other strategies, or of another run.
    run 1 preloaded last 2 all-gather-matmul --check --same-bits -m 32 -n 8 -k 200 --eps 1 --seed 7
    errors '^# rank 1: pipelined, 32 x 8 x 200: elements that differ in bits from product: 1$'
    [ "$(grep -vE '^#' "$work/out" | grep -cE ' 1$')" = 1 ] || die "more than one wrong row"
    run 0 preloaded last 2 all-gather-matmul --check -m 32 -n 8 -k 200 --eps 1 --seed 7
    run 1 preloaded turns 2 all-gather-matmul --check -m 32 -n 8 -k 200 --eps 1 --seed 7
    errors '^# rank 1: pipelined, 32 x 8 x 200: elements that differ in bits from pipelined: 1$'
    # Right results give no errors.
    run 0 preloaded nothing 2 matmul --iters 1 --check
}

case_failing_rank() {
    run 1 env SYMM_EMULATED_FAULT='cuLaunchKernelEx@1#3=700' \
        "$bin/symm-run" --emulated -n 3 --keep-going "$bin/symm-bench" all-gather-matmul --check
    errors '^# rank 1: SYMM_ERROR_DRIVER: '
    errors '^# rank 0: SYMM_ERROR_PEER: .*rank 1'
}

case_peers() {
    run 0 product 2 all-gather-matmul --peer none --strategy fused
    ! grep -q cublas "$work/out" || die "a peer despite --peer none"
    rows 3
    for peer in cublas cublas,nccl; do
        run 1 product 2 all-gather-matmul --peer $peer
        said '^# cublas: not available: it needs GPUs'
        errors '^# rank 0: .*--peer cublas cannot run here: it needs GPUs, and this is the emulated driver$'
    done
    run 1 product 2 matmul --peer cublas
    errors '--peer cublas cannot run here: '
    run 2 product 2 all-gather-matmul --peer nccl
    errors '--peer nccl: .*--peer cublas,nccl'
    run 0 product 2 all-gather-matmul --peer all --strategy auto
    said '^# cublas: not available: it needs GPUs'
    run 0 product 2 all-gather-matmul
    said '^# cublas_nccl: not available: it needs GPUs'
}

case_strategy_of_one_rank() {
    run 1 product 1 all-gather-matmul --strategy fused,auto
    errors '^# rank 0: .*--strategy fused cannot run here: one rank alone takes no strategy$'
    run 0 product 1 all-gather-matmul --strategy auto
    rows 2
}

case_names_a_product_that_does_not_fit() {
    local most=16777216
    run 1 product 1 matmul -m $most -n $most -k $most
    errors "SYMM_ERROR_MEMORY: m $most, n $most, k $most, l 1: no host memory for 2.25e\\+15 bytes$"
    run 1 product 2 all-gather-matmul -m $most -n 1 -k 1 -l $most --beta 1
    errors "m $most, n 1, k 1, l $most: no host memory for 2.25e\\+15 bytes$"
    # The bytes of this product wrap to 0 in 64 bits.
    run 1 product 1 matmul -m $most -n $most -k $most -l $most
    errors "l $most: no host memory for 3.78e\\+22 bytes$"
}

case_usage() {
    while read -r arguments; do
        # shellcheck disable=SC2086
        run 2 "$bin/symm-bench" $arguments
        only_comments "$work/err"
        # The message names the option after the command, with its value; a letter by its long name.
        errors "^# symm-bench: -?${arguments#* }[: ]"
        [ ! -s "$work/out" ] || die "the standard output is not empty"
    done <<'END'
all-gather-matmul -m 0
all-gather-matmul --m -5
all-gather-matmul -n x
all-gather-matmul -k 1K
all-gather-matmul --k 99999999999
matmul --l 0
matmul -l 1.5
matmul -m
all-gather-matmul --strategy fast
all-gather-matmul --dtype fp32
all-gather-matmul --dtype int8
all-gather-matmul --iterations 0
all-gather-matmul --warmup-iterations -1
all-gather-matmul --alpha x
all-gather-matmul --beta nan
all-gather-matmul --eps 0
all-gather-matmul --eps 0.5
matmul --alpha 1e-60
all-gather-matmul --beta -1e-60
all-gather-matmul --suite gpt
all-gather-matmul --peer mpi
all-gather-matmul --sizes
all-gather-matmul --json
matmul --peer nccl
all-reduce --peer cublas
plot --roofline 0
plot --roofline fast
END
    run 2 "$bin/symm-bench" matmul --strategy fused
    errors '--strategy: matmul has no such option'
    run 2 "$bin/symm-bench" all-reduce --iterations 4
    errors '--iterations: all-reduce has no such option'
    run 2 "$bin/symm-bench" matmul -m 4 --suite llama
    errors '--suite llama sets m, n and k: leave out -m'
    run 2 "$bin/symm-bench" matmul --suite llama --trace out.json
    errors '--trace out.json: there is a timeline of one shape, not of --suite '
    run 2 "$bin/symm-bench" matmul --suite llama --count 3
    errors '--count 3: only --suite random has a number of shapes'
    run 2 "$bin/symm-bench" all-gather-matmul --strategy fused,slow
    errors '--strategy slow: '
    run 2 "$bin/symm-bench" all-reduce -m 4
    errors '--m: all-reduce has no such option'
    for command in matmul all-gather-matmul; do
        run 0 "$bin/symm-bench" $command --help
        only_comments "$work/out"
        said '-m, --m M '
    done
}

main "$2"
