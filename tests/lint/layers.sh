#!/usr/bin/env bash
# Checks the order of the rooms (docs/architecture.md): a file includes headers of its own room or of an earlier one.
# A room is a folder of this list with its subfolders, except those that are rooms themselves. Each room has a README.md.
set -euo pipefail
cd "$(dirname "$0")/../.."

rooms='
include/symm
src/abi
src/model
src/runtime/base
src/runtime/comm
src/runtime/root
src/runtime/hub
src/runtime/exchange
src/runtime/driver
src/runtime/memory
src/runtime/group
src/runtime/api
src/engine
src/collectives/kernels
src/collectives
src/matmul/kernels
src/matmul/plan
src/matmul/cublas
src/matmul/trace
src/matmul/transport
src/matmul/collect
src/matmul/portable
src/matmul/sm90
src/matmul
src/nccl
'
# The emulated driver is a separate library: of symm it includes include/symm and src/abi only.
emulator_rooms='
include/symm
src/abi
src/emulator/state
src/emulator/memory
src/emulator/blocks
src/emulator/hopper
src/emulator/streams
src/emulator
'
most_lines=500 # of each file of src

status=0
fail() {
    echo "layers.sh: $*" >&2
    status=1
}

# order ROOMS: checks every file in these rooms.
order() {
    awk -v rooms="$1" '
        function room_of(path) {
            while (sub(/\/[^\/]*$/, "", path))
                if (path in position)
                    return path
            return ""
        }
        function clean(path) {
            while (sub(/[^\/]+\/\.\.\//, "", path)) {}
            return path
        }
        BEGIN {
            n = split(rooms, list, /[ \n]+/)
            for (i = 1; i <= n; i++)
                if (list[i] != "")
                    position[list[i]] = i
        }
        match($0, /^#include "[^"]*"/) {
            name = substr($0, 11, RLENGTH - 11)
            room = room_of(FILENAME)
            beside = FILENAME
            sub(/[^\/]*$/, "", beside)
            path = clean(beside name)
            if ((getline line < path) < 0)
                path = clean("src/" name)
            close(path)
            included = room_of(path)
            if (room == "")
                next
            if (included == "") {
                print FILENAME " includes \"" name "\" of a room outside of its list"
                bad = 1
            } else if (position[included] > position[room]) {
                print FILENAME " includes \"" name "\" of a later room, " included
                bad = 1
            }
        }
        END { exit bad }' $2 >&2 || status=1
}

mapfile -t emulator < <(git ls-files 'src/emulator/*.[ch]')
mapfile -t symm < <(git ls-files 'src/*.c' 'src/*.h' 'src/*.cu' 'src/*.cuh' ':!src/emulator')
order "$rooms" "${symm[*]}"
order "$emulator_rooms" "${emulator[*]}"

for file in "${symm[@]}" "${emulator[@]}"; do
    lines=$(wc -l <"$file")
    [ "$lines" -le $most_lines ] || fail "$file has $lines lines: at most $most_lines"
done
for room in $rooms $emulator_rooms; do
    case $room in src/*) [ -f "$room/README.md" ] || fail "$room has no README.md" ;; esac
done

# A private header does not have a public header's name: check_abi.sh tells public types by the name of their header.
for file in "${symm[@]}"; do
    case $file in *.h) [ ! -e "include/symm/${file##*/}" ] || fail "$file has the name of a public header" ;; esac
done

# Only the rooms below the driver use sockets, and the log, which checks whether stderr is a socket.
if grep -lE '#include <sys/socket.h>' "${symm[@]}" | grep -vE '^src/runtime/(comm|hub|exchange)/|^src/runtime/base/log\.c$' >&2; then
    fail "sockets above src/runtime/exchange"
fi
# The tools use public headers only, and src/abi and src/model, which know nothing of symm.
if grep -rnE '#include "(\.\./)*(src/|runtime/|collectives/|matmul/|emulator/)' tools --include='*.[ch]' >&2; then
    fail "a tool includes an internal header"
fi
# What runs on Hopper GPUs is what the emulated driver runs: only the headers of instructions, and what chooses them, differ.
if git ls-files 'src/matmul/sm90/*.cuh' | grep -vE '/(ptx|ptx_cuda|ptx_emulated|kernel)\.cuh$' |
    xargs grep -nE '\basm\b|__CUDA|SYMM_EMULATED|symm_emulated|symm_detail::weak' >&2; then
    fail "code of one target in src/matmul/sm90: it belongs into ptx_cuda.cuh or ptx_emulated.cuh"
fi
exit $status
