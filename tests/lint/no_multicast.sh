#!/usr/bin/env bash
# No file of a build without multicast contains the name of a multicast driver call.
# usage: no_multicast.sh BUILD_DIR
set -euo pipefail
# The name is put together here so that this script is not its own finding.
name=cu"Multicast"
if found=$(grep -rl "$name" "$1" 2>/dev/null | head) && [ -n "$found" ]; then
    echo "no_multicast.sh: found in: $found" >&2
    exit 1
fi
echo "no $name in $1"
