#!/usr/bin/env bash
# Checks that no file of a build without multicast contains the name of a multicast driver call.
# usage: no_multicast.sh BUILD_DIR
set -euo pipefail
# Joined from two parts, so that this script does not contain the name.
name=cu"Multicast"
found=$(grep -rl "$name" "$1" | sed -n 1,10p || true)
if [ -n "$found" ]; then
    echo "no_multicast.sh: found in: $found" >&2
    exit 1
fi
echo "no $name in $1"
