#!/usr/bin/env bash
# What a copy costs.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/figures/cluster.sh BUILD_DIR [OPTION...] [FIGURE...]

Compares databases with a copy and without one, with the programs of a build such as build/release: medians of the ratios
of each round, from lowest to highest. All servers are on this host, so a copy also takes processor time and disk of its
primary. Takes about 12 minutes.

  --scheme SCHEME   local (default) or tcp
  --rounds N        of each comparison (5)
  --json FILE       also writes what it prints, with all rounds, for docs/results/cluster.md
  --help            prints this

FIGURE, all by default:

  get        gets by READ, and READs a get at 1,000 and 100,000 gets a second
  put        puts in memory, one and 64 under way, and beside the round trip of the transport
  durable    the same with --data and --sync always, both on one disk
  redis      puts of 50 connections beside Redis with a replica and WAIT 1
  bytes      what the copy receives, beside the bytes of the log
  catch_up   a copy that loads 200 MB beside puts
  pause      the longest put while a copy is killed or stopped
  outage     not by default, 20 minutes: how long no put is answered while primaries are killed and stopped, 50 times
             each, and handed over 100 times, by cluster_failovers_test, which also counts and verifies
TEXT
}

wrong_usage() {
    echo "cluster.sh: $*; see --help" >&2
    exit 2
}

scheme=local rounds=5 json='' build='' figures=()
while [ $# -gt 0 ]; do
    case $1 in
        --help | -h) usage; exit 0 ;;
        --scheme | --rounds | --json)
            [ $# -gt 1 ] || wrong_usage "$1 needs a value"
            declare "${1#--}=$2"
            shift ;;
        -*) wrong_usage "$1 is no option" ;;
        *) if [ -z "$build" ]; then build=$(cd "$1" && pwd); else figures+=("$1"); fi ;;
    esac
    shift
done
[ -n "$build" ] || { usage; exit 0; }
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
    start "$1" --cluster "${1%[12]}-$figure" --etcd "$etcd" --advertise "$(place "$1")" "${files[@]}" "${@:2}"
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

# add WHAT MEASURED TARGET RAW: a row; TARGET may be empty, RAW is a JSON array of what each round had.
add() {
    echo "$1: $2${3:+ (target: $3)}"
    jq -nc --arg what "$1" --arg measured "$2" --arg target "${3:-}" --argjson raw "$4" \
        '{cells: [$what, $measured, $target], raw: $raw}' >>"$work/rows"
}

# of FILTER: what it makes of the results in $work/json.
of() {
    jq -r '
        def short: (. * 1000 | round) / 1000;
        def middle: sort | .[length / 2 | floor];
        def spread: "\(middle | short) (\(min | short) to \(max | short))";
        def p50($operation): .targets | map([.rounds[].latency[$operation].p50_us]);
        def rate: .targets | map([.rounds[].operations_per_second | floor]);
        def over: [.[1], .[0]] | transpose | map(.[0] / .[1]);
        '"$1" "$work/json"
}

# add_p50 WHAT OPERATION TARGET, add_rate WHAT TARGET: of the second target to the first one, and both medians.
add_p50() {
    add "$1" "$(of "p50(\"$2\") | \"\(over | spread); \(map(middle | short) | join(\" and \")) us\"")" "${3:-}" \
        "$(of "p50(\"$2\")")"
}

add_rate() {
    add "$1" "$(of 'rate | "\(over | spread); \(map(middle) | join(" and "))"')" "${2:-}" "$(of rate)"
}

get() {
    local rate
    start alone
    start_pair memory
    run -s alone="$(place alone)" -s copies="$(both memory)" --mix get=100
    add_p50 "get p50, with a copy / alone" get "1.02 or less; local 30 ns more at most"
    for rate in 1000 100000; do
        run -s alone="$(place alone)" -s copies="$(both memory)" --mix get=100 --rate "$rate"
        add "READs a get at $rate gets a second, with a copy / alone" \
            "$(of '.targets | map([.rounds[].reads_per_get]) | over | spread')" \
            "$([ $rate = 1000 ] && echo '1.003 or less')" "$(of '.targets | map([.rounds[].reads_per_get])')"
    done
    stop alone memory1 memory2
}

put() {
    start alone
    start_pair memory
    run -s alone="$(place alone)" -s copies="$(both memory)" --mix put=100
    add_p50 "put in memory p50, with a copy / alone" put
    run -s alone="$(place alone)" -s copies="$(both memory)" --mix put=100 --depth 64
    add_rate "puts in memory a second, 64 under way, with a copy / alone"
    run -s copies="$(both memory)" --floor
    add "put in memory with a copy / round trip of the transport" \
        "$(of '[.targets[0].rounds[].put_over_echo] | spread')" "4 or less" \
        "$(of '[[.targets[0].rounds[].put_over_echo]]')"
    stop alone memory1 memory2
}

