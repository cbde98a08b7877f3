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

# shellcheck source=tests/support/cluster.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/cluster.sh"
require_etcd cluster_metrics

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

# await_some I NAME: until it is not 0.
await_some() {
    until [ "$(figure "$1" "$2")" -gt 0 ]; do sleep 0.1; done
}

# start I: server I.
start() {
    start_member "$1" --listen "resp://$scratch/r$1" --metrics 127.0.0.1:0
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
await_servers 1 2
cluster 1 create --copies 2 --force --yes >/dev/null
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
    same "whether there is $name" "$(page 1 | grep -cE "^# TYPE $name (gauge|counter)")" 1
done <"$scratch/asked"
same "a put at the primary" "$(say 1 'SET k v')" "OK "
same "a put at the copy" "$(say 2 'SET k w')" "READONLY You can't write against a read only replica. "
same "a get at the copy" "$(say 2 'GET k')" "MASTERDOWN This server is a copy, and serves reads after READONLY. "
until [ "$(say 2 READONLY 'GET k')" = "OK v " ]; do sleep 0.1; done # it is a lease behind at most
same "a put at the copy, all the same" "$(say 2 READONLY 'SET k w')" "OK READONLY You can't write against a read only replica. "
same "a get after RESET" "$(say 2 READONLY RESET 'GET k')" "OK RESET MASTERDOWN This server is a copy, and serves reads after READONLY. "
same "READONLY at the primary" "$(say 1 READONLY 'GET k' READWRITE 'SET k x')" "OK v OK OK "
kill -STOP "${servers[1]}"
await 2 copies_led 1
await 2 copies_in_sync 1
await 2 copies_wanted 2
kill -CONT "${servers[1]}"
await_some 2 copies_suspected_total
await_some 2 copies_took_over_total
await_some 1 copies_deposed_total
until [ "$(page 1 | awk '$1 == "okv_cluster_late_seconds" { print ($2 > 0.5) }')" = 1 ]; do sleep 0.1; done
same "what top shows of it" "$("$okv" -s "local://$scratch/s1" top --json -n 1 -i 1ms | jq '.deposed > 0, .late_us > 500000, .epoch > 1' | tr '\n' ' ')" "true true true "
echo "cluster_metrics: $checks checks, $failures wrong"
[ $failures -eq 0 ]
