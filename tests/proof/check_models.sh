#!/usr/bin/env bash
# The models in model/, gone through state by state by spin: the right ones have no error, and in each broken variant
# the checker finds one. Prints a line a model and variant; fails when one is not as it should be.
# exit code 77: there is no spin.
set -uo pipefail
models=$(realpath "$(dirname "$0")/model")
compiler=$(command -v cc || command -v gcc)
if ! command -v spin >/dev/null || [ -z "$compiler" ]; then
    echo "# skipped: no spin, or no C compiler for what it writes"
    exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What is expected of it | model | macros
list() {
    cat <<'LIST'
right  | barrier     | NR=3 ROUNDS=1
right  | barrier     | NR=3 NT=1 ROUNDS=5
right  | barrier     | NR=3 NT=1 AGREE ROUNDS=1
right  | barrier     | AGREE ROUNDS=2
right  | barrier     | ABORT ROUNDS=3
right  | barrier     | ROUNDS=5
broken | barrier     | NO_RELEASE
broken | barrier     | NO_SYNC_BEFORE_SIGNAL
broken | barrier     | NO_ACQUIRE
broken | barrier     | NO_SYNC_AFTER_WAIT
broken | barrier     | NO_SECOND_BARRIER
broken | barrier     | NO_CYCLIC_COMPARE
broken | barrier     | AGREE AGREE_SAME_CHANNEL
broken | barrier     | ABORT SIGNAL_AFTER_ABORT
broken | barrier     | ABORT NO_LOOK_AFTER_WAIT
right  | low_latency | NR=3
right  | low_latency | CALLS=9
right  | low_latency | NO_CLEAR FIXED_SIZE
right  | low_latency | FIRST=1
right  | low_latency | EARLY=1 PHASES=4 LAST=99
broken | low_latency | PHASES=1
broken | low_latency | ONE_FLAG
broken | low_latency | NO_CLEAR
broken | low_latency | NO_BARRIER_AFTER_CLEAR
broken | low_latency | NO_CLEAR FIXED_SIZE FIRST=1
broken | low_latency | EARLY=1 LAST=99
broken | low_latency | EARLY=1 PHASES=3 LAST=99
right  | lamport     | CALLS=5
right  | lamport     | NR=3 PACKS=1 CALLS=3
broken | lamport     | SETS=1
broken | lamport     | CHANNELS=1
broken | lamport     | NO_RELEASE
broken | lamport     | NO_AWAIT
broken | lamport     | NO_SYNC
LIST
}

# check NUMBER EXPECTED MODEL MACRO...: prints its line; the return code says whether it is as expected.
check() {
    local number=$1 expected=$2 model=$3
    shift 3
    mkdir "$work/$number"
    cd "$work/$number" || return 1
    if ! { spin -a "${@/#/-D}" "$models/$model.pml" &&
        "$compiler" -O1 -w -DSAFETY -DCOLLAPSE -DMEMLIM=2000 -o pan pan.c && ./pan -m100000; } >log 2>&1 ||
        ! grep -q '^State-vector.* errors: [0-9]' log; then
        echo "$model $*: cannot be checked"
        tail -n 20 log
        return 1
    fi
    local states errors verdict found
    states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' log)
    errors=$(sed -n 's/.* errors: \([0-9]*\)$/\1/p' log)
    found=$(sed -n 's/^pan:1: \(assertion violated\|invalid end state\|[^(]*\).*/\1/p' log)
    # A search that has met a limit has not seen everything.
    if grep -qE 'max search depth too small|reached -DMEMLIM|out of memory' log; then
        verdict='not searched to its end'
    elif [ "$errors" = 0 ]; then
        verdict=right
    else
        verdict=broken
    fi
    printf '%-12s %-35s %9s states  %s%s\n' "$model" "$*" "$states" "$verdict" "${found:+: $found}"
    [ "$verdict" = "$expected" ] && return 0
    echo "$model $*: is $verdict, should be $expected"
    return 1
}

# Two at a time.
mapfile -t lines < <(list)
check_every_second() {
    local i failed=0 expected model macros
    for ((i = $1; i < ${#lines[@]}; i += 2)); do
        IFS='|' read -r expected model macros <<<"${lines[i]}"
        # shellcheck disable=SC2086 # the macros are words
        (check "$i" ${expected} ${model} ${macros}) >"$work/$i.line" 2>&1 || failed=1
    done
    return $failed
}
failed=0
check_every_second 0 &
check_every_second 1 || failed=1
wait $! || failed=1
for ((i = 0; i < ${#lines[@]}; i++)); do
    cat "$work/$i.line"
done
right=$(list | grep -c '^right')
[ $failed = 0 ] && echo "# $right right, $((${#lines[@]} - right)) broken variants found, $SECONDS s"
exit $failed
