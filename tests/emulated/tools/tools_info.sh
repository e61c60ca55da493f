#!/usr/bin/env bash
# symm-info: its output on the emulated driver, its JSON, its verification and its exit codes.
# The shells of the ranks expand their texts, and options are lists of words, so they are not quoted.
# shellcheck disable=SC2016,SC2086
set -euo pipefail
. "$(dirname "$0")/../../support/shell.sh"

case_text() {
    run 0 env SYMM_EMULATED_DEVICES=3 "$bin/symm-info" --driver emulated
    said '^# driver: emulated 1[0-9]\.[0-9]'
    [ "$(grep -c 'GPU-.*SYMM emulated device' "$work/out")" = 3 ] || die "not three devices"
    said '^  2   yes   yes   yes$'
    said '^# multicast: not asked: '
    said '^# these devices are emulated on CPUs: they are no GPUs of this machine$'
    said '^# limits: [0-9]+ open files .* 72 ranks, window of '
    said ', 2M a group for signals, packets and staging, more once a call wants it \(SYMM_STAGING_BYTES: by the device memory\)'
    run 0 env SYMM_STAGING_BYTES=1M "$bin/symm-info" --driver emulated
    said ', 1[0-9]{3}K a group for signals, packets and staging, more once a call wants it \(SYMM_STAGING_BYTES: 1M\)'
}

case_auto() {
    # Without --driver emulated or SYMM_DRIVER, symm-info shows no emulated devices.
    if ldconfig -p | grep -q libcuda.so.1; then
        run 0 "$bin/symm-info"
        said '^# driver: cuda'
    else
        for option in '' --verify '--driver auto'; do
            run 3 "$bin/symm-info" $option
            errors '^# symm-info: SYMM_ERROR_DRIVER: .*SYMM_DRIVER=emulated'
            [ ! -s "$work/out" ] || die "the standard output is not empty"
        done
        run 3 "$bin/symm-info" --json
        [[ $(json "$work/out" error) == *SYMM_DRIVER=emulated* ]] || die "no error in the JSON"
    fi
    run 0 env SYMM_DRIVER=emulated "$bin/symm-info"
    said '^# driver: emulated [0-9.]+ \(as SYMM_DRIVER says\)'
}

case_json() {
    run 0 env SYMM_EMULATED_DEVICES=2 "$bin/symm-info" --json --driver emulated
    [ "$(json "$work/out" driver)" = emulated ]
    [ "$(json "$work/out" emulated)" = ON ]
    [ "$(json "$work/out" limits group)" = 2097152 ]
    [ "$(json "$work/out" limits staging)" = 'by the device memory' ]
    [ "$(json "$work/out" devices 1 name)" = 'SYMM emulated device' ]
    [ "$(json "$work/out" devices 1 least_granularity)" = 2097152 ]
    [ "$(json "$work/out" peer_access 0 1)" = ON ]
    [ "$(json "$work/out" multicast verdict)" = 'not asked' ]
    [ "$(json "$work/out" limits ranks)" = 72 ]
}

case_env() {
    run 0 env SYMM_LOG_LEVEL=3 "$bin/symm-info" --env
    said '^  SYMM_LOG_LEVEL +1\.\.4 +2 +3 '
    said '^  SYMM_DRIVER +cuda\|emulated +cuda +- '
    run 0 env SYMM_LOG_LEVEL=3 "$bin/symm-info" --env --json
    [ "$(json "$work/out" settings 0 name)" = SYMM_RANK ]
    run 0 env SYMM_TUNING_FILE=$'a\xff' "$bin/symm-info" --env --json
    grep -q '"value": "a?"' "$work/out" || die "a value that is no UTF-8 is left out"
    run 0 env SYMM_TIMEOUT=5 "$bin/symm-info" --env
    said '^# no setting of symm: SYMM_TIMEOUT=5$'
}

case_multicast_reason() {
    run 0 env NCCL_NVLS_ENABLE=0 "$bin/symm-info" --driver emulated
    said '^# multicast: off: .*(NCCL_NVLS_ENABLE|without)'
}

