#!/usr/bin/env bash
# A filled table holds as many items as the formula of docs/capacity.md says.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/capacity.sh BUILD_DIR

Takes the function `memory` from docs/capacity.md. Fills servers of some 64 MiB with items of several sizes, until they
take more READs than quick gets do, and until a put is refused. Exits 1 when fewer items than the formula says are quick
or fit, or more than 15 % more.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
page=$(dirname "${BASH_SOURCE[0]}")/../../docs/capacity.md
mebibytes=64 tolerance=15 quick_reads=40 failures=0
sed -n '/^memory() {$/,/^}$/p' "$page" >"$scratch/formula"
# shellcheck source=/dev/null
. "$scratch/formula"

wrong() {
    failures=$((failures + 1))
    echo "WRONG $*"
}

figure() {
    "$okv" -s "$socket" stat | awk -v name="$1" '$1 == name { print $2 }'
}

# fill RECORDS KEY VALUE: these, or as many as there is room for. kv-bench refuses what cannot fit: a fifth more than the
# formula says.
fill() {
    "$bench" -s "$socket" --records "$1" --key-size "$2" --value-size "$3" --load-only --depth 16 >"$scratch/out" 2>&1 ||
        grep -q 'no room for this item' "$scratch/out" || { wrong "a fill failed:" && cat "$scratch/out"; }
}

# reads RECORDS KEY VALUE: the extra READs of 1000 gets then.
reads() {
    fill "$@"
    figure extra_reads_per_1000
}

# size WORD ITEMS KEY VALUE BUCKET: what the formula says, 1 for quick gets, 5 at least.
size() {
    memory "${@:2}" | cut -d ' ' -f "$1"
}

# items WORD KEY VALUE BUCKET: for how many it says some $mebibytes MiB.
items() {
    local million
    million=$(size "$1" 1000000 "${@:2}")
    echo $((mebibytes * 1000000 / ${million%M}))
}

# check_quick KEY VALUE BUCKET: the items of the formula are quick in its size, and many more are not.
check_quick() {
    local items size less more
    items=$(items 1 "$@") size=$(size 1 "$(items 1 "$@")" "$@")
    start_server "$socket" --memory "$size" --bucket-size "$3"
    less=$(reads "$items" "$1" "$2")
    more=$(reads $((items * (100 + tolerance) / 100)) "$1" "$2")
    end_server TERM
    echo "$1 + $2 bytes, buckets of $3: $items items in $size have $less extra READs, $tolerance % more have $more"
    [ "$less" -le $quick_reads ] || wrong "$*: these are more than $quick_reads"
    [ "$more" -gt $quick_reads ] || wrong "$*: $size are too much"
}

# check_least KEY VALUE BUCKET: the items of the formula fit in its size, and not many more.
check_least() {
    local items size count many all
    items=$(items 5 "$@") size=$(size 5 "$(items 5 "$@")" "$@")
    start_server "$socket" --memory "$size" --bucket-size "$3"
    many=$((items * (103 + tolerance) / 100)) all=$(($(figure region_bytes) / ($1 + $2)))
    fill $((many < all ? many : all)) "$1" "$2"
    count=$(figure items)
    end_server TERM
    echo "$1 + $2 bytes, buckets of $3: $size are for $items items: $count fit"
    [ "$count" -ge "$items" ] || wrong "$*: fewer fit"
    [ $((count * 100)) -le $((items * (100 + tolerance))) ] || wrong "$*: $size are too much"
}

for spec in '16 32 512' '24 100 512' '24 100 1024' '24 120 512' '32 200 1024'; do
    # shellcheck disable=SC2086 # words
    check_quick $spec
done
for spec in '16 32 512' '16 60 512' '24 100 512' '24 100 1024' '24 120 512' '32 200 1024' '32 300 512' '32 1024 512' '16 9000 512' \
    '32 20000 512'; do
    # shellcheck disable=SC2086 # words
    check_least $spec
done
[ $failures -eq 0 ]
