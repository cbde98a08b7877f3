#!/usr/bin/env bash
# What kv-bench(1) writes, of real runs: JSON as docs/benchmark-json.md says, CSV, histograms, the table; and
# what bench/results makes of the JSON.
# shellcheck disable=SC2016 # variables in filters are jq's
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/report.sh BUILD_DIR

Runs the kv-bench of BUILD_DIR against a server of its own over shared memory and looks at its files.
Exits 1 when something is wrong, 77 without jq.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
command -v jq >/dev/null || {
    echo "report: jq is missing; run: tests/support/packages.sh test"
    [ "${OKV_TEST_REQUIRE_TOOLS:-}" = 1 ] && exit 1
    exit 77
}
failures=0 checks=0
json=$scratch/run.json csv=$scratch/run.csv
results=$(dirname "${BASH_SOURCE[0]}")/../../bench/results

wrong() {
    failures=$((failures + 1))
    printf 'WRONG %s\n' "$*"
}

# run ARGUMENT...: kv-bench, without complaint; its table is in $scratch/out.
run() {
    checks=$((checks + 1))
    "$bench" --records 500 --warmup 0 --json "$json" --csv "$csv" "$@" >"$scratch/out" 2>"$scratch/err" ||
        wrong "kv-bench $*: $(cat "$scratch/err")"
}

# holds FILTER...: each is true of the JSON.
holds() {
    local filter
    for filter in "$@"; do
        checks=$((checks + 1))
        jq -e "$filter" "$json" >"$scratch/found" 2>&1 || wrong "JSON: $filter: $(head -c 300 "$scratch/found")"
    done
}

# same WHAT A B: the two are equal.
same() {
    checks=$((checks + 1))
    [ "$2" = "$3" ] || wrong "$1: $2 and not $3"
}

# Each latency adds up, and its percentiles rise.
latencies='[.targets[].rounds[].latency[] | select(.count > 0)]
    | length > 0 and all(.count == ([.histogram[][1]] | add)
        and .min_us <= .p50_us and .p50_us <= .p90_us and .p90_us <= .p99_us and .p99_us <= .p99_9_us
        and .p99_9_us <= .p99_99_us and .p99_99_us <= .max_us and .min_us <= .mean_us
        and .histogram[-1][0] == .max_us and .histogram == (.histogram | sort))'

