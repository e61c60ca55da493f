#!/usr/bin/env bash
# Checks that every relative link of a document leads to a file and to a heading of it, and that every path like `src/...` in it exists.
# usage: links.sh [FOLDER]: in FOLDER, where documents are installed, only the links
set -euo pipefail
cd "${1:-$(dirname "$0")/../..}"
status=0
documents() {
    if [ -n "${1:-}" ]; then
        find . -name '*.md'
    else
        git ls-files '*.md' ':!CHANGELOG.md'
    fi
}
# The anchors of a document's headings.
anchors() {
    awk '/^```/ { code = !code }
        !code && /^#+ / {
            sub(/^#+ */, "")
            anchor = tolower($0)
            gsub(/\]\([^)]*\)|[^a-z0-9_ -]/, "", anchor)
            gsub(/ /, "-", anchor)
            print anchor (seen[anchor]++ ? "-" seen[anchor] - 1 : "")
        }' "$1"
}
while read -r document; do
    folder=$(dirname "$document")
    while read -r link; do
        target=${link%%#*}
        [ -z "$target" ] || [ -e "$folder/$target" ] || {
            echo "links.sh: $document: no file $link" >&2
            status=1
        }
        case $link in *.md#* | \#*)
            anchors "${target:+$folder/}${target:-$document}" | grep -xF "${link#*#}" >/dev/null || {
                echo "links.sh: $document: no heading $link" >&2
                status=1
            } ;;
        esac
    done < <(sed '/^```/,/^```/d' "$document" | grep -oE '\]\([^)]+\)' | sed -E 's/^\]\(//; s/\)$//' | grep -vE '^(https?|mailto):' || true)
    [ -z "${1:-}" ] || continue
    while read -r path; do
        compgen -G "${path%/}" >/dev/null || compgen -G "$path.*" >/dev/null || {
            echo "links.sh: $document: no path $path" >&2
            status=1
        }
    done < <(grep -oE '`(src|include|tests|tools|docs|cmake)/[A-Za-z0-9_./*-]+`' "$document" | tr -d '`' | sort -u || true)
done < <(documents "$@")
exit $status
