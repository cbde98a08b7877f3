#!/usr/bin/env bash
# kv-bench and bench/compare over libfabric and TCP: floors of bare READs, servers awake and asleep, and what
# bench/results makes of them.
# shellcheck disable=SC2016 # variables in filters are jq's
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/bench_ofi.sh BUILD_DIR

Runs kv-bench and bench/compare of BUILD_DIR against servers of their own over ofi://, for a few seconds, and looks at
their JSON. With OKV_TEST_LISTEN and OKV_TEST_URI, of tests/support/loopback.sh, these say where and by which provider.
Exits 1 when something is wrong, 77 without jq or those.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
bench_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../bench" && pwd)
failures=0 checks=0
json=$scratch/run.json

leave_out() {
    echo "bench_ofi: left out: $1"
    [ "${OKV_TEST_REQUIRE_TOOLS:-}" = 1 ] && exit 1
    exit 77
}

wrong() {
    failures=$((failures + 1))
    printf 'WRONG %s\n' "$*"
}

# run COMMAND...: without complaint, and with a JSON.
run() {
    checks=$((checks + 1))
    "$@" --json "$json" >"$scratch/out" 2>"$scratch/err" || wrong "$*: $(cat "$scratch/out" "$scratch/err")"
}

# holds FILTER...: each is true of the JSON.
holds() {
    local filter
    for filter in "$@"; do
        checks=$((checks + 1))
        jq -e --arg provider "$provider" "$filter" "$json" >"$scratch/found" 2>&1 ||
            wrong "JSON: $filter: $(head -c 300 "$scratch/found")"
    done
}

# holds_a_floor COUNT: every target is good, over the provider, has COUNT gets in each round, and a READ of its floor
# is one of a bucket.
holds_a_floor() {
    holds 'all(.targets[]; .outcome.good and .transport == "ofi" and (.path | contains("provider \($provider)")))' \
        'all(.targets[]; .bucket_bytes as $bytes | all(.rounds[]; .read_bytes == $bytes))' \
        'all(.targets[].rounds[]; .get_over_read > 0 and .get_rate_over_read > 0 and .put_over_echo > 0)' \
        "all(.targets[].rounds[].latency; .read.count >= $1 and .get.count >= $1 and .copy.count == 0)" \
        'all(.targets[].rounds[].counters; .reads >= .gets and .reads < 1.5 * .gets)'
}

floors() {
    local depth
    start_server "$listen" --memory 64M --spin-us "$1"
    for depth in 1 16; do
        run "$bench" -s "$OKV_TEST_URI" --records 500 --warmup 0 --floor --operations 300 --rounds 2 --depth $depth --keep
        holds_a_floor 300
    done
    run "$bench" -s "$OKV_TEST_URI" --no-load --records 500 --warmup 0 --floor --operations 300 --rounds 1 --get-many 32
    holds_a_floor 300
    run "$bench" -s "$OKV_TEST_URI" --records 50 --value-size 4K --warmup 0 --floor --operations 300 --rounds 1
    holds '.targets[0].rounds[0].read_bytes == 4096'
    kill "${servers[-1]}"
    wait "${servers[-1]}" || wrong "the server ended with $?"
    unset 'servers[-1]'
}

comparisons() {
    local with=okv-ofi-awake,okv-ofi-asleep
    run "$bench_dir/compare" --build "$build" --quick --rounds 1 --address "${OKV_TEST_URI#ofi://}" \
        --ofi "$provider" --targets $with --floor --depth 16
    holds_a_floor 1 # rounds of 0.3 s: as many as the machine does
    holds '[.targets[].name] == ["okv-ofi-awake", "okv-ofi-asleep"]'
    cp "$json" "$scratch/floor.json"
    grep -q '^okv-ofi-awake .*provider=.* --spin-us [1-9]' "$scratch/out" || wrong "no server that spins"
    grep -q '^okv-ofi-asleep .*provider=.* --spin-us 0$' "$scratch/out" || wrong "no server that sleeps"
    ! command -v redis-server >/dev/null || with+=,redis-tcp
    run "$bench_dir/compare" --build "$build" --quick --rounds 1 --address "${OKV_TEST_URI#ofi://}" \
        --ofi "$provider" --targets "$with,okv-ofi" --server-cpus 0 --client-cpus 0
    holds 'all(.targets[]; .outcome.good) and ([.targets[] | select(.transport == "ofi")] | length) == 3'
    checks=$((checks + 1))
    "$bench_dir/results" "$scratch/floor.json" "$json" >"$scratch/page" || wrong "no page of them"
    grep -q '^| floor: okv-ofi-asleep | ' "$scratch/page" || wrong "no floor in the page"
    [[ $with != *redis* ]] || grep -q '^| [a-z]*: redis-tcp (redis ' "$scratch/page" || wrong "no peer in the page"
}

command -v jq >/dev/null || leave_out "jq is missing; run: tests/support/packages.sh test"
listen=${OKV_TEST_LISTEN:-} provider=${listen#*provider=}
[ "$provider" != "$listen" ] || leave_out "OKV_TEST_LISTEN names no provider"
if [ "$provider" = net ]; then floors 1000000; else floors 0; fi
comparisons
echo "bench_ofi: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