a_mix_on_two_targets() {
    run -s one="$socket" -s two="$socket" --workload a --operations 3000 --rounds 3 --depth 4 --hdr "$scratch/h"
    holds '.schema == "okv-bench-1" and .program == "kv-bench" and (.version | length) > 0 and (.git | type) == "string"' \
        '.environment | (.cpus > 0) and (.date | test("^[0-9]{4}-[0-9-]+T")) and (.emulated | type) == "boolean"
            and (.kernel | startswith("Linux")) and (.command | test("--workload a"))' \
        '.targets[0].uri as $uri | .environment.command | contains(" -s one=\($uri) -s two=\($uri) ")' \
        '.parameters | .workload == "a" and .mix == {"get": 50, "put": 50} and .distribution == "zipfian"
            and .records == 500 and .value_size == 32 and .rounds == 3 and .depth == 4 and .floor == false' \
        '[.targets[].name] == ["one", "two"]' \
        'all(.targets[]; .kind == "okv" and .transport == "local" and .bucket_bytes > 0 and .region_bytes > 0)' \
        'all(.targets[].load; .operations == 500 and .latency.put.count == 500)' \
        'all(.targets[].rounds; length == 3)' \
        'all(.targets[].rounds[]; .operations == 3000 and (.latency | [.[].count] | add) == 3000
            and (.operations_per_second * .seconds / 3000 - 1 | fabs) < 0.001)' \
        'all(.targets[].rounds[]; .reads_per_get >= 1 and .counters.gets == .latency.get.count
            and .counters.puts == .latency.put.count)' \
        'all(.targets[].rounds[]; .wire_bytes_per_operation * 3000 >= .counters.read_bytes)' \
        'all(.targets[].rounds[]; .client_cpu_us_per_operation > 0 and .server_cpu_us_per_operation >= 0)' \
        'all(.targets[].rounds[].fill; .items == 500 and .user_bytes == 500 * 48 and .memory_bytes > .user_bytes)' \
        'all(.targets[].rounds[]; ([.series[].operations] | add) == .operations)' \
        "$latencies" \
        'all(.targets[]; .outcome.good and .outcome.wrong == 0 and .outcome.why == "")' \
        'all(.targets[].summary.get_p50_us; .min <= .median and .median <= .max)' \
        '.targets[0] as $t | $t.summary.put_p99_us.max == ([$t.rounds[].latency.put.p99_us] | max)' \
        '.targets[0] as $t | $t.summary.operations_per_second.median == ([$t.rounds[].operations_per_second] | sort | .[1])' \
        '[.targets[].rounds | map(.latency.get.p50_us)] as [$a, $b]
            | [range(3) | $b[.] / $a[.]] as $ratios | (.ratios[] | select(.figure == "get_p50_us"))
            | .target == "two" and .to == "one" and (.max - ($ratios | max) | fabs) < 0.001
                and (.min - ($ratios | min) | fabs) < 0.001'
    # A head, and for each target the load's puts and two lines for each round.
    same "lines of the CSV" "$(wc -l <"$csv")" $((1 + 2 * (1 + 3 * 2)))
    same "fields of its lines" "$(awk -F, '{ print NF }' "$csv" | sort -u)" 19
    same "gets of the CSV" "$(awk -F, '$3 == "get" { sum += $6 } END { print sum }' "$csv")" \
        "$(jq '[.targets[].rounds[].latency.get.count] | add' "$json")"
    same "histograms" "$(cd "$scratch" && echo h.*)" \
        'h.one.get.hgrm h.one.put.hgrm h.two.get.hgrm h.two.put.hgrm'
    same "samples of one" "$(sed -n 's/^#\[Max .*Total count *= *\([0-9]*\)\]/\1/p' "$scratch/h.two.get.hgrm")" \
        "$(jq '[.targets[1].rounds[].latency.get.count] | add' "$json")"
    same "ratios in the table" "$(grep -c '^ratios to one' "$scratch/out")" 1
}

# One server, whose records are stored once, with one thread and with two.
numbers_of_threads() {
    run -s one="$socket" --threads 1,2 --mix get=99,put=1 --operations 3000 --rounds 3
    holds '[.targets[] | [.name, .threads]] == [["one 1 thread", 1], ["one 2 threads", 2]]' \
        '.parameters.threads == [1, 2] and all(.targets[]; .outcome.good and (.rounds | length) == 3)' \
        '[.targets[].load.operations] == [500, null]' \
        '.ratios[] | select(.figure == "operations_per_second")
            | .target == "one 2 threads" and .to == "one 1 thread" and .median > 0'
    same "the threads in the table" "$(grep -c '^driven   by 1 or 2 threads of 1 connection each' "$scratch/out")" 1
}

load_alone() {
    run -s one="$socket" --load-only --value-size 100
    holds '.targets[0].load.operations == 500 and .targets[0].rounds == [] and .targets[0].outcome.good' \
        '.targets[0].load.fill.items == 500' '.parameters.load_only' '.ratios == []'
}

# Buckets are copied where a get reads one: $copies says how often at least.
floor() {
    run -s one="$socket" --floor --operations 600 --rounds 2 "$@"
    holds '.parameters.floor' "$latencies" \
        'all(.targets[0].rounds[]; .get_over_read > 0 and .put_over_echo > 0 and .get_rate_over_read > 0
            and .reads_per_get >= 1)' \
        'all(.targets[0].rounds[].latency; .read.count >= 600 and .get.count >= 600 and .put.count >= 150
            and .echo.count >= 150 and .ping.count > 0 and .copy.count >= '"$copies"' and (.copy.count > 0) == ('"$copies"' > 0))' \
        'all(.targets[0].rounds[]; (.get_rate_over_read - .rate.get / .rate.read | fabs) < 0.001 * .get_rate_over_read)' \
        'all(.targets[0].rounds[].server_cpu; .gets_ms >= 0 and .nothing_ms >= 0 and .per_get_ns >= 0)' \
        '.targets[0].summary.get_over_read.max == ([.targets[0].rounds[].get_over_read] | max)' \
        '.targets[0].outcome.good'
    same "fields of the floor's lines" "$(awk -F, '{ print NF }' "$csv" | sort -u)" 19
    same "kinds in them" "$(awk -F, '$2 == 1 { print $3 }' "$csv" | xargs)" \
        "$([ "$copies" -eq 0 ] || echo 'copy ')read get put echo ping"
}

