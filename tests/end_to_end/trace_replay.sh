#!/usr/bin/env bash
# kv-bench --replay over shared memory: what it counts, what it leaves, and what it refuses.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/trace_replay.sh BUILD_DIR

Replays traces with the kv-bench of BUILD_DIR against servers of its own.
Exits 1 when something is wrong, 77 without jq.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
command -v jq >/dev/null || {
    echo "trace_replay: jq is missing; run: tests/support/packages.sh test"
    [ "${OKV_TEST_REQUIRE_TOOLS:-}" = 1 ] && exit 1
    exit 77
}
json=$scratch/json

# replay STATUS ARGUMENT...: kv-bench --replay ARGUMENT... ends so; its table is in $scratch/out.
replay() {
    local expected=$1 status=0
    shift
    "$bench" -s okv="$socket" --json "$json" --replay "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
    same "the status of --replay $*" $status "$expected"
}

# is WHAT FILTER VALUE: what the filter finds in the replay's JSON.
is() {
    same "$1" "$(jq -c ".targets[0].replay | $2" "$json")" "$3"
}

# says WHAT WORDS: in what was printed.
says() {
    same "$1" "$(cat "$scratch/out" "$scratch/err" | grep -cF -- "$2")" 1
}

items() {
    "$okv" -s "$socket" stat | awk '$1 == "items" { print $2 }'
}

# top_has NAME...: whether its line has them.
top_has() {
    "$okv" -s "$socket" top --json -n 1 -i 1ms | jq -r '[has($ARGS.positional[])] | join(",")' --args "$@"
}

# One client answers the trace in its order.
by_hand() {
    printf 'a 100\nb 20\n# c\na 100\nc 5000\nc 1\n' >"$scratch/trace"
    replay 0 "$scratch/trace" --replay-items 1
    is "a trace by hand" '[.requests, .keys, .hits, .misses, .puts, .refused]' '[5,3,2,3,3,0]'
    is "its policies" '.exact' '{"items":1,"lru":0.2,"s3_fifo":0.2,"belady":0.4}'
    is "its hit ratio" '.hit_ratio' 0.4
    same "its values" "$(jq -c '.targets[0].outcome | [.good, .wrong, .failed]' "$json")" '[true,0,0]'
    says "the head" "5 requests of the trace $scratch/trace, a put after each miss"
    says "the sizes" "3 of 1 to 1 + 20 to 5000 bytes"
    says "the ratio" "40.00 %: 2 hits and 3 misses of 5 requests"
    says "the table" "   measured        LRU    S3-FIFO   possible      items"
    same "what it leaves" "$(items)" 0
}

many_clients() {
    seq 1 1000 | cat - <(seq 1 1000) <(seq 500 999) >"$scratch/trace"
    replay 0 - --threads 2 --connections 4 --depth 4 <"$scratch/trace"
    is "many clients" '[.requests, .keys, .hits + .misses, .puts == .misses]' '[2500,1000,2500,true]'
    # The same key may miss twice where two clients ask for it at once.
    is "their hits" '.hits >= 1200 and .hits <= 1500 and .items_most >= .items' true
    same "the head of standard input" "$(jq -c .parameters.replay "$json")" '"-"'
}

# Items that were there stay, and so do those of the replay.
others() {
    "$okv" -s "$socket" put other value
    replay 0 "$scratch/trace"
    says "items of others" "has items of another run: they stay, and so do those of this one; an empty server"
    same "their number" "$(items)" 1001
    "$okv" -s "$socket" flush --yes >"$scratch/out" 2>"$scratch/err"
    replay 0 "$scratch/trace" --keep
    same "items that were to stay" "$(items)" 1000
}

# A server that evicts nothing refuses puts, which is no failure.
full() {
    end_server TERM
    start_server "$socket" --memory 4M
    seq 1 20000 >"$scratch/trace"
    replay 0 "$scratch/trace" --connections 4
    is "a full server" '.puts > 1000 and .refused > 1000 and .puts + .refused == .misses and .misses == 20000' true
    same "top of a server that evicts nothing" "$(top_has evicted_per_s)" false
    says "what it refused" "$(jq .targets[0].replay.refused "$json") refused by a full server"
}

