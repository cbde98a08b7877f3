#!/usr/bin/env bash
# Servers that announce themselves, and clients that look for them.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/discover.sh BUILD_DIR

Runs the programs of BUILD_DIR: servers over shared memory and TCP, which are found by UDP on the loopback interface, or in the
QEMU guest (OKV_GUEST_ADDR is set) servers over RDMA, which are found by UD queue pairs. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
group=239.$((192 + RANDOM % 60)).$((RANDOM % 256)).$((RANDOM % 256))
# A list takes all of its time. Where something is missing a slow machine gets more, until no machine is that slow.
searches=(2000ms 4000ms 8000ms 16000ms 32000ms 60000ms)
failures=0 checks=0

# wrong WHAT: what was expected did not happen; shows what the last command printed.
wrong() {
    failures=$((failures + 1))
    printf 'WRONG %s\n' "$1"
    cat "$scratch/out" "$scratch/err"
}

# same WHAT A B: the two are equal.
same() {
    checks=$((checks + 1))
    [ "$2" = "$3" ] || wrong "$1: $2 and not $3"
}

# ended_so STATUS EXPECTED TEXT: the last command ended with this status, and printed this.
ended_so() {
    [ "$1" -eq "$2" ] && { [ -z "$3" ] || grep -qF -- "$3" "$scratch/out" "$scratch/err"; }
}

# says STATUS TEXT COMMAND...: the command ends so and prints a line with this text.
says() {
    local expected=$1 text=$2 status=0
    shift 2
    checks=$((checks + 1))
    timeout 120 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
    ended_so $status "$expected" "$text" && return
    wrong "$*: status $status, expected $expected and: $text"
}

# comes STATUS TEXT COMMAND...: the same, if need be after some attempts: a slow machine answers late, and searches end
# after a second.
comes() {
    local expected=$1 text=$2 status tries=0
    shift 2
    checks=$((checks + 1))
    while [ $tries -lt 20 ]; do
        status=0
        timeout 120 "$@" -t 60s >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
        ended_so $status "$expected" "$text" && return
        tries=$((tries + 1))
    done
    wrong "$*: status $status, expected $expected and: $text"
}

# lists WHAT EXPECTED FILTER [ARGUMENT...]: jq makes this of the list of servers, which stays in $scratch/list.
lists() {
    local what=$1 expected=$2 filter=$3 got='' time
    shift 3
    checks=$((checks + 1))
    for time in "${searches[@]}"; do
        "$okv" discover --group "$group" "$@" --json -t "$time" >"$scratch/list" 2>"$scratch/err" || true
        got=$(jq -r "$filter" "$scratch/list" 2>>"$scratch/err") || true # of an empty list
        [ "$got" != "$expected" ] || return 0
    done
    wrong "$what: $got and not $expected"
}

# shows TEXT: the list for people has it.
shows() {
    local time
    checks=$((checks + 1))
    for time in "${searches[@]}"; do
        "$okv" discover --group "$group" -t "$time" >"$scratch/out" 2>"$scratch/err" &&
            grep -qF -- "$1" "$scratch/out" && return
    done
    wrong "the list of servers does not say $1"
}

wrong_options() {
    says 2 'from 224.0.1.0 to' "$server" --announce=224.0.0.1
    says 2 'from 224.0.1.0 to' "$server" --announce=fd00::1
    says 2 'it needs --announce' "$server" --name cache
    says 2 'at most 60s' "$okv" discover -t 61s
    says 2 '1 to 31 letters' "$server" --announce --name 'a b'
    says 2 '1 to 31 letters' "$server" --announce --name ..
    says 2 '1 to 31 letters' "$server" --announce --name 01234567890123456789012345678901
    says 2 'this is for clients' "$server" --listen rdma://discover/cache
    says 2 'from 224.0.1.0 to' "$okv" discover --group 10.0.0.1
    says 2 'unexpected argument' "$okv" discover cache
    says 2 'not the name of a server' "$okv" -s rdma://discover/ ping
    says 2 'is not a group' "$okv" -s 'rdma://discover/cache?group=10.0.0.1' ping
    says 3 'no interface to look for servers on' "$okv" discover --source 203.0.113.77
    says 1 "no server answered in the group $group" "$okv" discover --group "$group" -t 200ms
}

