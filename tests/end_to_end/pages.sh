#!/usr/bin/env bash
# Where the table's memory comes from: pages with use, all of them at the start, and huge ones.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/pages.sh BUILD_DIR

Starts the okv-server of BUILD_DIR with each kind of pages and looks at how the kernel has mapped the table, in the
server and in a client that reads it over shared memory. Leaves out, and says so, what the kernel does not have.
Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
memory_kib=$((64 * 1024))
failures=0

wrong() {
    failures=$((failures + 1))
    echo "WRONG $*"
}

# mapped PID FIELD: KiB of the table that the process has mapped so, of a field of its smaps; a process without a
# table has none.
mapped() {
    awk -v field="$2:" '
        /^[0-9a-f]+-[0-9a-f]+ / { table = /okv-region/ }
        table && $1 == field { sum += $2 }
        END { print sum + 0 }' "/proc/$1/smaps"
}

expect() {
    [ "$2" -eq "$3" ] || wrong "$1: $2 KiB, not $3"
}

# The table works, whatever it lies on.
use() {
    "$okv" -s "$socket" put key value
    [ "$("$okv" -s "$socket" get key)" = value ] || wrong "$1: another value"
}

stop_server() {
    kill "${servers[-1]}"
    wait "${servers[-1]}" || wrong "the server ended with $?"
    unset 'servers[-1]'
}

with_use() {
    start_server "$socket" --memory 64M
    use "pages with use"
    [ "$(mapped "${servers[-1]}" Rss)" -lt $((memory_kib / 2)) ] || wrong "pages with use: half of them are there"
    stop_server
}

prefault() {
    start_server "$socket" --memory 64M --prefault
    expect "--prefault" "$(mapped "${servers[-1]}" Rss)" $memory_kib
    use "--prefault"
    stop_server
}

# A client that reads the table has mapped huge pages, too: it shows while it runs.
client_maps_huge_pages() {
    local client huge=0
    "$bench" -s "$socket" --records 100000 --mix get=100 --warmup 0 --seconds 2 --rounds 1 >/dev/null 2>&1 &
    client=$!
    while kill -0 $client 2>/dev/null && [ "$huge" -lt 4096 ]; do
        huge=$(mapped $client ShmemPmdMapped 2>/dev/null || true)
        sleep 0.01
    done
    wait $client || wrong "--huge=transparent: kv-bench ended with $?"
    [ "$huge" -ge 4096 ] || wrong "--huge=transparent: a client has mapped $huge KiB of huge pages"
}

# A server without the pages says so, and what there is to do.
transparent() {
    "$server" --listen "$socket" --memory 64M --huge=transparent >"$scratch/ready" 2>"$scratch/log" &
    servers+=($!)
    until grep -q '^ready ' "$scratch/ready" || ! kill -0 "${servers[-1]}" 2>/dev/null; do sleep 0.05; done
    if ! grep -q '^ready ' "$scratch/ready"; then
        unset 'servers[-1]'
        grep -q 'huge=transparent: the kernel made .* reserve pages' "$scratch/log" ||
            wrong "no sentence: $(cat "$scratch/log")"
        echo "left out: huge pages of this kernel's making: $(cat "$scratch/log")"
        return
    fi
    expect "--huge=transparent" "$(mapped "${servers[-1]}" ShmemPmdMapped)" $memory_kib
    use "--huge=transparent"
    client_maps_huge_pages
    stop_server
}

with_use
prefault
transparent
echo "pages: $failures wrong"
[ $failures -eq 0 ]
