# shellcheck shell=bash
# Shared by the tests of symm-bench: checks of tables and pictures, and a library that makes results wrong.
. "$(dirname "${BASH_SOURCE[0]}")/../../support/shell.sh"

# Prints each value of a column of the table once.
column() {
    grep -v '^#' "$work/out" | awk -v c="$1" '{ print $c }' | sort -u | paste -sd ' '
}

# table ROWS COLUMNS: checks the table's size and the alignment of its columns.
table() {
    local found
    found=$(awk -v n="$1" -v c="$2" '/^#/ { next } NF != c { bad = 1 } { rows++ }
        END { if (bad || rows != n) print rows + 0 }' "$work/out")
    [ -z "$found" ] || die "not $1 rows of $2 columns, but $found"
    [ "$(awk '/^#/ && !/^# +(bytes|m) / { next } { print length }' "$work/out" | sort -u | wc -l)" -le 1 ] ||
        die "the columns are not aligned"
}

# preloaded FAULT RANKS ARGUMENT...: runs symm-bench with a fault of tools_wrong.c.
preloaded() {
    local fault=$1 n=$2
    shift 2
    env ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" SYMM_TEST_WRONG="$fault" \
        "$bin/symm-run" --emulated -n "$n" --timeout 200 \
        env LD_PRELOAD="$build/lib/libtools_wrong.so" "$bin/symm-bench" "$@"
}

# product RANKS COMMAND OPTION...
product() {
    local n=$1 command=$2
    shift 2
    "$bin/symm-run" --emulated -n "$n" --timeout 200 \
        "$bin/symm-bench" "$command" --iterations 1 --warmup-iterations 0 "$@"
}

# rows N: checks that the table of a product has N rows.
rows() {
    table "$1" 16
}

# has_words FILE WORD...: checks that the picture is complete and has these words.
has_words() {
    local file=$1 word
    shift
    for word in "$@" '</svg>'; do
        grep -qF -- "$word" "$file" || die "no $word in $file"
    done
    python3 -c 'import sys, xml.dom.minidom as dom; dom.parse(sys.argv[1])' "$file" || die "$file is no XML"
}
