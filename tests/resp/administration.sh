#!/usr/bin/env bash
# What administrators do by commands of Redis, on a server whose end can be seen.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/resp/administration.sh BUILD_DIR

Gives SAVE, BGSAVE, LASTSAVE, CONFIG SET and SHUTDOWN to servers of BUILD_DIR by redis-cli, and runs redis-benchmark as it
is without options. Exit status: 0 all is well, 1 something is not, 77 there is no redis-cli.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
unset OKV_TEST_DATA # each has the log that its part is about
resp=$scratch/resp.sock data=$scratch/data file=$scratch/okv.conf

if ! command -v redis-cli redis-benchmark >/dev/null; then
    echo "administration: skipped: there is no redis-cli: tests/support/packages.sh peers"
    exit $((${OKV_TEST_REQUIRE_TOOLS:-0} ? 1 : 77))
fi

cli() {
    redis-cli -s "$resp" "$@" 2>&1
}

start() {
    start_server "$socket" --listen "resp://$resp" "$@"
}

# ended WHAT: the last server has ended by itself, in order.
ended() {
    local status=0
    wait "${servers[-1]}" || status=$?
    unset 'servers[-1]'
    same "$1" $status 0
    same "$1, in the log" "$(grep -c 'SHUTDOWN: telling clients and ending' "$scratch/log")" 1
}

snapshots() {
    find "$data" -name '*snapshot*' | wc -l
}

saving() {
    local before after
    same "LASTSAVE before any" "$(cli LASTSAVE)" 0
    same "SET" "$(cli SET k v)" OK
    before=$(date +%s)
    same "SAVE" "$(cli SAVE)" OK
    same "a snapshot" "$(snapshots)" 1
    after=$(cli LASTSAVE)
    same "LASTSAVE" "$((after >= before && after <= $(date +%s)))" 1
    until [ "$(cli BGSAVE)" = "Background saving started" ]; do sleep 0.05; done # SAVE's may end just now
    until cli INFO persistence | grep -q '^rdb_saves:2'; do sleep 0.05; done
    same "INFO after BGSAVE" "$(cli INFO persistence | grep -c '^rdb_last_bgsave_status:ok')" 1
}

setting() {
    same "CONFIG SET" "$(cli CONFIG SET timeout 7 maxclients 10)" OK
    same "CONFIG GET" "$(cli CONFIG GET 'timeout' | tr '\n' ' ')" "timeout 7 "
    same "max_clients in okv stat" "$("$okv" -s "$socket" stat | sed -n 's/^max_clients //p')" 10
    same "the log" "$(grep -c 'idle-s: 100 -> 7 by .*, until SIGHUP' "$scratch/log")" 1
    same "more clients than the start had" "$(cli CONFIG SET maxclients 21 | grep -c 'restart with --max-clients')" 1
    kill -HUP "${servers[-1]}"
    until grep -q 'configuration read' "$scratch/log"; do sleep 0.05; done
    same "timeout after SIGHUP" "$(cli CONFIG GET timeout | tail -n 1)" 100
    same "maxclients after SIGHUP" "$(cli CONFIG GET maxclients | tail -n 1)" 20
}

in_memory() {
    start
    same "SET" "$(cli SET k v)" OK
    same "SAVE without a log" "$(cli SAVE | grep -c 'start okv-server with --data DIR')" 1
    same "BGSAVE without a log" "$(cli BGSAVE | grep -c 'start okv-server with --data DIR')" 1
    same "SHUTDOWN SAVE without a log" "$(cli SHUTDOWN SAVE | grep -c 'cannot be saved')" 1
    same "the items" "$(cli GET k)" v
    cli SHUTDOWN NOSAVE >"$scratch/err"
    ended "SHUTDOWN NOSAVE"
}

# The run cannot go on after an error: redis-benchmark ends with the first one. What docs/resp.md names runs to its end.
benchmark() {
    local status=0
    start
    redis-benchmark -s "$resp" -n 200 -q 2>"$scratch/err" >/dev/null || status=$?
    same "redis-benchmark" "$status $(grep -c "'LPUSH'.*(okv has no lists)" "$scratch/err")" "1 1"
    redis-benchmark -s "$resp" -n 200 -q -t ping,set,get,incr,mset >"$scratch/err" 2>&1
    same "redis-benchmark -t" "$(grep -c 'requests per second' "$scratch/err")" 6
    same "its errors" "$(grep -ciE 'error|WARNING' "$scratch/err" || true)" 0
    end_server TERM
}

printf 'max-clients = 20\nidle-s = 100\n' >"$file"
start --data "$data" --config "$file"
saving
setting
cli SHUTDOWN >"$scratch/err"
ended SHUTDOWN
start --data "$data"
same "an item after SHUTDOWN" "$(cli GET k)" v
end_server TERM
in_memory
benchmark
echo "administration: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
