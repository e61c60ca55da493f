#!/usr/bin/env bash
# A file of src/ includes only headers of its own layer or of one below (docs/architecture.md). A file whose layer is
# not listed here is an error: a new file is put into the table first.
set -euo pipefail
cd "$(dirname "$0")/../.."

# layer number, then the nouns (file names without extension) of src/runtime that belong to it
layers='
0 status log settings fd deadline text rank_set array numbers dtype operation packet_call tuning
1 message link
2 boot_id join rendezvous hub hub_state hub_join hub_lane hub_birth hub_confirm hub_late doing exit_notice exchange exchange_state lane step
2 driver driver_abi
3 offset_allocator heap window segment block_table memory memory_foreign memory_segment memory_state
3 multicast multicast_object multicast_binding multicast_report multicast_none watchdog
4 context capability capture device control pad group kernel launch enqueue side signal stall dlpack
5 symm stream
'
layer_of() {
    case $1 in
    src/collectives/* | src/matmul/*) echo 6 ;;
    src/driver_abi.h | src/cublaslt.h) echo 2 ;;
    *) awk -v noun="$(basename "${1%.*}")" '{ for (i = 2; i <= NF; i++) if ($i == noun) print $1 }' <<<"$layers" ;;
    esac
}

status=0
while read -r file; do
    mine=$(layer_of "$file")
    if [ -z "$mine" ]; then
        echo "layers.sh: $file: not in the table" >&2
        status=1
        continue
    fi
    while read -r included; do
        path=$(dirname "$file")/$included
        case $included in
        *kernel_args.h | *kernels.def) continue ;; # the table between plans and kernels
        esac
        theirs=$(layer_of "$(realpath -m --relative-to=. "$path")")
        if [ -n "$theirs" ] && [ "$theirs" -gt "$mine" ]; then
            echo "layers.sh: $file (layer $mine) includes $included (layer $theirs)" >&2
            status=1
        fi
    done < <(sed -nE 's/^#include "([^"]+)".*/\1/p' "$file")
done < <(git ls-files 'src/runtime/*.[ch]' 'src/collectives/*.[ch]' 'src/matmul/*.[ch]')

# The emulated driver knows nothing of the runtime.
if grep -nE '#include .*(runtime/|collectives/|symm/symm\.h)' src/emulator/*.[ch]; then
    echo "layers.sh: the emulated driver includes the runtime" >&2
    status=1
fi
# Sockets stay below the ports (stderr may be one), the tools use public headers only, and cublaslt.h, which is of no part of symm.
if grep -lE '#include <sys/socket.h>' src/runtime/*.[ch] |
    grep -vE '/(message|link|rendezvous|hub|hub_join|exchange|boot_id|log)\.[ch]$'; then
    echo "layers.sh: sockets above the ports" >&2
    status=1
fi
if grep -rnE '#include "(\.\./)*(src/|runtime/|collectives/|matmul/|emulator/|driver_abi)' tools --include='*.[ch]'; then
    echo "layers.sh: a tool includes an internal header" >&2
    status=1
fi
exit $status
