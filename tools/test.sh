#!/usr/bin/env bash
# From a fresh clone to the verdict of all tests that this machine can run.
set -euo pipefail

case ${1:-} in
-h | --help)
    cat <<'HELP'
# Usage: tools/test.sh [CTEST-OPTION...]
#
# Installs what is missing and builds, as tools/quickstart.sh does, and runs the tests. The options go
# to ctest: -L emulated runs those of tests/emulated, -R NAME those of that name, -N lists them.
# The last line counts: "N passed, N failed, N skipped". Exit code: 0 when none has failed, else 1.
HELP
    exit 0
    ;;
esac

# shellcheck source=setup.sh
. "$(dirname "$0")/setup.sh"
set_up

# A count that the first line of ctest's report holds as an attribute.
count() {
    sed -n "/<testsuite/,/>/s/.*[[:space:]]$1=\"\([0-9]*\)\".*/\1/p" "$build/tests.xml" | head -n 1
}

rm -f "$build/tests.xml"
ctest --test-dir "$build" --output-on-failure --no-tests=error --output-junit "$build/tests.xml" "$@" || true
[ -f "$build/tests.xml" ] || fail "ctest has written no report"
all=$(count tests) failed=$(count failures) skipped=$(($(count skipped) + $(count disabled)))
if [ "$skipped" -gt 0 ]; then
    say "skipped, with the reasons they give:"
    sed -n '/<testcase.*status="notrun"/,/<\/testcase>/p' "$build/tests.xml" |
        sed -n 's/.*<testcase name="\([^"]*\)".*/#   \1/p; s/.*<system-out>\(..*\)/#     \1/p; s/.*<skipped message="\([^"]*\)".*/#     \1/p'
fi
echo "$((all - failed - skipped)) passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