case_verify() {
    run 0 env SYMM_EMULATED_DEVICES=3 "$bin/symm-info" --verify --driver emulated
    said '^# verified on 3 ranks, seed 0x'
    said '^  2    ok    ok    ok$'
    ! grep -q WRONG "$work/out" || die "something is wrong"
    for operation in all-reduce all-gather reduce-scatter broadcast; do
        said "^# $operation:\$"
    done
    for algo in auto low_latency one_shot copy_engine; do
        [ "$(grep -c "^# $algo: ok\$" "$work/out")" = 4 ] || die "$algo is not right four times"
    done
    for algo in low_latency_two_shot two_shot; do
        said "^# $algo: ok\$"
    done
    said '^# multimem: (ok|not available: .*without)'
    said '^# multicast: (on|off: .*without)'
}

case_verify_without_multicast() {
    run 0 env SYMM_EMULATED_DEVICES=2 SYMM_MULTICAST=0 \
        "$bin/symm-info" --verify --json --driver emulated
    [ "$(json "$work/out" multicast verdict)" = off ]
    [ "$(json "$work/out" verification ok)" = ON ]
    [ "$(json "$work/out" verification put 1 0)" = ON ]
}

case_verify_fails() {
    # A rank is killed during the verification: symm-info ends with a message and an exit code.
    run 1 env SYMM_EMULATED_DEVICES=3 SYMM_EMULATED_FAULT='cuMemcpyAsync@1#4=kill' \
        "$bin/symm-info" --verify --driver emulated
    errors '^# symm-info: rank 1 was killed by SIGKILL$'
    said '^# verification failed: '
    # Rank 0 would have written the findings.
    run 1 env SYMM_EMULATED_DEVICES=3 SYMM_EMULATED_FAULT='cuMemcpyAsync@0#4=kill' \
        "$bin/symm-info" --verify --driver emulated
    said '^# verification failed: the ranks have not finished$'
    ! grep -q '^# verified' "$work/out" || die "nothing was verified"
    run 1 env SYMM_EMULATED_DEVICES=3 SYMM_EMULATED_FAULT='cuMemcpyAsync@2#4=719' \
        "$bin/symm-info" --verify --json --driver emulated
    [ "$(json "$work/out" verification ok)" = OFF ]
}

case_domains() {
    run 0 "$bin/symm-run" --emulated -n 5 --hosts 2 "$bin/symm-info" --domains
    [ "$(grep -c '^# symm ' "$work/out")" = 1 ] || die "another rank than rank 0 prints"
    said '^# ranks: 5$'
    said '^# domains: 2: ranks share memory only with those of their domain$'
    said "^ +0 +3 $(hostname) +0 to 2$"
    said "^ +1 +2 $(hostname) +3, 4$"
    run 0 "$bin/symm-run" --emulated -n 3 --hosts 3 "$bin/symm-info" --domains --json
    [ "$(json "$work/out" ranks)" = 3 ]
    [ "$(json "$work/out" domains 2 host)" = "$(hostname)" ]
    [ "$(json "$work/out" domains 2 ranks 0)" = 2 ]
    [ "$(json "$work/out" rails 0 2)" = 2 ]
    # Ranks of one host, with and without a meeting over TCP, and a rank alone.
    run 0 "$bin/symm-run" --emulated -n 2 --hosts 1 "$bin/symm-info" --domains
    said '^# domains: 1: all ranks share memory$'
    run 0 "$bin/symm-run" --emulated -n 2 "$bin/symm-info" --domains
    said '^ +0 +2 .* 0, 1$'
    run 0 "$bin/symm-info" --domains --driver emulated
    said '^# ranks: 1$'
    # Ranks dealt out in turn.
    run 0 "$bin/symm-run" --emulated -n 5 --hosts 1 \
        sh -c 'SYMM_HOSTID=$((SYMM_RANK % 2)) exec "$0" --domains' "$bin/symm-info"
    said '^ +0 +3 .* 0, 2, 4$'
    said '^ +1 +2 .* 1, 3$'
    # A rank that does not come.
    run 1 env SYMM_TIMEOUT_MS=1000 "$bin/symm-run" --emulated -n 3 --hosts 3 \
        sh -c 'test $SYMM_RANK = 1 || exec "$0" --domains' "$bin/symm-info"
    errors '^# symm-info: SYMM_ERROR_TIMEOUT: .*rank 1 of 3 did not come to 127.0.0.1:'
    [ ! -s "$work/out" ] || die "the standard output is not empty"
    run 2 "$bin/symm-info" --domains --verify
    errors 'excludes'
}

case_rails_and_engine() {
    run 0 env -u SYMM_NCCL_LIBRARY "$bin/symm-run" --emulated -n 6 --hosts 2 "$bin/symm-info" --domains
    said '^# rails: 3: ranks of the same number in their domains$'
    said '^ +0 +2 0, 3$'
    said '^ +2 +2 2, 5$'
    said '^# between domains: no NCCL: the emulated driver needs .* set SYMM_NCCL_LIBRARY$'
    run 0 "$bin/symm-run" --emulated -n 5 --hosts 2 "$bin/symm-info" --domains
    said '^# rails: none: the domains have different numbers of ranks$'
    export SYMM_NCCL_LIBRARY=$bin/../lib/standin/libnccl.so.2
    run 0 "$bin/symm-run" --emulated -n 4 --hosts 2 sh -c '
        test $SYMM_RANK != 2 || export NCCL_STANDIN_VERSION=21903
        exec "$0" --domains' "$bin/symm-info"
    said '^# between domains: NCCL 2\.32\.3, /.*/standin/libnccl\.so\.2$'
    said '^# another version than on rank 0: on rank 2$'
    # Ranks dealt out in turn: a rail has neighbours.
    run 0 "$bin/symm-run" --emulated -n 4 --hosts 1 \
        sh -c 'SYMM_HOSTID=$((SYMM_RANK % 2)) exec "$0" --domains --json' "$bin/symm-info"
    [ "$(json "$work/out" rails 0 0)$(json "$work/out" rails 0 1)$(json "$work/out" rails 1 1)" = 013 ]
    [ "$(json "$work/out" engine version)" = 2.32.3 ]
    [[ $(json "$work/out" engine file) == /*/libnccl.so.2 ]]
    # One domain has no rails; a file that is missing is named.
    run 0 env SYMM_NCCL_LIBRARY=/no/such/file "$bin/symm-run" --emulated -n 2 "$bin/symm-info" --domains
    ! grep -q rails "$work/out" || die "rails in one domain"
    said '^# between domains: no NCCL: /no/such/file: '
}

case_one_device() {
    run 0 env SYMM_EMULATED_DEVICES=1 "$bin/symm-info" --verify --driver emulated
    said '^# verified on 1 ranks'
}

case_no_device() {
    # A folder without the driver's library, and the emulated driver has no say.
    ! ldconfig -p | grep -q libcuda.so.1 || skip "this machine has a GPU driver"
    run 3 "$bin/symm-info" --driver cuda
    only_comments "$work/err"
    errors 'SYMM_ERROR_DRIVER: .*SYMM_DRIVER=emulated'
}

case_usage() {
    for arguments in '--driver foo' --nonsense 'word' '--driver'; do
        run 2 "$bin/symm-info" $arguments
        only_comments "$work/err"
        errors "${arguments##* }"
    done
    run 2 "$bin/symm-info" --ver
    errors '^# symm-info: --ver may be one of --verify, --verify-rank, --version '
    run 2 "$bin/symm-info" --json -xh
    errors '^# symm-info: -x: no such option '
    run 0 "$bin/symm-info" --help
    only_comments "$work/out"
    run 0 "$bin/symm-info" --version
    said '^# symm-info [0-9]'
}

main "$2"
