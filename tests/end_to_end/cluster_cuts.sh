#!/usr/bin/env bash
# A cluster of three hosts whose network is cut in parts, in both directions and in one: what docs/copies.md section 7
# says of each, under recorded clients; see --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/cluster_cuts.sh BUILD_DIR

Runs an okv-server of BUILD_DIR on each of three hosts (network namespaces), etcd on a fourth and clients on a fifth. Cuts
connections of the primary with nftables, and kills etcd and the primary. One order of the clients' operations must explain
all that they saw. Needs root, network namespaces, nftables and etcd: ends with 77 and a reason without.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
# shellcheck source=tests/support/cluster.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/cluster.sh"
# shellcheck source=tests/support/hosts.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts.sh"
require_etcd cluster_cuts
if ! command -v nft >/dev/null; then
    echo "cluster_cuts: left out: there is no nft; run: tests/support/packages.sh cluster"
    [ "${OKV_TEST_REQUIRE_TOOLS:-}" = 1 ] && exit 1
    exit 77
fi
begin_hosts
ETCD=4 CLIENTS=5
for host in 1 2 3 $ETCD $CLIENTS; do add_host "$host"; done

# ---- what runs ----

# begin N COMMAND...: in the background at host N, without the pipe to the clients.
begin() {
    local host=$1
    shift
    ([ -z "${to_clients:-}" ] || exec {to_clients}>&-
        exec setpriv --pdeathsig KILL ip netns exec "$prefix-$host" "$@") &
    servers+=($!)
}

# run_etcd: with the data that it had.
run_etcd() {
    begin $ETCD etcd --data-dir "$scratch/etcd" \
        --listen-client-urls "http://10.0.0.$ETCD:2379" --advertise-client-urls "http://10.0.0.$ETCD:2379" \
        --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 \
        --initial-cluster default=http://127.0.0.1:2380 >>"$scratch/etcd.log" 2>&1
    etcd=$!
}

declare -A pids=()
# run_server N: in memory, at its host.
run_server() {
    local host=$1
    : >"$scratch/ready$host"
    begin "$host" unshare --uts bash -c "
        hostname host$host
        exec '$server' --listen tcp://10.0.0.$host --open --memory 32M --cluster test --etcd http://10.0.0.$ETCD:2379 \
            --advertise tcp://10.0.0.$host" >"$scratch/ready$host" 2>>"$scratch/log$host"
    pids[$host]=$!
    until grep -q '^ready ' "$scratch/ready$host"; do sleep 0.1; done
}

# status N: what server N, which the clients reach, says of the cluster. Nothing where it does not answer.
status() {
    at $CLIENTS timeout 60 "$okv" -s "tcp://10.0.0.$1" cluster status --json 2>/dev/null || true
}

# leads N: whether server N says so.
leads() {
    local id
    id=$(status "$1" | jq -r 'select(.databases[0].leads) | .server')
    [ -n "$id" ]
}

# find_leader [BUT]: sets `leader`, to another server than BUT.
find_leader() {
    while true; do
        for leader in 1 2 3; do
            [ "$leader" != "${1:-}" ] && leads "$leader" && return
        done
        sleep 0.1
    done
}

# until_follows N: until server N, which led, knows better.
until_follows() {
    while leads "$1"; do sleep 0.1; done
}

# in_sync N: the copies in sync, if server N leads.
in_sync() {
    status "$1" | jq 'select(.databases[0].leads) | [.databases[0].copies[] | select(.in_sync)] | length'
}

# until_some_left: a server leads without all of the others.
until_some_left() {
    local count
    while true; do
        for leader in 1 2 3; do
            count=$(in_sync $leader)
            [ -n "$count" ] && [ "$count" -lt 3 ] && return
        done
        sleep 0.1
    done
}

# progress: the clients go on.
progress() {
    local count
    count=$(grep -c '^progress' "$scratch/clients" || true)
    echo >&"$to_clients"
    until [ "$(grep -c '^progress' "$scratch/clients")" -gt "$count" ]; do
        kill -0 "$clients" || { cat "$scratch/clients" "$scratch"/log?; exit 1; }
        sleep 0.1
    done
}

# ---- cuts ----

# cut N WORD...: drops packets of host N: to HOST, or from HOST.
cut() {
    local host=$1 direction
    shift
    at "$host" nft add table ip cuts
    at "$host" nft 'add chain ip cuts out { type filter hook output priority 0; }'
    at "$host" nft 'add chain ip cuts in { type filter hook input priority 0; }'
    while [ $# -gt 0 ]; do
        direction=$1
        if [ "$direction" = to ]; then at "$host" nft add rule ip cuts out ip daddr "10.0.0.$2" drop; fi
        if [ "$direction" = from ]; then at "$host" nft add rule ip cuts in ip saddr "10.0.0.$2" drop; fi
        shift 2
    done
}

heal() {
    at "$1" nft delete table ip cuts
}

# settle: all three are in sync. Sets `leader`, `one` and `two`.
settle() {
    find_leader
    until [ "$(in_sync "$leader")" = 3 ]; do
        sleep 0.1
        find_leader
    done
    one=$((leader % 3 + 1))
    two=$((one % 3 + 1))
}

cut_from_copies() {
    local before=$leader
    cut "$leader" to $one from $one to $two from $two
    until_some_left
    progress
    heal "$before"
}

# One copy hears the primary no more, and the primary does not hear the other one.
cut_one_way() {
    local before=$leader
    cut "$leader" to $one from $two
    until_some_left
    progress
    heal "$before"
}

cut_from_etcd() {
    cut "$leader" to $ETCD from $ETCD
    progress
    sleep 3
    progress
    heal "$leader"
}

cut_from_all_but_clients() {
    local before=$leader
    cut "$leader" to $one from $one to $two from $two to $ETCD from $ETCD
    find_leader "$before"
    progress
    heal "$before"
    until_follows "$before"
}

# Nobody but the clients notices: the operator hands over.
cut_from_clients() {
    local before=$leader
    cut "$leader" to $CLIENTS from $CLIENTS
    sleep 3
    until leads $one; do
        at $one "$okv" -s "tcp://10.0.0.$one" cluster handover --to "tcp://10.0.0.$one" >"$scratch/handover" 2>&1 || true
    done
    progress
    heal "$before"
    until_follows "$before"
}

lose_etcd() {
    kill -9 "$etcd"
    wait "$etcd" 2>/dev/null || true
    progress
    sleep 3
    progress
    same "whether the primary leads without etcd" "$(leads "$leader" && echo yes)" yes
    run_etcd
}

lose_primary_and_etcd() {
    local before=$leader
    kill -9 "$etcd" "${pids[$leader]}"
    wait "$etcd" 2>/dev/null || true
    run_etcd
    find_leader "$before"
    progress
    run_server "$before"
}

run_etcd
for host in 1 2 3; do run_server $host; done
until [ "$(status 1 | jq '.servers | length')" = 3 ]; do sleep 0.1; done
at $CLIENTS "$okv" -s tcp://10.0.0.1 cluster create --copies 3 --yes >"$scratch/create" 2>&1
settle
start_clients $CLIENTS cluster_history_live okv://10.0.0.1,10.0.0.2,10.0.0.3/test "the clients run"
for event in cut_from_copies cut_one_way cut_from_etcd cut_from_all_but_clients cut_from_clients \
    lose_etcd lose_primary_and_etcd; do
    echo "$event"
    $event
    settle
done
end_clients
[ $failures -eq 0 ] || cat "$scratch"/log?
grep 'operations' "$scratch/clients" || true
echo "cluster_cuts: $checks checks, $failures wrong"
[ $failures -eq 0 ]
