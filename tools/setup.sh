# shellcheck shell=bash
# Sourced by quickstart.sh and test.sh: functions that install missing packages on a bare Debian 12 or Ubuntu 24.04, and
# build symm. If the result of a step exists, the step is skipped, so a second run takes seconds.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
nvcc_least=12.4
nvcc_wheels=('nvidia-cuda-nvcc==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-nvvm==13.0.*'
    'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-cccl==13.0.*')

say() {
    echo "# $*"
}

# slowest_tests FILE: from the report that ctest --output-junit has written.
slowest_tests() {
    say "the ten slowest tests, in seconds"
    sed -n 's/.*<testcase name="\([^"]*\)".* time="\([0-9.]*\)".*/\2 \1/p' "$1" | sort -rn |
        awk 'NR <= 10 { printf "#   %6.1f %s\n", $1, $2 }'
}

fail() {
    echo "# $(basename "$0"): $*" >&2
    exit 1
}

# Runs a command with its output in a log. If it fails, shows the end of the log.
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

# Installs Debian packages. The return code tells whether they are installed now.
install_packages() {
    local run=()
    command -v apt-get >/dev/null || {
        say "no apt-get; please install: $*"
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
    say "apt-get failed, perhaps without a network; its output: $build/apt.log"
    return 1
}

# Compilers, CMake, ninja and libraries for the library and its tools.
need_packages() {
    local missing=() command version
    for command in gcc g++ cmake pkg-config; do
        command -v "$command" >/dev/null || missing+=("$command")
    done
    command -v ninja >/dev/null || missing+=(ninja-build)
    pkg-config --exists jansson 2>/dev/null || missing+=(libjansson-dev)
    [ -e /usr/include/dlpack/dlpack.h ] || missing+=(libdlpack-dev)
    [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}" ||
        fail "missing: ${missing[*]}"
    version=$(cmake --version | sed -n '1s/.* //p')
    at_least "$version" 3.25 || fail "CMake $version is too old; 3.25 is needed"
}

# Installs the tests' library, and programs without which some tests are skipped.
need_test_packages() {
    pkg-config --exists check 2>/dev/null || install_packages check || fail "missing: check"
    /usr/bin/python3 -c 'import numpy' 2>/dev/null || install_packages python3-numpy ||
        say "no NumPy: the tests of the Python example will be skipped"
    command -v spin >/dev/null || install_packages spin || say "no spin: the models will be skipped"
}

# Prints the missing Debian packages of the documents' site.
missing_docs_packages() {
    local module
    command -v doxygen >/dev/null || echo doxygen
    for module in sphinx:python3-sphinx breathe:python3-breathe myst_parser:python3-myst-parser furo:furo; do
        docs_python -c "import ${module%:*}" 2>/dev/null || echo "${module#*:}"
    done
}

# Runs Debian's Python if it has Sphinx, else the first python3 of PATH.
docs_python() {
    if /usr/bin/python3 -c 'import sphinx' 2>/dev/null; then
        /usr/bin/python3 "$@"
    else
        python3 "$@"
    fi
}

# Installs the programs of the target docs.
need_docs_packages() {
    local missing
    read -ra missing <<<"$(missing_docs_packages | paste -sd ' ')"
    [ ${#missing[@]} = 0 ] || install_packages "${missing[@]}" || fail "missing for the target docs: ${missing[*]}"
}

# Prints the first nvcc that is new enough; fails if there is none.
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

# Sets cuda to ON or OFF; if ON, nvcc to the compiler. Installs one if `install` is yes.
need_nvcc() {
    local install=$1
    cuda=ON
    nvcc=$(find_nvcc) && return
    if [ "$install" = yes ] && nvcc=$(install_nvcc); then
        return
    fi
    cuda=OFF
    say "no nvcc: a build for the emulated driver only"
}

# Prints yes if this machine has a GPU.
has_gpu() {
    nvidia-smi -L 2>/dev/null | grep '^GPU ' >/dev/null && echo yes || echo no
}

# Configures build/. Arguments go to CMake.
configure() {
    mkdir -p "$build"
    local options=(-G Ninja "-DSYMM_CUDA=$cuda")
    [ "$cuda" = OFF ] || options+=("-DSYMM_NVCC=$nvcc")
    [ "$cuda" = OFF ] || [ "$(has_gpu)" = yes ] || say "no GPU: kernels are built for the architecture 90a"
    say "configuring"
    quietly "$build/configure.log" cmake -S "$root" -B "$build" "${options[@]}" "$@"
}

# Builds targets and shows the progress: each second on a terminal, else every ten seconds.
build_targets() {
    local started=$SECONDS log=$build/build.log every=10 building
    [ ! -t 2 ] || every=1
    say "building ($*)"
    NINJA_STATUS='%f of %t: ' cmake --build "$build" --target "$@" >"$log" 2>&1 &
    building=$!
    while kill -0 $building 2>/dev/null; do
        if [ $(((SECONDS - started + 1) % every)) = 0 ]; then
            if [ -t 2 ]; then
                printf '\r\033[K# %s' "$(tail -n 1 "$log" | cut -c 1-90)" >&2
            else
                say "$(tail -n 1 "$log" | sed 's/: .*//') built after $((SECONDS - started)) s"
            fi
        fi
        sleep 1
    done
    [ ! -t 2 ] || printf '\r\033[K' >&2
    wait $building || {
        grep -E -A 30 'FAILED|error' "$log" | head -n 60 >&2
        fail "the build failed (all of its output: $log)"
    }
    say "built into build/ in $((SECONDS - started)) s"
}