a_wrong_value() {
    local status=0
    run -s one="$socket" --load-only
    "$okv" -s "$socket" put 0000000000000000 'a value that nobody put there!!!'
    "$bench" -s "$socket" --records 500 --no-load --floor --operations 3000 --rounds 1 --json "$json" \
        >"$scratch/out" 2>"$scratch/err" || status=$?
    same "the status after a wrong value" $status 3
    same "what is said of it" "$(grep -c 'values were wrong or missing' "$scratch/err")" 1
    holds '.targets[0].outcome | (.good | not) and .wrong > 0 and .missing == 0 and .failed == 0'
}

# More is due than anything could do: what was not begun is told, and that the rate was too high.
too_high_a_rate() {
    run -s one="$socket" --mix get=100 --rate 1G --seconds 0.2 --rounds 2 "$@"
    holds 'all(.targets[0].rounds[]; .not_begun > 100e6 and .not_begun + .operations > 195e6
            and .not_begun + .operations < 205e6)' '.targets[0].load.not_begun == 0' '.targets[0].outcome.good'
    same "what was not begun in the CSV" "$(awk -F, '$2 == 1 { print ($19 > 100e6) }' "$csv")" 1
    same "what was not begun in the table" "$(grep -c '^  not begun .*operations, \(9[0-9.]*\|100\.0\) % of those' "$scratch/out")" 1
    same "what is said of it" "$(grep -c 'about [0-9]* operations that were due could not be begun' "$scratch/err")" 2
}

# Files are there when there is something in them, and what was there before stays until then.
files() {
    local file=$scratch/files/run status=0
    mkdir "$scratch/files"
    "$bench" -s "local://$scratch/nobody" --json "$file.json" --csv "$file.csv" >"$scratch/out" 2>&1 || status=$?
    same "the status without a server" $status 3
    same "files of a run that never began" "$(ls -A "$scratch/files")" ''
    echo earlier >"$file.json"
    ln -s run.json "$file.link"
    "$bench" -s "local://$scratch/nobody" --json "$file.link" >"$scratch/out" 2>&1 || true
    same "what was there before" "$(cat "$file.json")" earlier
    json=$file.link run -s one="$socket" --operations 10 --json "$file.link"
    same "the file behind a link" "$(jq -r .schema "$file.json")" okv-bench-1
    same "the files then" "$(cd "$scratch/files" && echo *)" 'run.json run.link'
    [ -L "$file.link" ] || wrong "a symbolic link was replaced"
    status=0
    "$bench" -s one="$socket" --records 500 --operations 10 --json /dev/full >"$scratch/out" 2>"$scratch/err" || status=$?
    same "the status on a full disk" $status 3
    same "what is said of it" "$(grep -c '^kv-bench: /dev/full: cannot be written' "$scratch/err")" 1
    status=0
    # A pipe has what it prints: no file but the results is to meet the limit, of a KiB.
    (ulimit -f 1 && exec "$bench" -s one="$socket" --records 500 --operations 10 --json "$file.json" 2>&1) |
        cat >"$scratch/err" || status=$?
    same "the status beyond the limit on files" $status 3
    same "what is said of it" "$(grep -c '^kv-bench: .*run.json: cannot be written' "$scratch/err")" 1
    status=0
    "$bench" -s one="$socket" --json "$scratch/files" >"$scratch/out" 2>"$scratch/err" || status=$?
    same "the status of a directory" "$status $(grep -c 'Is a directory' "$scratch/err")" '3 1'
    "$bench" -s one="$socket" --records 500 --operations 10 --json - 2>/dev/null | jq -e .schema >/dev/null ||
        wrong "no JSON in a pipe"
}

# tables ARGUMENT...: bench/results. Its output is in $scratch/tables, its exit status in $status.
tables() {
    status=0
    "$results" "$@" >"$scratch/tables" 2>"$scratch/err" || status=$?
}

