#!/usr/bin/env bash
# Instructions of a get and of a put in client and server, as a row of the table in docs/benchmarks.md.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/figures/instructions.sh [--head] BUILD_DIR...

Counts by callgrind, over local://, and prints a row of Markdown for each build, such as build/release, with the
commit that it says it is of; --head prints the head of the table first. 16-byte keys; gets are of 200,000 items of 32
bytes, puts overwrite 20,000 of 32 bytes with 16 under way. The columns:

  get             in the client, from the call of okv_get() to its return
  get, depth 16   okv_submit() and okv_poll(), 16 under way
  get, 32         one of okv_get_many() of 32
  put, client     okv_submit() and okv_poll(), 16 under way; the least of three runs
  put, server     all that the server's process does, by the difference between many puts and few
  put, store      of that, the store alone, without messages

Gets differ from one time to the next by some in a thousand, as the server's hash has another seed; put, client and put,
server by some in a hundred, as it is a matter of time how many requests a worker, or replies a client, finds at once. It
takes about a minute for each build and needs valgrind.
TEXT
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
items=20000
few=10000 many=40000
server='' directory=''

fail() {
    echo "instructions: $*" >&2
    exit 3
}

end_server() {
    [ -n "$server" ] || return 0
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    server=''
}

# shellcheck disable=SC2317 # called by the trap
clean_up() {
    end_server
    [ -z "$directory" ] || rm -rf "$directory"
}

# start_server COMMAND...: an okv-server by this command, which may be a program that runs it.
start_server() {
    local tries=0
    : >"$directory/ready"
    "$@" --listen "local://$directory/socket" --memory 64M >"$directory/ready" 2>"$directory/log" &
    server=$!
    until grep -q '^ready ' "$directory/ready"; do
        sleep 0.1
        tries=$((tries + 1))
        if [ $tries -gt 300 ] || ! kill -0 "$server" 2>/dev/null; then
            fail "the server did not start: $(tail -n 3 "$directory/log")"
        fi
    done
}

# puts BUILD COUNT COMMAND...: kv-bench by this command overwrites items.
puts() {
    local build=$1 count=$2
    shift 2
    "$@" "$build/bench/kv-bench" -s "local://$directory/socket" --records $items --no-load --warmup 0 \
        --mix put=100 --depth 16 --operations "$count" --json "$directory/json" >"$directory/out" 2>&1 ||
        fail "kv-bench: $(tail -n 3 "$directory/out")"
}

load() {
    "$1/bench/kv-bench" -s "local://$directory/socket" --records $items --load-only >"$directory/out" 2>&1 ||
        fail "kv-bench: $(tail -n 3 "$directory/out")"
}

# sum FILE: callgrind's.
sum() {
    awk '/^summary:/ { sum = $2 } /^totals:/ { total = $2 } END { print sum ? sum : total }' "$1"
}

# server_puts BUILD COUNT: sets `lived` to the instructions of a server's whole life with so many puts.
server_puts() {
    start_server valgrind --tool=callgrind --callgrind-out-file="$directory/server" "$1/server/okv-server"
    load "$1"
    puts "$1" "$2"
    end_server
    lived=$(sum "$directory/server")
}

# The least of three: polls that find nothing are a matter of time.
count_client() {
    local build=$1 try one
    start_server "$build/server/okv-server"
    load "$build"
    for try in 1 2 3; do
        puts "$build" $few valgrind --tool=callgrind --callgrind-out-file="$directory/client" --collect-atstart=no \
            --toggle-collect=okv_submit --toggle-collect=okv_poll
        one=$(($(sum "$directory/client") / few))
        [ $try -gt 1 ] && [ "$put_client" -le $one ] || put_client=$one
    done
    end_server
}

count_puts() {
    local build=$1 with_few
    count_client "$build"
    server_puts "$build" $few
    with_few=$lived
    server_puts "$build" $many
    put_server=$(((lived - with_few) / (many - few)))
    valgrind --tool=callgrind --callgrind-out-file="$directory/store" --collect-atstart=no \
        --toggle-collect=put_all "$build/tests/put_cost" --items $items --puts $few >"$directory/out" 2>&1 ||
        fail "put_cost: $(tail -n 3 "$directory/out")"
    put_store=$(($(sum "$directory/store") / few))
}

row() {
    local build=$1 gets commit
    gets=$("$here/get_instructions.sh" "$build" | awk '{ printf "%s%d", (NR > 1 ? " | " : ""), $2 }')
    count_puts "$build"
    commit=$(sed -n 's/^ *"git": "\([0-9a-f]*\).*/\1/p' "$directory/json")
    echo "| ${commit:-unknown} | $gets | $put_client | $put_server | $put_store |"
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
    --head)
        shift
        echo '| commit | get | get, depth 16 | get, 32 | put, client | put, server | put, store |'
        echo '|---|---|---|---|---|---|---|'
        ;;
esac
case ${1:-} in
    '' | -*) usage >&2; exit 2 ;;
esac
command -v valgrind >/dev/null || fail "valgrind is not installed"
directory=$(mktemp -d)
trap clean_up EXIT
for build in "$@"; do
    [ -x "$build/tests/put_cost" ] || fail "$build has no tests/put_cost: give a directory that okv was built in"
    row "$build"
done