# Local servers: two names, then one name twice.
by_udp() {
    local first=local://$scratch/a.sock second=local://$scratch/b.sock
    start_server "$first" --announce="$group" --name alpha
    start_server "$second" --announce="$group"
    seq 1 123 | sed 's/$/\tvalue/' | "$okv" -s "$first" import >/dev/null
    lists 'servers by name' 'alpha okv' 'map(.name) | join(" ")'
    same 'their URIs' "$(jq -r 'map(.uris | join(",")) | join(" ")' "$scratch/list")" "$first $second"
    same 'items, roughly' "$(jq '.[0].items' "$scratch/list")" 120
    same 'boot id' "$(jq -r '.[0].boot_id' "$scratch/list")" \
        "$("$okv" -s "$first" stat | sed -n 's/^boot_id //p')"
    same 'version' "okv $(jq -r '.[0].version' "$scratch/list")" "$("$okv" --version | head -n 1)"
    shows "alpha $("$okv" --version | head -n 1 | cut -d ' ' -f 2) boot_id"
    says 1 'no server answered' "$okv" discover --group 239.192.1.1 -t 200ms

    kill -KILL "${servers[1]}"
    wait "${servers[1]}" 2>/dev/null || true
    lists 'after the end of one' alpha 'map(.name) | join(" ")'
    start_server "$second" --announce="$group" --name alpha
    lists 'two of one name' 'alpha alpha' 'map(.name) | join(" ")'
    same 'have two boot ids' "$(jq 'map(.boot_id) | unique | length' "$scratch/list")" 2
}

# Servers over TCP beside the local ones of by_udp(): a name is one of its kind alone.
by_tcp() {
    local host=127.$((1 + RANDOM % 254)).$((RANDOM % 256)).$((1 + RANDOM % 254)) first
    local cache="tcp://discover/cache?group=$group"
    says 3 'called alpha announces no tcp address' "$okv" -s "tcp://discover/alpha?group=$group" ping
    start_server "local://$scratch/c.sock" --announce="$group" --name cache
    start_server "tcp://$host:7471" --announce="$group" --name cache
    first=${servers[-1]}
    comes 0 '' "$okv" -s "$cache" put greeting hello
    comes 0 hello "$okv" -s "tcp://$host" get greeting
    says 3 'called cache announces no tcps address' "$okv" -s "tcps://discover/cache?group=$group" ping
    says 3 'no server called other answered' "$okv" -s "tcp://discover/other?group=$group" ping
    says 3 'as in tcp://10.0.0.1' "$okv" -s "tcp://discover/other?group=$group" ping

    start_server "tcp://$host:7470" --announce="$group" --name cache
    comes 3 '2 servers are called cache' "$okv" -s "$cache" get greeting
    same 'the sentence names both' "$(grep -oE 'tcp://[.0-9]*:747[01] ' "$scratch/err" | sort | tr -d '\n')" \
        "tcp://$host:7470 tcp://$host:7471 "
    # The name is the second one's alone now, which has no item.
    kill -KILL "$first"
    wait "$first" 2>/dev/null || true
    comes 1 '' "$okv" -s "$cache" get greeting
}

# RDMA servers; with two devices the client is on the other one.
by_ud() {
    local source='' first=rdma://$OKV_GUEST_ADDR:7471 second=rdma://$OKV_GUEST_ADDR:7472
    [ "$OKV_GUEST_NET" != veth ] || source="&source=${OKV_GUEST_ADDR2:?}"
    local cache="rdma://discover/cache?group=$group$source"
    start_server "$first" --announce="$group" --name cache --listen "local://$scratch/a.sock"
    lists 'its URIs, by UD and UDP' "local://$scratch/a.sock $first" '.[0].uris | sort | join(" ")'
    same 'one server' "$(jq -r 'map(.name) | join(" ")' "$scratch/list")" cache
    # By UD alone: what is said there does not name the socket.
    lists 'its URI, by UD' "$first" '.[0].uris | join(" ")' --source "$OKV_GUEST_ADDR"

    comes 0 '' "$okv" -s "$cache" put greeting hello
    comes 0 hello "$okv" -s "$cache" get greeting
    says 3 'no server called other answered' "$okv" -s "rdma://discover/other?group=$group$source" get greeting
    says 3 'no server called cache answered in the group 239.255.74.71' "$okv" -s rdma://discover/cache ping
    says 3 'no interface to look for servers on' "$okv" -s "rdma://discover/cache?source=203.0.113.77" ping

    start_server "$second" --announce="$group" --name cache
    comes 3 '2 servers are called cache' "$okv" -s "$cache" get greeting
    same 'the sentence names both' "$(grep -oE 'rdma://10[.0-9]*:747[12] ' "$scratch/err" | sort | tr -d '\n')" \
        "$first $second "
    kill -KILL "${servers[1]}"
    wait "${servers[1]}" 2>/dev/null || true
    comes 0 hello "$okv" -s "$cache" get greeting
    kill -KILL "${servers[0]}"
    wait "${servers[0]}" 2>/dev/null || true
    says 3 'no server called cache answered' "$okv" -s "$cache" get greeting
}

wrong_options
if [ -n "${OKV_GUEST_ADDR:-}" ]; then
    by_ud
else
    by_udp
    by_tcp
    [ -e /dev/infiniband/rdma_cm ] || says 3 'no RDMA device' "$okv" -s rdma://discover/cache ping
fi
printf '%s checks, %s wrong\n' $checks $failures
[ $failures -eq 0 ]
