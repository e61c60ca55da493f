#!/usr/bin/env bash
# The stand-in for NCCL exports names of NCCL alone, and each also as p.
set -euo pipefail
library=$1/lib/standin/libnccl.so.2
"$(dirname "$0")/../../lint/nccl_names.sh" "$library"
names=$(nm -D --defined-only "$library" | awk '{ print $3 }')
diff <(grep '^nccl' <<<"$names") <(grep -v '^nccl' <<<"$names" | sed 's/^p//')