durable() {
    start alone --data "$work/data"
    start_pair files
    run -s alone="$(place alone)" -s copies="$(both files)" --mix put=100
    add_p50 "durable put p50, with a copy / alone" put "1.3 or less"
    run -s alone="$(place alone)" -s copies="$(both files)" --mix put=100 --depth 64
    add_rate "durable puts a second, 64 under way, with a copy / alone" "0.8 or more"
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
    add_rate "puts of 50 connections a second, okv with a copy / Redis with a replica and WAIT 1" "2 or more"
    add_p50 "the same, p50" put
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
        link=$(($(received) - link)) log=$(($(position) - log))
        add "bytes to the copy / of the log, values of 100, $depth under way" \
            "$(jq -n "($link / $log * 100 | round) / 100")" "1.1 or less" "[[$link], [$log]]"
    done
    stop memory1 memory2
}

# p99 WHAT: of the puts.
p99() {
    local us
    us=$(of '.targets[0].rounds[0].latency.put.p99_us')
    add "$1" "$us us" '' "[[$us]]"
}

# until_both: both copies are in sync.
until_both() {
    until "$okv" -s "$(place memory1)" cluster status --json |
        jq -e '[.databases[0].copies[] | select(.in_sync)] | length == 2' >/dev/null; do sleep 0.02; done
}

catch_up() {
    local begin took
    start_pair memory --memory 1G
    "$bench" -s "$(both memory)" --records 50K --value-size 4K --load-only >"$work/bench" 2>&1
    run -s copies="$(both memory)" --no-load --records 50K --value-size 32 --mix put=100 --rate 500 --rounds 1
    p99 "p99 of 500 puts a second"
    stop memory2
    run -s copies="$(both memory)" --no-load --records 50K --value-size 32 --mix put=100 --rate 500 --rounds 1 --seconds 15 &
    sleep 4
    begin=$(date +%s%N)
    start_member memory2 --memory 1G
    until_both
    took=$((($(date +%s%N) - begin) / 1000000))
    wait $!
    add "from the start of a server to its copy of 200 MB in sync" "$took ms, $((200 * 1000 / took)) MB/s" \
        "200 MB/s" "[[$took]]"
    p99 "p99 of 500 puts a second meanwhile"
    stop memory1 memory2
}

# longest EVENT...: the longest put and get, in ms, of a run in which EVENT happens: two words.
longest() {
    run -s copies="$(both memory)" --mix get=50,put=50 --rounds 1 --seconds 4 &
    sleep 2
    "$@" >"$work/event" 2>&1
    wait $!
    of '.targets[0].rounds[0].latency | "\(.put.max_us / 1000 | round) \(.get.max_us / 1000 | short)"'
}

settle() {
    "$okv" -s "$(both memory)" cluster status --wait >"$work/status" 2>&1
}

restart() {
    wait "${pids[$1]}" 2>/dev/null || true
    start_member "$1"
}

pause() {
    local put get
    start_pair memory
    read -r put get < <(longest kill -9 "${pids[memory2]}")
    add "a copy is killed: longest put" "$put ms; longest get $get ms" "600 ms" "[[$put], [$get]]"
    restart memory2
    settle
    read -r put get < <(longest kill -STOP "${pids[memory2]}")
    add "a copy is stopped: longest put" "$put ms; longest get $get ms" "600 ms" "[[$put], [$get]]"
    kill -CONT "${pids[memory2]}"
    stop memory1 memory2
}

outage() {
    local suffix='' test what rest p50 p90 most late
    [ "$scheme" = local ] || suffix=_$scheme
    for test in copies_take_over primaries_hand_over; do
        OKV_LONG=1 OKV_TEST_FILTER=$test$suffix "$build/tests/cluster_failovers_test" >"$work/outage" 2>&1 ||
            { cat "$work/outage" >&2; exit 3; }
        while IFS=: read -r what _ rest; do
            read -r _ p50 _ p90 _ _ most late _ <<<"${rest//[,;]/}"
            add "a primary is $what: ms without an answered put" "p50 $p50, p90 $p90, at most $most; $late above 2500" \
                "$([[ $what = handed* ]] || echo 'p50 1500, 2 of 100 above 2500')" "[[$p50], [$p90], [$most]]"
        done < <(grep 'ms without an answered put' "$work/outage")
    done
}

# write_json: what was measured, as bench/results reads it.
write_json() {
    jq -s --arg processors "$(lscpu | sed -n 's/^Model name: *//p'), $(nproc) CPUs, $(uname -sr)" --arg scheme "$scheme" \
        --arg date "$(date +%F)" --arg rounds "$rounds" '{
        schema: "okv-figures-1",
        environment: {processors: $processors, date: $date, transport: $scheme, rounds: $rounds,
                      okv: "the commit that has this page"},
        tables: [{columns: ["figure", "measured", "target"], rows: map(.cells[1] |= sub(";.*"; ""))}]}' "$work/rows" >"$json"
}

port=$(free_port) peer=$(free_port)
etcd=http://127.0.0.1:$port
etcd --data-dir "$work/etcd" --listen-client-urls "$etcd" --advertise-client-urls "$etcd" \
    --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
    --initial-cluster "default=http://127.0.0.1:$peer" >"$work/etcd.log" 2>&1 &
pids[etcd]=$!
for figure in "${figures[@]}"; do "$figure"; done
[ -z "$json" ] || write_json
