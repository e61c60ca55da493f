#!/usr/bin/env bash
# Checks that tools/setup.sh finds the GPUs of a machine, also if nvidia-smi still writes when the first one is found.
set -euo pipefail
folder=$(realpath "$(dirname "$0")/../../../tools")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# found TEXT: prints what has_gpu says if nvidia-smi prints TEXT and then many lines.
found() {
    printf '#!/bin/sh\necho "%s"\nseq 100000\n' "$1" >"$work/nvidia-smi"
    chmod +x "$work/nvidia-smi"
    # shellcheck disable=SC1091
    (. "$folder/setup.sh" && PATH="$work:$PATH" has_gpu)
}
[ "$(found 'GPU 0: NVIDIA H200')" = yes ] || { echo "a GPU was not found" >&2; exit 1; }
[ "$(found 'No devices were found')" = no ] || { echo "a GPU was found where there is none" >&2; exit 1; }