# A server that evicts refuses nothing. Its clients tell it of their hits, at most one of four; what they use stays.
evicting() {
    end_server TERM
    start_server "$socket" --memory 4M --full evict
    "$bench" --make-trace zipf,items=50000,requests=150000 >"$scratch/trace"
    replay 0 "$scratch/trace" --connections 4
    is "a server that evicts" '[.refused, .puts == .misses, .items_most < 10000]' '[0,true,true]'
    is "its hits" '.hit_ratio > .exact.s3_fifo - 0.06' true
    same "what it was told of" "$("$okv" -s "$socket" stat | awk '
        { of[$1] = $2 } END { print (of["client_marks"] > 1000), (of["client_marks"] * 4 < of["client_gets"]) }')" "1 1"
}

# As many items as one likes may be loaded into it: they are evicted.
beyond_the_region() {
    "$bench" -s "$socket" --records 200K --load-only --keep >"$scratch/out" 2>&1 ||
        same "a load beyond the region" "$(tail -n 1 "$scratch/out")" taken
    same "top of a server that evicts" "$(top_has evicted_per_s puts_of_evicted_per_s main_hand_ms)" true,true,true
    same "items of a load beyond the region" "$(($(items) > 10000 && $(items) < 100000))" 1
}

evicted() { "$okv" -s "$socket" stat | awk '/^evicted_(new|main) / { sum += $2 } END { print sum + 0 }'; }

# A durable one neither, and what a kill leaves is what was there. A start may evict, and counts it.
evicting_durable() {
    "$bench" --make-trace zipf,items=20000,requests=20000 >"$scratch/trace"
    for sync in always 100ms; do
        end_server TERM
        start_server "$socket" --memory 2M --full evict --data "$scratch/$sync" --sync $sync
        replay 0 "$scratch/trace" --connections 4 --keep
        is "a durable server that evicts" '[.refused, .puts == .misses, .items_most < 5000]' '[0,true,true]'
        until "$okv" -s "$socket" stat | grep -qx 'unsynced_bytes *0'; do sleep 0.01; done
        before=$(items)
        end_server KILL
        start_server "$socket" --memory 2M --full evict --data "$scratch/$sync" --sync $sync
        after=$(items)
        same "items after a kill" "$((after <= before && after + $(evicted) >= before && after > before / 2))" 1
    done
}

# What is made is what is replayed.
made() {
    "$bench" --make-trace zipf,items=500,requests=5K >"$scratch/trace"
    same "lines that were made" "$(wc -l <"$scratch/trace")" 5001
    replay 0 "$scratch/trace" --connections 4
    is "a trace that was made" '[.requests, .hits + .misses, .exact.belady >= .exact.lru]' '[5000,5000,true]'
    "$bench" --make-trace zipf,items=500,requests=5K | cmp - "$scratch/trace" || same "made again" another "the same"
    same "a kind that is none" "$("$bench" --make-trace zap 2>&1 | grep -c "'zap': give zipf, drift")" 1
}

refusals() {
    printf 'a 100\nb c\n' >"$scratch/trace"
    replay 2 "$scratch/trace"
    says "a line that is wrong" "--replay: $scratch/trace:2: SIZE 'c': give a size"
    printf 'a 2M\n' >"$scratch/trace"
    replay 3 "$scratch/trace"
    says "a value that is too large" "a trace with a value of 2097152: the value is larger than okv accepts"
    replay 2 /dev/null
    says "a trace without requests" "/dev/null: no request"
    replay 2 "$scratch/none"
    says "a trace that is not there" "$scratch/none: No such file or directory"
}

start_server "$socket" --memory 64M
by_hand
many_clients
others
made
full
evicting
beyond_the_region
evicting_durable
refusals
echo "$checks checks, $failures of them wrong"
[ $failures -eq 0 ]
