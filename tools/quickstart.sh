#!/usr/bin/env bash
# Installs missing packages, builds a fresh clone, and runs every all-reduce.
set -euo pipefail

case ${1:-} in
-h | --help)
    cat <<'HELP'
# Usage: tools/quickstart.sh [-DNAME=VALUE...]
#
# Installs missing packages (as root or with sudo; with a GPU the CUDA compiler, into .cuda of this
# folder), builds the library and its tools into build/, and runs every variant of the all-reduce,
# checked: from 1 KiB to 1 MiB on all GPUs (8 at most) if there are two or more, else to 256 KiB on 4
# ranks of the emulated driver. Options -D... go to CMake: -DSYMM_MULTICAST=OFF builds without multicast.
HELP
    exit 0
    ;;
esac
for option in "$@"; do
    case $option in
    -D?*=*) ;;
    *)
        echo "# quickstart.sh: $option: the arguments are -DNAME=VALUE and --help" >&2
        exit 2
        ;;
    esac
done

# shellcheck source=setup.sh
. "$(dirname "$0")/setup.sh"
say "checking packages"
need_packages
need_nvcc "$(has_gpu)" # without a GPU none is needed
configure -DSYMM_TESTS=OFF "$@"
build_targets symm-run symm-info symm-bench

bin=$build/bin
ngpus=0
if [ "$cuda" = ON ]; then
    ngpus=$("$bin/symm-info" --driver cuda --json 2>/dev/null | grep -c '"uuid"' || true)
fi
if [ "$ngpus" -ge 2 ]; then
    [ "$ngpus" -le 8 ] || ngpus=8
    say "the main job: every all-reduce, checked, on $ngpus GPUs"
    ranks=(-n "$ngpus")
    most=1M
else
    say "the main job: every all-reduce, checked, on 4 emulated ranks (usable GPUs: $ngpus)"
    ranks=(--emulated -n 4)
    most=256K # so that it takes seconds
fi
command=(symm-run "${ranks[@]}" build/bin/symm-bench all-reduce --algo all --check)
command+=(--min-bytes 1K --max-bytes "$most")
say "build/bin/${command[*]}"
cd "$root"
"$bin/${command[0]}" "${command[@]:1}"
