#!/usr/bin/env bash
# What connections take of a server's memory besides the region.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/figures/connection_memory.sh BUILD_DIR URI [CLIENTS]

Starts the okv-server of a build, such as build/release, at the URI and connects CLIENTS (64) to it, once idle and once
while each puts and gets. Prints the resident memory of the server that is not shared with clients, from /proc: the
region, and over local:// the rings of each client, are shared and not in it.
TEXT
}

# private_kib PID: resident, but for what is shared memory.
private_kib() {
    awk '/^(RssAnon|RssFile):/ { sum += $2 } END { print sum }' "/proc/$1/status"
}

# shellcheck disable=SC2317 # called by the trap
clean_up() {
    [ -z "$bench" ] || kill "$bench" 2>/dev/null || true
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    wait
    rm -rf "$directory"
}

if [ "${1-}" = --help ]; then
    usage
    exit 0
elif [ $# -lt 2 ] || [ $# -gt 3 ]; then
    usage >&2
    exit 2
fi
build=$1 uri=$2 clients=${3:-64} server='' bench=''
directory=$(mktemp -d)
trap clean_up EXIT

"$build/server/okv-server" --listen "$uri" --open --memory 64M --max-clients $((clients + 8)) --max-clients-per-address 0 \
    >"$directory/ready" 2>"$directory/log" &
server=$!
until grep -q '^ready ' "$directory/ready"; do
    kill -0 "$server" 2>/dev/null || { cat "$directory/log" >&2; exit 3; }
    sleep 0.2
done
none=$(private_kib "$server")

# sessions: clients that are connected.
sessions() {
    "$build/client/cli/okv" -s "$uri" stat | awk '$1 == "sessions" { print $2 - 1 }'
}

# with_clients NAME OPTION...: a line of figures while they are connected.
with_clients() {
    local name=$1 kib
    shift
    "$build/bench/kv-bench" -s "$uri" --records 1K --connections "$clients" --warmup 0 --seconds 3600 "$@" \
        >"$directory/bench" 2>&1 &
    bench=$!
    until [ "$(sessions)" -ge "$clients" ]; do
        kill -0 "$bench" 2>/dev/null || { cat "$directory/bench" >&2; exit 3; }
        sleep 0.5
    done
    sleep 5
    kib=$(private_kib "$server")
    echo "$clients clients, $name: $kib KiB, $(((kib - none) / clients)) KiB for each"
    kill "$bench"
    wait "$bench" 2>/dev/null || true
    bench=''
}

echo "no client: $none KiB"
with_clients idle --no-load --mix get=100 --rate 1
with_clients busy --mix get=50,put=50
