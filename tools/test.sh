#!/usr/bin/env bash
# Builds a fresh clone and runs all tests that this machine can run.
set -euo pipefail

case ${1:-} in
-h | --help)
    cat <<'HELP'
# Usage: tools/test.sh [CTEST-OPTION...]
#
# Installs missing packages, builds, and runs the tests. The options go to ctest: -L emulated runs the
# tests of tests/emulated, -R NAME the tests with that name, -N lists them.
# The last line counts: N passed, N failed, N skipped. Exit code: 0 if none has failed.
HELP
    exit 0
    ;;
esac

# shellcheck source=setup.sh
. "$(dirname "$0")/setup.sh"
say "checking packages"
need_packages
need_test_packages
need_nvcc yes # also without a GPU: tests read the machine code
configure -DSYMM_TESTS=ON
build_targets all

# Counts cases from ctest's report: a test program prints its number of cases, any other test counts as one.
count_cases() {
    awk '
        function attribute(name) {
            if (!match($0, " " name "=\"[^\"]*\""))
                return ""
            return substr($0, RSTART + length(name) + 3, RLENGTH - length(name) - 4)
        }
        /<testcase / { test = attribute("name"); status = attribute("status"); cases = 0 }
        /^# .*: [0-9]+ cases, [0-9]+ failed, [0-9]+ skipped$/ {
            cases = $(NF - 5); bad = $(NF - 3); skipped = $(NF - 1)
        }
        /^(.*<system-out>)?# skipped: / {
            sub(/^.*# skipped: /, "")
            reasons = reasons "#   " test ": " $0 "\n"
        }
        /<\/testcase>/ {
            if (cases == 0) {
                cases = 1
                bad = status == "fail"
                skipped = status != "run" && status != "fail"
                if (skipped && !index(reasons, "#   " test ":"))
                    reasons = reasons "#   " test "\n"
            } else if (status == "fail" && bad == 0) {
                bad = 1 # its cases are right, but something else is not
                cases++
            }
            all += cases; failed += bad; omitted += skipped
        }
        END {
            if (reasons)
                printf "# skipped:\n%s", reasons
            printf "%d passed, %d failed, %d skipped\n", all - failed - omitted, failed, omitted
        }' "$1"
}

rm -f "$build/tests.xml"
code=0
ctest --test-dir "$build" --output-on-failure --no-tests=error --output-junit "$build/tests.xml" \
    --test-output-size-passed 1000000 --test-output-size-failed 1000000 "$@" || code=$?
[ -f "$build/tests.xml" ] || exit "$code" # it has only listed, or refused its options
slowest_tests "$build/tests.xml"
count_cases "$build/tests.xml"
[ "$code" = 0 ]
