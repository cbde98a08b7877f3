#!/usr/bin/env bash
# A filled table holds as many items as the formula of docs/capacity.md says.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/capacity.sh BUILD_DIR

Takes the function `memory` from docs/capacity.md. Fills a server of 64 MiB with items of several sizes, until they take
more READs than quick gets do, and until a put is refused. Exits 1 when a count differs from that of the formula by more
than a tenth.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
page=$(dirname "${BASH_SOURCE[0]}")/../../docs/capacity.md
mebibytes=64 tolerance=10 quick_reads=40 failures=0
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

is_near() {
    [ $(($1 * 100)) -ge $(($2 * (100 - tolerance))) ] && [ $(($1 * 100)) -le $(($2 * (100 + tolerance))) ]
}

# fill RECORDS KEY VALUE: these, or as many as there is room for. kv-bench refuses what cannot fit at all.
fill() {
    "$bench" -s "$socket" --records "$1" --key-size "$2" --value-size "$3" --load-only --depth 16 >"$scratch/out" 2>&1 ||
        grep -q 'no room for this item' "$scratch/out" || { wrong "a fill failed:" && cat "$scratch/out"; }
}

# reads RECORDS KEY VALUE: the extra READs of 1000 gets then.
reads() {
    fill "$@"
    figure extra_reads_per_1000
}

# check KEY VALUE BUCKET: as many items fit as the formula says.
check() {
    local words quick least count less more
    read -ra words < <(memory 1000000 "$@") # MB for a million are bytes for one
    quick=$((mebibytes * 1048576 / words[0])) least=$((mebibytes * 1048576 / words[5]))
    start_server "$socket" --memory ${mebibytes}M --bucket-size "$3"
    if [ $quick -ne $least ]; then
        less=$(reads $((quick * (100 - tolerance) / 100)) "$1" "$2")
        more=$(reads $((quick * (100 + tolerance) / 100)) "$1" "$2")
        if [ "$less" -gt $quick_reads ] || [ "$more" -le $quick_reads ]; then
            wrong "$*: the formula says $quick quick items, and $tolerance % less have $less extra READs, more $more"
        fi
    fi
    fill $(($(figure region_bytes) / ($1 + $2))) "$1" "$2"
    count=$(figure items)
    echo "$1 + $2 bytes, buckets of $3: $quick quick; $least fit: $count did"
    is_near "$count" "$least" || wrong "$*: the formula says $least items, and there is room for $count"
    end_server TERM
}

check 16 32 512
check 24 100 512
check 24 100 1024
check 32 300 512
check 32 1024 512
check 16 9000 512
check 32 20000 512
[ $failures -eq 0 ]
