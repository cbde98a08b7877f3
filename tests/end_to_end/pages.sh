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

# all NAME KIB: the whole table, but for what the kernel may have taken to its swap space.
all() {
    [ "$2" -ge $((memory_kib * 99 / 100)) ] || wrong "$1: $2 of $memory_kib KiB"
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

# starts NAME SENTENCE OPTION...: a server with the option. False: the kernel does not have what it takes, and the
# server said so by the sentence.
starts() {
    local name=$1 sentence=$2
    shift 2
    try_server "$socket" --memory 64M "$@" && return
    grep -q "$sentence" "$scratch/log" || wrong "$name: no sentence: $(cat "$scratch/log")"
    echo "left out: $name: $(cat "$scratch/log")"
    return 1
}

with_use() {
    start_server "$socket" --memory 64M
    use "pages with use"
    [ "$(mapped "${servers[-1]}" Rss)" -lt $((memory_kib / 2)) ] || wrong "pages with use: half of them are there"
    stop_server
}

prefault() {
    starts "--prefault" 'takes Linux 5.14' --prefault || return 0
    all "--prefault" "$(mapped "${servers[-1]}" Rss)"
    use "--prefault"
    stop_server
}

# A client that reads the table has mapped huge pages, too: it shows while it runs.
client_maps_huge_pages() {
    local client huge=0 tries=0
    "$bench" -s "$socket" --records 100000 --mix get=100 --warmup 0 --seconds 600 --rounds 1 >/dev/null 2>&1 &
    client=$!
    while [ "${huge:-0}" -lt 4096 ] && [ $tries -lt 2400 ] && kill -0 $client 2>/dev/null; do
        huge=$(mapped $client ShmemPmdMapped 2>/dev/null || true)
        tries=$((tries + 1))
        sleep 0.05
    done
    kill $client 2>/dev/null || true
    wait $client 2>/dev/null || true
    [ "${huge:-0}" -ge 4096 ] || wrong "--huge=transparent: a client has mapped ${huge:-0} KiB of huge pages"
}

transparent() {
    starts "--huge=transparent" 'huge=transparent: the kernel made .* reserve pages' --huge=transparent || return 0
    all "--huge=transparent" "$(mapped "${servers[-1]}" ShmemPmdMapped)"
    use "--huge=transparent"
    client_maps_huge_pages
    stop_server
}

with_use
prefault
transparent
echo "pages: $failures wrong"
[ $failures -eq 0 ]
