#!/usr/bin/env bash
# What a cluster says of itself over HTTP, what docs/prometheus/cluster-alerts.yml asks for, and what clients of Redis
# get from a primary and from a copy.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/cluster_metrics.sh BUILD_DIR

Runs an etcd and two okv-servers of BUILD_DIR with --cluster and --metrics. Left out without etcd, which is a failure
when OKV_TEST_REQUIRE_TOOLS is 1. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"

if ! command -v etcd >/dev/null; then
    echo "cluster_metrics: left out: there is no etcd; run: tests/support/packages.sh cluster"
    [ "${OKV_TEST_REQUIRE_TOOLS:-}" = 1 ] && exit 1
    exit 77
fi

# page I: what server I says.
page() {
    local port
    port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics.*|\1|p' "$scratch/log$1" | tail -n 1)
    [ -n "$port" ] || return 0
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET /metrics HTTP/1.1\r\nHost: okv\r\nConnection: close\r\n\r\n' >&3
    tr -d '\r' <&3
    exec 3>&-
}

# figure I NAME: of the database.
figure() {
    page "$1" | awk -v name="okv_$2{database=\"default\"}" '$1 == name { print $2 }'
}

# await I NAME VALUE
await() {
    local tries=0
    until [ "$(figure "$1" "$2")" = "$3" ]; do
        tries=$((tries + 1))
        if [ $tries -gt 600 ]; then
            same "$2 of server $1" "$(figure "$1" "$2")" "$3"
            return
        fi
        sleep 0.1
    done
}

# A port that is free now.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

start_etcd() {
    local port peer
    port=$(free_port)
    peer=$(free_port)
    url=http://127.0.0.1:$port
    etcd --data-dir "$scratch/etcd" --listen-client-urls "$url" --advertise-client-urls "$url" \
        --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
        --initial-cluster "default=http://127.0.0.1:$peer" >"$scratch/etcd.log" 2>&1 &
    servers+=($!)
}

# start I: server I.
start() {
    start_server "local://$scratch/s$1" --listen "resp://$scratch/r$1" --cluster test --etcd "$url" \
        --advertise "local://$scratch/s$1" --metrics 127.0.0.1:0
    mv "$scratch/log" "$scratch/log$1"
}

# say I COMMAND...: what server I replies to a client of Redis that gives these commands, in one line.
say() {
    local socket=$scratch/r$1
    shift
    printf '%s\n' "$@" | redis-cli -s "$socket" 2>&1 | tr -s '\n' ' '
}

start_etcd
start 1
start 2
# The second one is listed once both have said what they are.
until "$okv" -s "local://$scratch/s1" cluster status 2>/dev/null | grep -q ' 2 servers'; do sleep 0.1; done
"$okv" -s "local://$scratch/s1" cluster create --copies 2 --yes >/dev/null
await 1 copies_led 1
await 1 copies_in_sync 2
await 1 copies_wanted 2
await 2 copies_led 0
await 1 copies_behind_bytes 0
await 2 copies_alarmed 0
same "whether the lease of a copy is 0" "$(figure 2 lease_left_seconds)" 0.000000000
same "whether that of a primary is up to a second" "$(figure 1 lease_left_seconds | awk '{ print ($1 > 0 && $1 <= 1) }')" 1
grep -oE 'okv_[a-z0-9_]+' "$(dirname "${BASH_SOURCE[0]}")/../../docs/prometheus/cluster-alerts.yml" | sort -u >"$scratch/asked"
while read -r name; do
    same "whether there is $name" "$(page 1 | grep -c "^# TYPE $name gauge")" 1
done <"$scratch/asked"
same "a put at the primary" "$(say 1 'SET k v')" "OK "
same "a put at the copy" "$(say 2 'SET k w')" "READONLY You can't write against a read only replica. "
same "a get at the copy" "$(say 2 'GET k')" "MASTERDOWN This server is a copy, and serves reads after READONLY. "
until [ "$(say 2 READONLY 'GET k')" = "OK v " ]; do sleep 0.1; done # it is a lease behind at most
same "a put at the copy, all the same" "$(say 2 READONLY 'SET k w')" "OK READONLY You can't write against a read only replica. "
same "a get after RESET" "$(say 2 READONLY RESET 'GET k')" "OK RESET MASTERDOWN This server is a copy, and serves reads after READONLY. "
same "READONLY at the primary" "$(say 1 READONLY 'GET k' READWRITE 'SET k x')" "OK v OK OK "
kill -9 "${servers[-1]}"
await 1 copies_in_sync 1
await 1 copies_wanted 2
echo "cluster_metrics: $checks checks, $failures wrong"
[ $failures -eq 0 ]
