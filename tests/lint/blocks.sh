#!/usr/bin/env bash
# Checks the blocks of code in README.md, CONTRIBUTING.md and docs. C programs compile. Fragments of C compile in a function,
# after the declarations of a line <!-- with: ... -->. All C++ blocks of a document compile together, as kernels for the
# emulated driver. Commands name programs and options that exist. install/check_guide.sh checks docs/custom-kernels.md,
# proof/documented.py the blocks behind a line <!-- add to ... --> or <!-- new file ... -->.
# usage: blocks.sh BUILD_DIR
set -euo pipefail
build=$(realpath "$1")
cd "$(dirname "$0")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/blocks" "$work/bin" "$work/build/bin" "$work/build-clang/bin"
status=0 checked=0

# Writes a file DOCUMENT:LINE:LANGUAGE for each block, with % for / in the path. Indented blocks have no language.
for document in README.md CONTRIBUTING.md docs/*.md docs/notes/*.md; do
    [ "$document" != docs/custom-kernels.md ] || continue
    awk -v prefix="$work/blocks/${document//\//%}" '
        function begin(language) { file = sprintf("%s:%04d:%s", prefix, FNR, language); printf "" >file }
        /^<!-- (add to|new file) / { elsewhere = 1; next }
        /^<!-- with: / { sub(/^<!-- with: /, ""); sub(/ -->$/, ""); with = $0; next }
        /^```/ && fenced { fenced = elsewhere = 0; with = file = ""; next }
        /^```/ { fenced = 1; file = ""; if (!elsewhere) { begin(substr($0, 4)); if (with) print with >(file ".with") } next }
        fenced { if (file) print >file; next }
        /^    / && (file || empty) { if (!file) begin("indented"); sub(/^ +/, ""); print >file; next }
        { file = ""; empty = /^$/ }' "$document"
done

stand_in() { # FILE TEXT: makes a program FILE that runs TEXT instead of the real one
    mkdir -p "$work/$(dirname "$1")"
    printf '#!/bin/bash\n%s\n' "${2:-}" >"$work/$1"
    chmod +x "$work/$1"
}
for program in program all_reduce bin/{cmake,ctest,cc,pkg-config,torchrun,python3,compute-sanitizer} \
    build-clang/bin/fuzz_hub_libfuzzer $(sed -nE 's,^build (bin/[a-zA-Z0-9_-]+):.*,build/\1,p' "$build/build.ninja") \
    $(git ls-files -s | sed -n 's/^100755.*\t//p'); do
    stand_in "$program"
done
# symm-bench checks all options before it joins the job. With SYMM_NRANKS=none joining fails, so it ends after the check.
stand_in bin/symm-bench "text=\$(SYMM_NRANKS=none '$build/bin/symm-bench' \"\$@\" 2>&1) || [ \$? != 2 ] || { echo \"\$text\" >&2; exit 2; }"
stand_in bin/symm-run "exec '$build/bin/symm-run' \"\$@\""
stand_in bin/symm-info "help=\$('$build/bin/symm-info' --help); for option; do case \$option in --*) [[ \$help == *\"\$option\"* ]] ||
    { echo \"symm-info has no \$option\" >&2; exit 2; } ;; esac; done"
for tool in symm-bench symm-run symm-info; do
    cp "$work/bin/$tool" "$work/build/bin/$tool"
done

compiles() { # COMPILER... FILE
    "$@" -fsyntax-only -Wall -Wextra -Werror -Wno-unused -isystem include -I docs/examples
}
runs() { # FILE: runs its commands in a folder of stand-ins
    local text
    if ! text=$(cd "$work" && PATH=$work/bin "$BASH" -eu "$1" 2>&1) || grep -q 'is no setting' <<<"$text"; then
        echo "$text"
        return 1
    fi
}
check() { # BLOCK
    case $1 in
    *:c)
        if ! grep -q 'int main(' "$1"; then
            { printf '#include <symm/%s.h>\n' symm collectives dlpack matmul stream
              echo 'void fragment(void); void fragment(void) {'
              cat "$1.with" "$1" 2>/dev/null
              echo '}'; } >"$1.c"
            compiles "${CC:-cc}" -std=c11 "$1.c"
        else
            compiles "${CC:-cc}" -std=c11 -x c "$1"
        fi ;;
    *:cpp)
        set -- "${1%:*:cpp}":*:cpp "$1"
        [ "$1" != "${*: -1}" ] || compiles "${CXX:-c++}" -std=c++17 -x c++ <(cat "${@:1:$#-1}") ;;
    *:sh) runs "$1" ;;
    *: | *:indented)
        grep -qE -m 1 '^([A-Z_]+=[^ ]* )*(\./|build|tools/|(symm-(run|info|bench)|cmake|ctest|cc|torchrun) )' "$1" || return 77
        runs "$1" ;;
    *:text | *:cmake | *:python) return 77 ;;
    *) echo "a language that no test checks" && return 1 ;;
    esac
}

for block in "$work"/blocks/*; do
    case $block in *.with | *.c) continue ;; esac
    code=0
    text=$(check "$block" 2>&1) || code=$?
    [ $code = 77 ] || checked=$((checked + 1))
    [ $code = 0 ] || [ $code = 77 ] || {
        name=$(basename "${block%:*}")
        echo "blocks.sh: ${name//%//}: ${text//$work/}" >&2
        status=1
    }
done
echo "blocks.sh: $checked blocks are checked"
exit $status
