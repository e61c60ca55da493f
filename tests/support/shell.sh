# shellcheck shell=bash
# For tests of programs, one case a process: SCRIPT BUILD_DIR CASE runs the function case_CASE.
# The case must leave no file in TMPDIR and no process with its mark in the environment.

build=$(cd "$1" && pwd)
# shellcheck disable=SC2034
bin=$build/bin
TMPDIR=$(mktemp -d "${TMPDIR:-/tmp}/symm-test-XXXXXX")
work=$(mktemp -d "${TMPDIR%/*}/symm-test-XXXXXX") # what the case itself writes
SYMM_TEST_MARK=$$.$RANDOM
export TMPDIR SYMM_TEST_MARK
unset SYMM_DRIVER SYMM_RANK SYMM_NRANKS SYMM_SESSION SYMM_TOKEN SYMM_DIR SYMM_ADDRESS SYMM_HOSTID NCCL_HOSTID

die() {
    echo "$*" >&2
    sed 's/^/  out: /' "$work/out" >&2 || true
    sed 's/^/  err: /' "$work/err" >&2 || true
    exit 1
}

# run CODE COMMAND...: runs it with the output in $work/out and $work/err, and checks its exit code.
run() {
    local want=$1 code=0
    shift
    "$@" >"$work/out" 2>"$work/err" || code=$?
    [ "$code" = "$want" ] || die "exit code $code instead of $want: $*"
}

# said PATTERN, errors PATTERN: the last command wrote a matching line to its standard output, error.
said() {
    grep -qE -- "$1" "$work/out" || die "no such line in its output: $1"
}
errors() {
    grep -qE -- "$1" "$work/err" || die "no such line among its errors: $1"
}

# skip REASON: ends the case as skipped.
skip() {
    echo "# skipped: $*"
    exit 77
}

# Every line that is not a row of a table begins with #.
only_comments() {
    ! grep -vE '^#' "$1" || die "a line without # in $1"
}

# within SECONDS COMMAND...: checks that the command ends in time.
within() {
    local limit=$1 started=$SECONDS
    shift
    "$@"
    local took=$((SECONDS - started))
    [ "$took" -le "$limit" ] || die "took $took s, more than $limit: $*"
}

# json FILE KEY...: prints a member; fails if the file is no JSON or lacks the member.
json() {
    local file=$1
    shift
    cat >"$work/json.cmake" <<'CMAKE'
file(READ "${FILE}" text)
string(REPLACE "," ";" keys "${KEYS}")
string(JSON value ERROR_VARIABLE error GET "${text}" ${keys})
if(error)
  message(FATAL_ERROR "${error}")
endif()
execute_process(COMMAND ${CMAKE_COMMAND} -E echo "${value}")
CMAKE
    cmake "-DFILE=$file" "-DKEYS=$(IFS=,; echo "$*")" -P "$work/json.cmake"
}

# Lists the marked processes that still run, without zombies.
marked() {
    env -u SYMM_TEST_MARK grep -lsz "^SYMM_TEST_MARK=$SYMM_TEST_MARK\$" /proc/[0-9]*/environ
}

leftovers() {
    local files processes
    files=$(ls -A "$TMPDIR")
    [ -z "$files" ] || die "files left in TMPDIR: $files"
    processes=$(marked) || true
    [ -z "$processes" ] || die "processes left: $(
        for process in $processes; do tr '\0' ' ' <"${process%environ}cmdline"; done
    )"
}

main() {
    trap 'rm -rf "$TMPDIR" "$work"' EXIT
    (
        cd "$work" || exit
        "case_$1"
    )
    leftovers
}
