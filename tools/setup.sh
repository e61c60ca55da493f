# shellcheck shell=bash
# Sourced by quickstart.sh and test.sh: makes a bare Debian 12 or Ubuntu 24.04 able to build symm,
# and builds it. Every step is skipped when its result is there, so that a second run takes seconds.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
nvcc_least=12.4
nvcc_wheels=('nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-nvvm==13.0.*'
    'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*')

say() {
    echo "# $*"
}

fail() {
    echo "# $(basename "$0"): $*" >&2
    exit 1
}

# Runs a command with its output in a log, and shows the end of that when it fails.
quietly() {
    local log=$1
    shift
    if ! "$@" >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        fail "failed: $* (all of its output: $log)"
    fi
}

# at_least HAVE LEAST: compares version numbers.
at_least() {
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

# Installs Debian packages. The return code tells whether they are there now.
install_packages() {
    local run=()
    command -v apt-get >/dev/null || {
        say "there is no apt-get here; please install: $*"
        return 1
    }
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || {
            say "neither root nor sudo; please install: $*"
            return 1
        }
        run=(sudo)
    fi
    run+=(env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=60)
    say "installing $*"
    mkdir -p "$build"
    "${run[@]}" update >"$build/apt.log" 2>&1 &&
        "${run[@]}" install --no-install-recommends "$@" >>"$build/apt.log" 2>&1 && return 0
    tail -n 15 "$build/apt.log" >&2
    say "apt-get failed; is there a network? All of its output: $build/apt.log"
    return 1
}

# Compilers, CMake, ninja, the libraries, what Python needs for the tests of its example, and the model checker,
# without which only the models are left out.
need_packages() {
    local missing=() command
    for command in gcc g++ cmake pkg-config; do
        command -v "$command" >/dev/null || missing+=("$command")
    done
    command -v ninja >/dev/null || missing+=(ninja-build)
    pkg-config --exists check 2>/dev/null || missing+=(check)
    pkg-config --exists jansson 2>/dev/null || missing+=(libjansson-dev)
    [ -e /usr/include/dlpack/dlpack.h ] || missing+=(libdlpack-dev)
    [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}" ||
        fail "cannot go on without: ${missing[*]}"
    /usr/bin/python3 -c 'import numpy' 2>/dev/null || install_packages python3-numpy ||
        say "no NumPy: the tests of the Python example will be skipped"
    command -v spin >/dev/null || install_packages spin || say "going on without spin"
    command -v gnuplot >/dev/null || install_packages gnuplot-nox ||
        say "no gnuplot: symm-bench draws no pictures"
    local version
    version=$(cmake --version | sed -n '1s/.* //p')
    at_least "$version" 3.25 || fail "CMake $version is too old; 3.25 is needed"
}

# Prints the first nvcc that is new enough; fails when there is none.
find_nvcc() {
    local nvcc version
    for nvcc in "${CUDA_HOME:+$CUDA_HOME/bin/nvcc}" "${CUDA_PATH:+$CUDA_PATH/bin/nvcc}" \
        "$(command -v nvcc)" /usr/local/cuda/bin/nvcc \
        "$root"/.cuda/lib/python*/site-packages/nvidia/*/bin/nvcc; do
        [ -x "$nvcc" ] || continue
        version=$("$nvcc" --version 2>/dev/null) || continue
        version=$(sed -n 's/.*release \([0-9.]*\).*/\1/p' <<<"$version")
        if [ -n "$version" ] && at_least "$version" "$nvcc_least"; then
            echo "$nvcc"
            return 0
        fi
    done
    return 1
}

# Puts the CUDA compiler into .cuda, a virtual environment of Python, and prints its path.
install_nvcc() {
    if ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
        install_packages python3-venv ca-certificates >&2 || return 1
    fi
    say >&2 "no nvcc >= $nvcc_least here: installing the CUDA compiler into .cuda (100 MB)"
    mkdir -p "$build"
    if ! { python3 -m venv "$root/.cuda" &&
        "$root/.cuda/bin/python" -m pip install --disable-pip-version-check "${nvcc_wheels[@]}"; } \
        >"$build/nvcc.log" 2>&1; then
        tail -n 5 "$build/nvcc.log" >&2
        return 1
    fi
    find_nvcc
}

# Sets cuda to ON or OFF, and nvcc to the compiler that is there in the first case.
need_nvcc() {
    cuda=ON
    nvcc=$(find_nvcc) || nvcc=$(install_nvcc) || {
        cuda=OFF
        say "no CUDA compiler to be had: a build for the emulated driver only"
    }
}

# The GPUs' architectures, as CMake wants them: 80;90a. One when there are no GPUs.
architectures() {
    local found=''
    if command -v nvidia-smi >/dev/null; then
        found=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null |
            sed -n 's/^\([0-9]*\)\.\([0-9]\)$/\1\2/p' | sed 's/^90$/90a/' | sort -u | paste -sd ';')
    fi
    echo "${found:-90a}"
}

# Everything from the bare machine to binaries in build/bin. Arguments go to CMake.
set_up() {
    need_packages
    need_nvcc
    mkdir -p "$build"
    local started=$SECONDS
    local options=(-G Ninja "-DSYMM_CUDA=$cuda" "-DSYMM_CUDA_ARCHITECTURES=$(architectures)")
    [ "$cuda" = OFF ] || options+=("-DSYMM_NVCC=$nvcc")
    quietly "$build/configure.log" cmake -S "$root" -B "$build" "${options[@]}" "$@"
    quietly "$build/build.log" cmake --build "$build"
    say "built into build/ in $((SECONDS - started)) s"
}
