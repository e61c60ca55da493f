#!/usr/bin/env bash
# symm-run: the environment of ranks, the exit code of the job, and leaks.
# The shells of the ranks expand their texts, and options are lists of words, so they are not quoted.
# shellcheck disable=SC2016,SC2086
set -euo pipefail
. "$(dirname "$0")/../../support/shell.sh"

# ranks N TEXT OPTION...: runs the text in a shell on each rank.
ranks() {
    local n=$1 text=$2
    shift 2
    "$bin/symm-run" -n "$n" "$@" sh -c "$text"
}

case_environment() {
    run 0 ranks 3 '
        echo $SYMM_RANK $SYMM_NRANKS $LOCAL_RANK ${#SYMM_SESSION} ${#SYMM_TOKEN} $SYMM_SESSION'
    for rank in 0 1 2; do
        said "^$rank 3 $rank 32 32 "
    done
    [ "$(awk '{print $6}' "$work/out" | sort -u | wc -l)" = 1 ] || die "the ranks' sessions differ"
    cp "$work/out" "$work/first"
    run 0 ranks 1 'echo 0 1 0 32 32 $SYMM_SESSION'
    ! grep -qf <(awk '{print $6}' "$work/out") "$work/first" || die "two jobs have one session"
}

case_hosts() {
    # dealt RANKS HOSTS SIZE...: the ranks are dealt out in blocks of these sizes.
    dealt() {
        local n=$1 hosts=$2 rank=0 host=0 size
        shift 2
        run 0 ranks "$n" 'echo $SYMM_RANK: $SYMM_HOSTID, $NCCL_HOSTID, $LOCAL_RANK $SYMM_ADDRESS' --hosts "$hosts"
        for size; do
            while [ "$size" -gt 0 ]; do
                said "^$rank: host $host, host $host, $rank 127\.0\.0\.1:[0-9]+$"
                size=$((size - 1)) rank=$((rank + 1))
            done
            host=$((host + 1))
        done
        [ "$(awk '{print $NF}' "$work/out" | sort -u | wc -l)" = 1 ] || die "the ranks' addresses differ"
    }
    dealt 4 2 2 2
    dealt 7 3 3 2 2
    dealt 3 3 1 1 1
    dealt 2 1 2
    run 0 env -u SYMM_HOSTID -u NCCL_HOSTID "$bin/symm-run" -n 1 \
        sh -c 'echo ${SYMM_HOSTID-none} ${NCCL_HOSTID-none} ${SYMM_ADDRESS-none}'
    said '^none none none$'
    # A program for one host does not notice; those for several are in tools_info.sh and tools_bench.sh.
    run 0 "$bin/symm-run" --emulated -n 4 --hosts 2 "$bin/symm-bench" p2p --how put --sizes 4K --iters 1
    run 2 ranks 2 : --hosts 3
    errors '^# symm-run: --hosts 3: there are 2 ranks only '
}

case_driver() {
    run 0 "$bin/symm-run" --nccl sh -c 'echo "$LD_PRELOAD. $SYMM_RANK."'
    said '^/.*/libsymm_nccl\.so\. \.$'
    run 0 env SYMM_NCCL_LIBRARY=none "$bin/symm-run" --nccl sh -c 'echo "$LD_PRELOAD."'
    said '^/.*/nccl/libnccl\.so\.2\.$'
    run 0 env LD_PRELOAD=/dev/null "$bin/symm-run" --nccl -n 1 sh -c 'echo "$LD_PRELOAD. $SYMM_RANK."'
    said '^/.*/libsymm_nccl\.so:/dev/null\. 0\.$'
    run 127 "$bin/symm-run" --nccl no-such-program
    run 0 "$bin/symm-run" --nccl --emulated sh -c 'echo "driver:$SYMM_DRIVER."'
    said '^driver:emulated\.$'
    run 0 ranks 1 'echo driver:$SYMM_DRIVER.' --emulated
    said '^driver:emulated\.$'
}

case_exit_code() {
    within 2 run 5 ranks 3 'test $SYMM_RANK = 2 && exit 5; sleep 100'
    errors '^# symm-run: rank 2 exited with 5$'
    [ "$(wc -l <"$work/err")" = 1 ] || die "more than one message"
}

case_signal() {
    within 2 run 139 ranks 3 'test $SYMM_RANK = 1 && kill -SEGV $$; sleep 100'
    errors '^# symm-run: rank 1 was killed by SIGSEGV$'
    within 2 run 163 ranks 1 'kill -35 $$'
    errors '^# symm-run: rank 0 was killed by signal 35$'
}

case_stubborn() {
    within 6 run 1 ranks 3 '
        trap "" TERM
        test $SYMM_RANK = 0 && { sleep 0.5; exit 1; }
        while :; do sleep 1; done'
    errors 'not ended in time and killed: rank 1 2$'
}

case_keep_going() {
    run 3 ranks 3 '
        sleep 0.$SYMM_RANK
        case $SYMM_RANK in 1) exit 3 ;; 2) echo last; exit 4 ;; esac' --keep-going
    said '^last$'
    errors '^# symm-run: rank 1 exited with 3$'
    errors '^# symm-run: rank 2 exited with 4$'
}

