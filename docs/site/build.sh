#!/usr/bin/env bash
# Builds the site of the documents: what the target docs runs. usage: build.sh FOLDER
set -euo pipefail
# shellcheck source=../../tools/setup.sh
. "$(dirname "$0")/../../tools/setup.sh"
absent=$(missing_docs_packages | paste -sd ' ')
[ -z "$absent" ] || fail "the site needs these Debian packages, or the same by pip: $absent"
docs_python -m sphinx -q -W --keep-going -c "$root/docs/site" -d "$1/trees" "$root" "$1/html"
say "the site: $1/html/index.html"
