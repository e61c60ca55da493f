#!/usr/bin/env bash
# Installs a build into a fresh prefix and uses it from outside: find_package from C and C++, pkg-config, the tools, the
# documents, every example on 1 to 8 ranks, and docs/custom-kernels.md. Then builds symm inside another project.
# usage: check_install.sh BUILD_DIR
#   SYMM_CUDA=OFF  builds no GPU code even if nvcc is found
set -euo pipefail
build=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
prefix=$(realpath "$work/prefix")
libdir=$(dirname "$(find "$prefix" -name libsymm.so)")

fail() {
    echo "check_install.sh: $*" >&2
    exit 1
}

run() { # RANKS PROGRAM...
    "$prefix/bin/symm-run" --emulated --timeout 60 -n "$@"
}

on_ranks() { # RANKS EXAMPLE: those with threads start their ranks themselves
    case $2 in
    */*_threads) SYMM_DRIVER=emulated timeout 60 "$2" "$1" ;;
    *) run "$@" ;;
    esac
}

make_project() { # FOLDER: builds it into $work/NAME
    cmake -S "$1" -B "$work/$(basename "$1")" -DCMAKE_PREFIX_PATH="$prefix" -DSYMM_CUDA="${SYMM_CUDA:-AUTO}" \
        -DSYMM_FATBIN_CACHE="$work/fatbin" -DCMAKE_BUILD_TYPE=Release --no-warn-unused-cli
    cmake --build "$work/$(basename "$1")"
}

example() { # FOLDER
    local name
    name=$(basename "$1")
    make_project "$1" >"$work/$name.log" 2>&1 || {
        cat "$work/$name.log" >&2
        fail "$name cannot be built"
    }
    for ranks in 1 2 3 4 5 6 7 8; do
        on_ranks $ranks "$work/$name/$name" >"$work/$name.log" 2>&1 || {
            cat "$work/$name.log" >&2
            fail "$name fails on $ranks ranks"
        }
    done
    echo "$name: runs on 1 to 8 ranks$([ ! -e "$work/$name/${name}_cudart" ] || echo "; its cudart program is built")"
}

# Runs three examples at a time, since one alone mostly waits.
failed=0
jobs=()
for folder in "$here"/../../docs/examples/[0-9]*/; do
    [ ${#jobs[@]} -lt 3 ] || { wait "${jobs[0]}" || failed=1; jobs=("${jobs[@]:1}"); }
    example "$folder" &
    jobs+=($!)
done
for job in "${jobs[@]}"; do
    wait "$job" || failed=1
done
[ $failed = 0 ] || exit 1
"$here/check_guide.sh" "$prefix"
"$here/check_subproject.sh"

make_project "$here/consumer" >/dev/null
run 3 "$work/consumer/consumer"
make_project "$here/consumer_cxx" >/dev/null
run 2 "$work/consumer_cxx/consumer_cxx"

export PKG_CONFIG_PATH=$libdir/pkgconfig
# shellcheck disable=SC2046 # the flags are words
cc -std=c11 -Wall -Wextra -Werror "$here/consumer/main.c" -o "$work/by_pkg_config" \
    $(pkg-config --cflags --libs symm) $(pkg-config --variable=rpath symm)
run 2 "$work/by_pkg_config"

# Kernels without CMake: a pragma of nvcc is no warning.
# shellcheck disable=SC2046
cc -Wall -Werror $(pkg-config --cflags symm) $(pkg-config --variable=kernel_cflags symm) -D SYMM_IMAGE=fused_kernels \
    -D SYMM_SOURCE="\"$(realpath "$here/../../docs/examples/03_rms_norm/fused.cu")\"" \
    -c "$(pkg-config --variable=kernel_source symm)" -o "$work/fused.o"

# Wrong uses of symm_add_kernels() fail with the texts of misuse/CMakeLists.txt.
while IFS=: read -r name text; do
    cmake -S "$here/misuse" -B "$work/misuse/$name" -DCMAKE_PREFIX_PATH="$prefix" -DCASE="$name" \
        >"$work/misuse.log" 2>&1 && fail "misuse $name is no error"
    tr -s ' \n' ' ' <"$work/misuse.log" | grep -qF "$text" || {
        cat "$work/misuse.log" >&2
        fail "misuse $name does not say \"$text\""
    }
done < <(sed -nE 's/.*CASE STREQUAL "(.*)"\) # (.*)/\1:\2/p' "$here/misuse/CMakeLists.txt")

"$prefix/bin/symm-info" --driver emulated >/dev/null
run 2 "$prefix/bin/symm-bench" all-reduce --sizes 1K --iters 2 --check --json "$work/out.json" >/dev/null
! command -v python3 >/dev/null || "$prefix/bin/symm-bench" report "$work/out.json" -o "$work/out.html"

# The licence and the documents are installed in the same folders as here, so that links between them hold.
for file in LICENSE $(cd "$here/../.." && find README.md CHANGELOG.md CONTRIBUTING.md docs -type f ! -path 'docs/site/*'); do
    cmp "$here/../../$file" "$prefix/share/doc/symm/$file"
done
"$here/../lint/links.sh" "$prefix/share/doc/symm"
echo "installed: C, C++, pkg-config, examples, tools and documents work"