case_tag_output() {
    # Lines of ranks never mix, also long ones; a line without an end gets one.
    run 3 ranks 3 '
        echo "one $SYMM_RANK"; echo "error $SYMM_RANK" >&2
        printf "%05000d\n" $SYMM_RANK; printf "no end"; exit 3' --tag-output --keep-going
    for rank in 0 1 2; do
        said "^\[$rank\] one $rank$"
        errors "^\[$rank\] error $rank$"
        said "^\[$rank\] no end$"
        [ "$(grep -c "^\[$rank\] 0\{900,\}$rank\?$" "$work/out")" = 2 ] || die "no line of 5000 in two parts"
    done
    [ "$(wc -l <"$work/out")" = 12 ] || die "other lines on the standard output"
    # The last lines of a rank that fails are not lost.
    run 1 ranks 2 'test $SYMM_RANK = 1 || exec sleep 100; seq 20000; exit 1' --tag-output
    [ "$(grep -c '^\[1\] [0-9]*$' "$work/out")" = 20000 ] || die "lines of rank 1 are missing"
    # A reader that has seen enough ends the ranks, as without tags.
    "$bin/symm-run" -n 2 --tag-output yes 2>"$work/err" | head -n 3 >"$work/out" || true
    [ "$(grep -c '^\[[01]\] y$' "$work/out")" = 3 ] || die "not three lines"
}

