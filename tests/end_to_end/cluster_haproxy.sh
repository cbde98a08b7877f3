#!/usr/bin/env bash
# A client of Redis behind HAProxy, configured as docs/proxies/haproxy.cfg has it, while the primary hands over, stands
# still and is killed.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/cluster_haproxy.sh BUILD_DIR

Runs an etcd, two okv-servers of BUILD_DIR and an haproxy. Left out without etcd or haproxy, which is a failure when
OKV_TEST_REQUIRE_TOOLS is 1. Exits 1 when something is wrong.
TEXT
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# shellcheck source=tests/support/programs.sh
. "$here/tests/support/programs.sh"
# shellcheck source=tests/support/cluster.sh
. "$here/tests/support/cluster.sh"
require_etcd cluster_haproxy
if ! command -v haproxy >/dev/null; then
    echo "cluster_haproxy: left out: there is no haproxy; run: tests/support/packages.sh cluster"
    [ "${OKV_TEST_REQUIRE_TOOLS:-}" = 1 ] && exit 1
    exit 77
fi

# say COMMAND...: what the proxy's server replies, in one line, or what redis-cli says without one.
say() {
    timeout 60 redis-cli -p "$port" "$@" 2>&1 | tr -s '\n' ' ' || true
}

# until_says REPLY COMMAND...
until_says() {
    local reply=$1
    shift
    until [ "$(say "$@")" = "$reply " ]; do sleep 0.05; done
}

# read_key [KEY]: before its first checks and soon after a hand-over HAProxy asks a copy, which refuses, or has no server.
read_key() {
    local reply
    reply=$(say GET "${1:-key}")
    while [[ ! $reply =~ ^[0-9] ]]; do reply=$(say GET "${1:-key}"); done
    echo "$reply"
}

# count_on: until there is a file `enough`. Writes how often it was acknowledged, and how often it may have been done besides.
count_on() {
    local reply sure=0 perhaps=0
    while [ ! -e "$scratch/enough" ]; do
        reply=$(say INCR counter)
        if [[ $reply =~ ^[0-9]+\ $ ]]; then
            sure=$((sure + 1))
        elif [[ ! $reply =~ ^(READONLY|MASTERDOWN|Could\ not\ connect) ]]; then
            perhaps=$((perhaps + 1))
        fi
    done
    echo "$sure $perhaps" >"$scratch/counted"
}

start_etcd
one=$(free_port) two=$(free_port) port=$(free_port)
start_member 1 --listen "resp://127.0.0.1:$one"
start_member 2 --listen "resp://127.0.0.1:$two"
await_servers 1 2
cluster 1 create --copies 2 --force --yes >/dev/null
sed -e "s/10.0.0.1:6379/127.0.0.1:$one/; s/10.0.0.2:6379/127.0.0.1:$two/; /10.0.0.3/d; s/127.0.0.1:6379/127.0.0.1:$port/" \
    "$here/docs/proxies/haproxy.cfg" >"$scratch/haproxy.cfg"
haproxy -c -f "$scratch/haproxy.cfg" >"$scratch/err" 2>&1 || same "the example" "refused" "accepted"
setpriv --pdeathsig KILL haproxy -db -f "$scratch/haproxy.cfg" >"$scratch/proxy" 2>&1 &
servers+=($!)
until_says OK SET key 1
same "a get" "$(read_key)" "1 "
count_on &
counting=$!
cluster 1 handover >/dev/null
same "what was put before, at the second" "$(read_key)" "1 "
until_says OK SET key 2
same "a get at the second" "$(read_key)" "2 "
until [ "$(cluster 2 status --json | jq '[.databases[0].copies[] | select(.in_sync)] | length')" = 2 ]; do sleep 0.1; done
kill -STOP "${servers[2]}"
until_says OK SET key 3 # this or another server, which takes over
kill -9 "${servers[2]}"
same "after the failover" "$(read_key)" "3 "
touch "$scratch/enough"
wait "$counting"
read -r sure perhaps <"$scratch/counted"
counter=$(read_key counter)
same "whether each increment was done once" "$((sure > 0 && counter >= sure && counter <= sure + perhaps))" 1
[ $failures -eq 0 ] || echo "the counter is $counter: $sure acknowledged, $perhaps perhaps" >&2
echo "cluster_haproxy: $checks checks, $failures wrong"
[ $failures -eq 0 ]
