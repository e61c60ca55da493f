#!/usr/bin/env bash
# Installs a build into a fresh prefix and uses it from outside: find_package from C and C++, pkg-config, the tools,
# and every example.
# usage: check.sh BUILD_DIR
set -euo pipefail
build=$(realpath "$1")
here=$(realpath "$(dirname "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
prefix=$(realpath "$work/prefix")
libdir=$(dirname "$(find "$prefix" -name libsymm.so)")
run="$prefix/bin/symm-run --emulated --timeout 60"

cmake -S "$here/consumer" -B "$work/consumer" -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_BUILD_TYPE=Release >/dev/null
cmake --build "$work/consumer" >/dev/null
$run -n 3 "$work/consumer/consumer_c"
$run -n 2 "$work/consumer/consumer_cxx"

export PKG_CONFIG_PATH=$libdir/pkgconfig
# shellcheck disable=SC2046 # the flags are words
cc -std=c11 -Wall -Wextra -Werror "$here/consumer/main.c" -o "$work/by_pkg_config" \
    $(pkg-config --cflags --libs symm) -Wl,-rpath,"$libdir"
$run -n 2 "$work/by_pkg_config"

for example in "$here"/../../docs/examples/[0-9]*/; do
    name=$(basename "$example")
    cmake -S "$example" -B "$work/$name" -DCMAKE_PREFIX_PATH="$prefix" -DSYMM_CUDA=OFF \
        -DCMAKE_BUILD_TYPE=Release --no-warn-unused-cli >/dev/null
    cmake --build "$work/$name" >/dev/null
    for ranks in 1 2 3 4 8; do
        $run -n $ranks "$work/$name/$name" >/dev/null || {
            echo "check.sh: $name fails on $ranks ranks" >&2
            exit 1
        }
    done
    echo "$name: runs on 1, 2, 3, 4 and 8 ranks"
done

"$prefix/bin/symm-info" --driver emulated >/dev/null
$run -n 2 "$prefix/bin/symm-bench" all-reduce --sizes 1K --iters 2 --check >/dev/null
echo "installed: C, C++, pkg-config, examples and tools work"