# What bench/results makes of a floor, in which two figures were set.
pages() {
    local set=$scratch/set.json other=$scratch/other.json page=$scratch/page.md
    local row='^| set | 1.250 (1.000 to 2.000) |.*; 1,234,568; '
    jq '.targets[0].summary.get_over_read = { median: 1.25, min: 1, max: 2 }
        | .targets[0].summary.read_rate = { median: 1234567.8, min: 345.6, max: 2e6 }' "$json" >"$set"
    jq '.environment.kernel = "Linux 1.0"' "$json" >"$other"
    tables "$set"
    same "the status of bench/results" $status 0
    same "the row of the floor" "$(grep -c "$row" "$scratch/tables")" 1
    tables --short "$set"
    same "the version in the short table" "$(grep -c "^| okv $("$bench" --version | grep -oEm1 '[0-9]+\.[0-9.]+'), " "$scratch/tables")" 1
    same "the row of the short table" "$(grep -c '^| get / raw READ, p50 | 1.250 (1.000 to 2.000) |' "$scratch/tables")" 1
    peers "$set"

    printf '%s\n' before '<!-- bench/results -->' old '<!-- end of results -->' after >"$page"
    tables -o "$page" "$set"
    same "the status with -o" $status 0
    same "lines of the page" "$(grep -xE 'before|old|after|<!-- bench/results .*' "$page" | xargs -d '\n')" \
        'before <!-- bench/results set.json --> after'
    cp "$page" "$scratch/once"
    tables -o "$page" "$set"
    same "the page after a second time" "$(cat "$page")" "$(cat "$scratch/once")"
    tables --check "$page"
    same "the status of a page with the tables of its files" $status 0
    sed -i 's/1\.250/1.251/' "$page"
    tables --check "$page"
    same "the status of another figure" "$status $(grep -c '^[+-]| set ' "$scratch/tables")" '1 2'
    tables --update "$page"
    same "the page after --update" "$(cat "$page")" "$(cat "$scratch/once")"

    tables "$set" "$other"
    same "the status of two machines" "$status $(grep -c 'different machines' "$scratch/err")" '3 1'
    jq '.targets[0].outcome = { good: false, why: "a value was wrong" }' "$json" >"$other"
    tables -o "$page" "$other"
    same "the status of a bad run" "$status $(grep -c 'a value was wrong' "$scratch/err")" '3 1'
    same "the page after a bad run" "$(cat "$page")" "$(cat "$scratch/once")"
}

# Targets beside each other.
peers() {
    jq 'del(.targets[0].summary.get_over_read)
        | .targets = [.targets[0], (.targets[0] | .name = "peer" | .kind = "redis" | .version = "7"
              | .summary.get_p50_us = { median: 30, min: 20, max: 40 })]
        | .ratios = [{ target: "peer", to: .targets[0].name, figure: "get_p50_us", median: 2, min: 1, max: 3 }]' \
        "$1" >"$1.peers"
    tables "$1.peers"
    same "the row of a peer" "$(grep -c '^| .*: peer (redis 7) | .* | 2.000 (1.000 to 3.000) | ' "$scratch/tables")" 1
    tables --short "$1.peers"
    same "the short row of a peer" \
        "$(grep -c '^| peer (redis 7) | .*| 30.00 (20.00 to 40.00) | 2.000 (1.000 to 3.000) |' "$scratch/tables")" 1
}

start_server "$socket" --memory 64M
a_mix_on_two_targets
numbers_of_threads
load_alone
copies=600
floor
pages
holds '.targets[0] | .bucket_bytes as $bytes | all(.rounds[]; .read_bytes == $bytes)'
floor --depth 16
floor --get-many 32
copies=0
floor --value-size 4K
holds 'all(.targets[0].rounds[]; .read_bytes == 4096 and .get_over_copy == null)' \
    '[.targets[0].rounds[].counters | .hints_right + .extent_reads] | add > 0'
copies=600
floor --value-size 100 --registered
run -s one="$socket" --floor --records 20 --value-size 64K --operations 100 --rounds 1 --depth 2
holds '.targets[0].rounds[0] | .get_over_read == null and .get_rate_over_read == null and .put_over_echo == null
    and .latency.get.count >= 100' '.targets[0].summary | has("get_p50_us") and (has("get_over_read") | not)'
too_high_a_rate
too_high_a_rate --even --threads 2
files
a_wrong_value
echo "report: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
