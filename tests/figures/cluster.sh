#!/usr/bin/env bash
# What a copy costs.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/figures/cluster.sh BUILD_DIR [SCHEME [ROUNDS [FIGURE...]]]

Compares databases with a copy and without one, over SCHEME (local or tcp), with the programs of a build such as
build/release: medians of the ratios of ROUNDS (5) rounds, from lowest to highest. All servers are on this host, so a copy
also takes processor time and disk of its primary. Takes about 12 minutes. FIGURE, all by default:

  get       gets by READ, and READs a get at 1,000 and 100,000 gets a second
  put       puts in memory, one and 64 under way, and beside the round trip of the transport
  durable   the same with --data and --sync always, both on one disk
  redis     puts of 50 connections beside Redis with a replica and WAIT 1
  bytes     what the copy receives, beside the bytes of the log
  catch_up  a copy that loads 200 MB beside puts
  pause     the longest put while a copy is killed or stopped, and over hand-overs
TEXT
}

case ${1:-} in
    '' | --help | -h) usage; exit 0 ;;
esac
build=$(cd "$1" && pwd)
scheme=${2:-local} rounds=${3:-5}
figures=("${@:4}")
[ ${#figures[@]} -gt 0 ] || figures=(get put durable redis bytes catch_up pause)
okv=$build/client/cli/okv bench=$build/bench/kv-bench
work=$(mktemp -d)
declare -A pids=()

clean_up() {
    local name
    for name in "${!pids[@]}"; do
        kill -CONT "${pids[$name]}" 2>/dev/null || true
        kill "${pids[$name]}" 2>/dev/null || true
    done
    wait
    rm -rf "$work"
}
trap clean_up EXIT

# A port of 127.0.0.1 that is free now.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# place NAME: its URI, the same each time.
place() {
    if [ "$scheme" = local ]; then
        echo "local://$work/$1"
    else
        [ -e "$work/$1.port" ] || free_port >"$work/$1.port"
        echo "$scheme://127.0.0.1:$(cat "$work/$1.port")"
    fi
}

# both NAME: the URI of the cluster of NAME1 and NAME2.
both() {
    local one two
    one=$(place "${1}1") two=$(place "${1}2")
    echo "okv://${one#*://},${two#*://}/$1$([ "$scheme" = local ] || echo "?transport=$scheme")"
}

# start NAME OPTION...: a server there.
start() {
    local name=$1
    shift
    : >"$work/$name.out"
    "$build/server/okv-server" --listen "$(place "$name")" --open --memory 512M --credits 64 --log-format text "$@" \
        >"$work/$name.out" 2>"$work/$name.log" &
    pids[$name]=$!
    until grep -q '^ready ' "$work/$name.out"; do
        kill -0 "${pids[$name]}" || { cat "$work/$name.log" >&2; exit 3; }
        sleep 0.1
    done
}

# start_member NAME OPTION...: with files if it is called files1 or files2.
start_member() {
    local files=()
    [ "${1%[12]}" != files ] || files=(--data "$work/$1.data")
    start "$1" --cluster "${1%[12]}" --etcd "$etcd" --advertise "$(place "$1")" "${files[@]}" "${@:2}"
}

# start_pair NAME OPTION...: a primary NAME1 and a copy NAME2.
start_pair() {
    start_member "${1}1" "${@:2}"
    start_member "${1}2" "${@:2}"
    until [ "$("$okv" -s "$(place "${1}1")" cluster status | grep -c '^server')" = 2 ]; do sleep 0.1; done
    "$okv" -s "$(place "${1}1")" cluster create --copies 2 --force --yes >"$work/create" 2>&1
}

stop() {
    local name
    for name in "$@"; do
        kill "${pids[$name]}"
        wait "${pids[$name]}" || true
        unset "pids[$name]"
    done
}

# run OPTION...: kv-bench, whose results are in $work/json.
run() {
    "$bench" --rounds "$rounds" --seconds 3 --records 10K --json "$work/json" "$@" >"$work/bench" 2>&1 ||
        { cat "$work/bench" >&2; exit 3; }
}

# ratio WHAT OPERATION: of the second target to the first one, and both medians.
ratios() {
    jq -r --arg what "$1" --arg operation "$2" '
        def short: (. * 1000 | round) / 1000;
        def middle: sort | .[length / 2 | floor] | short;
        (.targets | map([.rounds[].latency[$operation].p50_us])) as $us
        | (.targets | map([.rounds[].operations_per_second])) as $rate
        | "\($what): p50 \([$us[1], $us[0]] | transpose | map(.[0] / .[1]) | "\(middle) (\(min | short) to \(max | short))"), " +
          "\($us | map(middle) | join(" and ")) us; rate " +
          "\([$rate[1], $rate[0]] | transpose | map(.[0] / .[1]) | "\(middle) (\(min | short) to \(max | short))"), " +
          "\($rate | map(middle | floor) | join(" and ")) a second"' "$work/json"
}

get() {
    local rate
    start alone
    start_pair memory
    run -s alone="$(place alone)" -s copies="$(both memory)" --mix get=100
    ratios "get, with a copy / alone" get
    for rate in 1000 100000; do
        run -s alone="$(place alone)" -s copies="$(both memory)" --mix get=100 --rate "$rate"
        jq -r --arg rate "$rate" '"READs a get at \($rate) a second, alone and with a copy: " +
            (.targets | map([.rounds[].reads_per_get] | add / length | tostring) | join(" and "))' "$work/json"
    done
    stop alone memory1 memory2
}

put() {
    start alone
    start_pair memory
    run -s alone="$(place alone)" -s copies="$(both memory)" --mix put=100
    ratios "put, with a copy / alone" put
    run -s alone="$(place alone)" -s copies="$(both memory)" --mix put=100 --depth 64
    ratios "put, 64 under way" put
    run -s copies="$(both memory)" --floor
    jq -r '"put with a copy / round trip: \([.targets[0].rounds[].put_over_echo] | sort | .[length / 2 | floor])"' "$work/json"
    stop alone memory1 memory2
}

durable() {
    start alone --data "$work/data"
    start_pair files
    run -s alone="$(place alone)" -s copies="$(both files)" --mix put=100
    ratios "durable put, with a copy / alone" put
    run -s alone="$(place alone)" -s copies="$(both files)" --mix put=100 --depth 64
    ratios "durable put, 64 under way" put
    stop alone files1 files2
}

redis() {
    local primary replica
    primary=$(free_port) replica=$(free_port)
    redis-server --port "$primary" --save '' --dir "$work" >"$work/redis1.log" 2>&1 &
    pids[redis1]=$!
    redis-server --port "$replica" --save '' --dir "$work" --replicaof 127.0.0.1 "$primary" >"$work/redis2.log" 2>&1 &
    pids[redis2]=$!
    until redis-cli -p "$primary" info replication 2>&1 | grep -q 'state=online'; do sleep 0.1; done
    start_pair memory
    run -s redis="redis://127.0.0.1:$primary?wait=1" -s okv="$(both memory)" --mix put=100 --connections 50
    ratios "puts of 50 connections, okv / Redis with WAIT 1" put
    stop memory1 memory2 redis1 redis2
}

# position: of the log of memory1.
position() {
    "$okv" -s "$(place memory1)" cluster status --json | jq '.databases[0].position'
}

# received: bytes that memory2 has from other servers.
received() {
    "$okv" -s "$(place memory2)" clients --json | jq '[.. | objects | .bytes_in? // empty] | add'
}

bytes() {
    local log link depth
    start_pair memory
    for depth in 1 16; do
        log=$(position) link=$(received)
        run -s copies="$(both memory)" --mix put=100 --rounds 1 --value-size 100 --depth $depth
        echo "bytes to the copy / of the log, values of 100, $depth under way: $((($(received) - link) * 1000 / ($(position) - log))) / 1000"
    done
    stop memory1 memory2
}

catch_up() {
    local begin took
    start_pair memory --memory 1G
    "$bench" -s "$(both memory)" --records 50K --value-size 4K --load-only >"$work/bench" 2>&1
    run -s copies="$(both memory)" --no-load --records 50K --value-size 32 --mix put=100 --rate 500 --rounds 1
    echo "p99 of 500 puts a second before: $(jq '.targets[0].rounds[0].latency.put.p99_us' "$work/json") us"
    stop memory2
    run -s copies="$(both memory)" --no-load --records 50K --value-size 32 --mix put=100 --rate 500 --rounds 1 --seconds 15 &
    sleep 4
    begin=$(date +%s%N)
    start_member memory2 --memory 1G
    until "$okv" -s "$(place memory1)" cluster status --json |
        jq -e '[.databases[0].copies[] | select(.in_sync)] | length == 2' >/dev/null; do sleep 0.02; done
    took=$((($(date +%s%N) - begin) / 1000000))
    wait $!
    echo "a copy of 200 MB is in sync after $took ms, with its start: $((200 * 1000 / took)) MB/s"
    echo "p99 of puts meanwhile: $(jq '.targets[0].rounds[0].latency.put.p99_us' "$work/json") us"
    stop memory1 memory2
}

# longest WHAT: the longest put of a run of 4 s, in which after 1 s `event` is called.
longest() {
    run -s copies="$(both memory)" --mix get=50,put=50 --rounds 1 --seconds 4 &
    sleep 2
    event
    wait $!
    jq -r --arg what "$1" '.targets[0].rounds[0].latency |
        "\($what): longest put \(.put.max_us / 1000) ms, longest get \(.get.max_us / 1000) ms"' "$work/json"
}

pause() {
    local i
    start_pair memory
    event() { kill -9 "${pids[memory2]}"; }
    longest "a copy is killed"
    wait "${pids[memory2]}" 2>/dev/null || true
    start_member memory2
    "$okv" -s "$(place memory1)" cluster status --wait >"$work/create" 2>&1
    event() { kill -STOP "${pids[memory2]}"; }
    longest "a copy is stopped"
    kill -CONT "${pids[memory2]}"
    "$okv" -s "$(place memory1)" cluster status --wait >"$work/create" 2>&1
    event() { "$okv" -s "$(both memory)" cluster handover >"$work/handover" 2>&1; }
    for i in $(seq "$rounds"); do
        longest "hand-over $i"
        "$okv" -s "$(place memory1)" cluster status --wait >"$work/create" 2>&1
    done
    stop memory1 memory2
}

port=$(free_port) peer=$(free_port)
etcd=http://127.0.0.1:$port
etcd --data-dir "$work/etcd" --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
    --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
    --initial-cluster "default=http://127.0.0.1:$peer" >"$work/etcd.log" 2>&1 &
pids[etcd]=$!
for figure in "${figures[@]}"; do "$figure"; done