case_output_dir() {
    run 0 ranks 3 'echo "out $SYMM_RANK"; echo "err $SYMM_RANK" >&2' --output-dir logs
    [ ! -s "$work/out" ] && [ ! -s "$work/err" ] || die "something on the standard output"
    for rank in 0 1 2; do
        [ "$(cat "logs/rank-$rank.log")" = "out $rank
err $rank" ] || die "rank-$rank.log: $(cat "logs/rank-$rank.log")"
    done
    run 0 ranks 1 'echo again' --output-dir logs
    [ "$(cat logs/rank-0.log)" = again ] || die "the old text of rank-0.log is left"
    run 126 ranks 1 : --output-dir no/such/folder
    errors '^# symm-run: cannot write to no/such/folder: No such file or directory$'
    run 2 ranks 1 : --output-dir logs --tag-output
    errors 'exclude each other'
}

case_more_ranks_than_devices() {
    run 1 env SYMM_EMULATED_DEVICES=2 "$bin/symm-run" --emulated -n 3 "$bin/symm-bench" all-reduce
    errors '3 ranks, 2 devices \(SYMM_EMULATED_DEVICES sets how many\): rank [0-9] and rank [0-9] use the same device, GPU-'
}

case_blame() {
    # A rank that exits with 75 blames another rank. If that rank fails later, its code is the job's.
    run 9 ranks 3 'test $SYMM_RANK = 1 || exit 75; sleep 0.3; exit 9'
    # Ranks may notice a kill and exit before the killed rank has ended: the job's code is that of the kill.
    run 137 ranks 3 'test $SYMM_RANK = 1 || exit 1; sleep 0.1; kill -KILL $$'
    # If the blamed rank continues, the code 75 is the job's.
    within 4 run 75 ranks 3 'test $SYMM_RANK = 1 || exit 75; sleep 100'
}

case_early_end() {
    # symm-run names a rank that returned 0 while others waited for it, once.
    run 75 ranks 4 '
        test $SYMM_RANK = 1 && exit 0
        sleep 0.3
        test $SYMM_RANK = 2 && exit 0
        sleep 0.$((SYMM_RANK + 3))
        exit 75' --keep-going
    errors '^# symm-run: exited with 0 by then: rank 1 \([0-9]+\.[0-9]+ s earlier\), rank 2 \('
    [ "$(grep -c 'exited with 0' "$work/err")" = 1 ] || die "a rank is named twice"
    within 3 run 124 ranks 3 'test $SYMM_RANK = 1 && exit 0; sleep 100' --timeout 0.5
    errors '^# symm-run: time limit of 0.5 s reached by: rank 0 2$'
    errors '^# symm-run: exited with 0 by then: rank 1 \('
    run 0 ranks 3 'test $SYMM_RANK = 1 && exit 0; sleep 0.3'
    [ ! -s "$work/err" ] || die "a message about a job without a failure"
}

case_timeout() {
    within 3 run 124 ranks 2 'sleep 100' --timeout 0.5
    errors 'time limit of 0.5 s reached by: rank 0 1$'
    within 3 run 124 ranks 2 'sleep 100' --timeout 0.5 --keep-going
    run 0 ranks 2 true --timeout 60
}

case_cannot_execute() {
    run 127 "$bin/symm-run" -n 2 ./no-such-program
    errors '^# symm-run: cannot run ./no-such-program: No such file'
    touch plain
    run 126 "$bin/symm-run" -n 2 ./plain
    errors '^# symm-run: cannot run ./plain: Permission denied'
}

case_usage() {
    while read -r arguments; do
        run 2 "$bin/symm-run" $arguments
        only_comments "$work/err"
        errors "${arguments%% *}|missing"
    done <<'END'
-n 0 true
-n 73 true
-n two true
--timeout -1 -n 2 true
--timeout soon -n 2 true
--hosts 0 -n 2 true
--hosts two -n 2 true
--nonsense -n 2 true
-x
-n
-n 2
true
END
    run 2 "$bin/symm-run" --nonsense -n 2 true
    errors '^# symm-run: --nonsense: no such option '
    run 2 "$bin/symm-run" --keep-going=yes -n 2 true
    errors '^# symm-run: --keep-going=yes: --keep-going takes no value '
    run 2 "$bin/symm-run" -n
    errors '^# symm-run: -n needs a value '
    # A program that starts the ranks itself.
    for option in '--hosts 2' '--timeout 5' --keep-going --tag-output '--output-dir logs'; do
        run 2 "$bin/symm-run" --nccl $option true
        errors "^# symm-run: ${option% *} needs -n N: how many ranks "
    done
    run 0 "$bin/symm-run" --help
    only_comments "$work/out"
    run 0 "$bin/symm-run" --version
    said '^# symm-run [0-9]+\.[0-9]+\.[0-9]+$'
}

case_grandchildren() {
    # A process in the rank's process group, one outside of it, one whose parent has ended.
    within 4 run 0 ranks 2 'sleep 100 & setsid sleep 100 & (setsid sleep 100 &) ; exit 0'
    leftovers
    within 6 run 1 ranks 2 '
        setsid sh -c "trap : TERM; while :; do sleep 1; done" &
        test $SYMM_RANK = 0 || exit 1
        wait'
}

# start_two TEXT: starts a job in the background and waits until each of its two ranks has made a file up.RANK.
start_two() {
    rm -f up.*
    "$bin/symm-run" -n 2 sh -c "$1" >"$work/out" 2>"$work/err" &
    job=$!
    for _ in $(seq 100); do
        [ -e up.0 ] && [ -e up.1 ] && return
        sleep 0.05
    done
    die "the ranks do not start"
}

ended_with() {
    local code=0
    wait "$job" || code=$?
    [ "$code" = "$1" ] || die "exit code $code instead of $1"
}

case_forwards_signals() {
    start_two '
        trap "echo got $SYMM_RANK; exit 0" TERM
        touch up.$SYMM_RANK
        while :; do sleep 0.1; done'
    kill -TERM "$job"
    ended_with 0
    said '^got 0$'
    said '^got 1$'
    start_two 'touch up.$SYMM_RANK; sleep 100'
    kill -TERM "$job"
    ended_with 143
}

case_second_signal_kills() {
    start_two 'trap "" TERM; touch up.$SYMM_RANK; while :; do sleep 0.1; done'
    kill -TERM "$job"
    sleep 0.3
    kill -TERM "$job"
    within 2 ended_with 143
}

# Waits until no marked process is left.
vanish() {
    for _ in $(seq 100); do
        [ -n "$(marked)" ] || return 0
        sleep 0.05
    done
}

case_killed_itself() {
    start_two 'setsid sleep 100 & touch up.$SYMM_RANK; wait'
    kill -KILL "$job"
    ended_with 137
    vanish
}

case_killed_supervisor() {
    start_two 'touch up.$SYMM_RANK; sleep 100'
    pkill -KILL -P "$job"
    ended_with 137
    vanish
}

case_input() {
    run 0 ranks 2 'cat' <<<'for rank 0'
    [ "$(cat "$work/out")" = 'for rank 0' ] || die "rank 0 did not get the input, or not alone"
}

case_closed_standard_files() {
    # Files that symm-bench opens must not get the number of the closed standard output.
    run 1 sh -c 'exec "$0" --emulated -n 2 "$1" all-reduce --sizes 1K --csv rows.csv >&-' \
        "$bin/symm-run" "$bin/symm-bench"
    [ "$(wc -l <rows.csv)" = 2 ] || die "the table is in rows.csv"
    run 0 sh -c 'exec "$0" --emulated -n 2 "$1" all-reduce --check --sizes 1K --json rows.json <&- 2>&- |
        grep -q "^ *1024 "' "$bin/symm-run" "$bin/symm-bench"
    [ "$(json rows.json rows 0 wrong)" = 0 ]
}

case_unknown_setting() {
    run 0 env SYMM_TIMEOUT=5 "$bin/symm-run" -n 1 true
    errors '^# symm-run: SYMM_TIMEOUT=5 is no setting of symm'
    run 0 env SYMM_TIMEOUT_MS=5 "$bin/symm-run" -n 1 true
    [ ! -s "$work/err" ] || die "a message about a valid setting"
}

case_leaves_no_socket() {
    run 137 ranks 2 'touch "$SYMM_DIR/left" "$SYMM_DIR/by.$SYMM_RANK"; kill -KILL $$' --keep-going
    leftovers
}

main "$2"
