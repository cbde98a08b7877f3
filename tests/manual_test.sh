#!/usr/bin/env bash
# The manual: each page can be shown, and each function of the library has one.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/manual_test.sh BUILD_DIR

Looks at the pages of docs/man and at those that BUILD_DIR has made of the headers. Prints what is wrong, and exits 1
when something is. Without groff it is skipped, or fails when OKV_TEST_REQUIRE_TOOLS is 1.
TEXT
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
    '' | -*) usage >&2; exit 2 ;;
esac
build=$(cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v groff >/dev/null || {
    echo "manual_test: groff is missing; run: tests/support/packages.sh test"
    [ "${OKV_TEST_REQUIRE_TOOLS:-}" = 1 ] && exit 1
    exit 77
}
scratch=$(mktemp -d /tmp/okv-test.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
generated=$build/docs/man/man3
failures=0

wrong() {
    failures=$((failures + 1))
    echo "WRONG $*"
}

# ---- every page can be shown ----
pages=()
for page in docs/man/*.[1-9] "$generated"/*.3; do
    link=$(sed -n '1s/^\.so //p' "$page")
    if [ -n "$link" ]; then
        [ -s "$generated/../$link" ] || wrong "$page leads to $link, which is not there"
        continue
    fi
    pages+=("$page")
    warnings=$(groff -K utf8 -man -ww -z -Tutf8 "$page" 2>&1)
    [ -z "$warnings" ] || wrong "$page: $warnings"
    for section in NAME SYNOPSIS DESCRIPTION 'SEE ALSO'; do
        grep -qx "\.SH $section" "$page" || wrong "$page has no $section"
    done
    ! grep -q 'GCC' "$page" || wrong "$page has a comment on the source"
    ! grep -A1 -x '\.RE' "$page" | grep -q '^[^.-]' || wrong "$page has no blank line behind an example"
done

# ---- every function of the library has one ----
for name in $(sed -n '/global:/,/local:/p' client/okv.map | grep -oE '\bokv_[a-z_]+') okv okv_info okv_counters; do
    [ -s "$generated/$name.3" ] || wrong "$name(3): there is no page"
done

# ---- what a page refers to is there ----
for reference in $(sed -nE '/^\.SH SEE ALSO/,$s/^\.BR (\S+) \((.)\),?$/\1.\2/p' "${pages[@]}" | tr -d "\\\\" | sort -u); do
    case $reference in
        okv* | kv-bench*) [ -e "docs/man/$reference" ] || [ -e "$generated/$reference" ] ||
            wrong "SEE ALSO has $reference, which is not there" ;;
    esac
done
# ---- every option of a URI ----
# compare WHAT PAGE: what the program has, of standard input, is what the page explains, of file descriptor 3.
compare() {
    sort -u >"$scratch/names"
    [ -s "$scratch/names" ] || wrong "found no $1 of the program"
    diff "$scratch/names" <(sort -u <&3) >"$scratch/difference" ||
        wrong "$2 and the program do not have the same $1: $(grep '^[<>]' "$scratch/difference" | tr '\n' ' ')"
}
page=docs/man/okv-uri.7
compare options $page < <(grep -ohE '((has_key\(pair, |^ +\{)"[a-z-]+"|^#define TRANSPORT "[a-z]+)' shared/base/uri_query.c \
    shared/base/uri_list.c | cut -d '"' -f 2) \
    3< <(sed -nE 's/\\-/-/; s/^\.BI? ([a-z-]+)=.*/\1/p' $page)
compare schemes $page < <(sed -nE 's/^#define ((RDMA|OFI|TCPS?|LOCAL|RESPS?)_)?PREFIX "(.*)"/\3/p' shared/base/uri.c \
    shared/base/uri_list.c) \
    3< <(sed -nE 's/^\.SS ([a-z]+:\/\/)$/\1/p' $page)
# ---- the options of the programs are those of their tables ----
differences=$(docs/man/fill_options "$build" --check) || wrong "$differences"

# ---- every long option of a command's help ----
# explained PAGE PROGRAM [COMMAND]
explained() {
    local option
    local -a options
    sed 's/\\f[BIR]//g; s/\\//g' "$1" >"$scratch/page"
    mapfile -t options < <("${@:2}" --help | sed -nE 's/^ {2,6}(-., )?(--[a-z-]+).*/\2/p')
    [ ${#options[@]} -gt 0 ] || wrong "found no options of ${*:2}"
    for option in "${options[@]}"; do
        grep -qE -- "$option([^a-z-]|$)" "$scratch/page" || wrong "$1 lacks $option of ${*:2}"
    done
}
commands=$("$build/client/cli/okv" --help | sed -n '/^Commands:$/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ -n "$commands" ] || wrong "found no commands of okv"
for command in $commands; do
    explained docs/man/okv.1 "$build/client/cli/okv" "$command"
done

echo "manual_test: ${#pages[@]} pages, $failures wrong"
[ $failures -eq 0 ]
