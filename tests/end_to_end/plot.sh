#!/usr/bin/env bash
# bench/plot at work on files made by hand: which points it draws, that there are pictures, and how it refuses.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
plot=$here/../../bench/plot

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/plot.sh

Runs bench/plot on the files of tests/end_to_end/plot. Exits 1 when something is wrong, 77 without jq or gnuplot.
TEXT
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
    ?*) usage >&2; exit 2 ;;
esac
for tool in jq gnuplot; do
    command -v $tool >/dev/null || {
        echo "plot: $tool is missing; run: tests/support/packages.sh test"
        [ "${OKV_TEST_REQUIRE_TOOLS:-}" = 1 ] && exit 1
        exit 77
    }
done
scratch=$(mktemp -d /tmp/okv-test.XXXXXX)
trap 'rm -rf "$scratch"' EXIT
cp "$here"/plot/*.json "$scratch"
cd "$scratch"
failures=0 checks=0

wrong() {
    failures=$((failures + 1))
    printf 'WRONG %s\n' "$*"
}

# draws EXPECTED FILTER ARGUMENT...: what FILTER makes of the picture of these arguments.
draws() {
    local expected=$1 filter=$2 found
    shift 2
    checks=$((checks + 1))
    found=$("$plot" --data "$@" | jq -c "$filter") || found='no data'
    [ "$found" = "$expected" ] || wrong "plot $*: $filter is $found and not $expected"
}

# refuses STATUS TEXT ARGUMENT...: one line that has TEXT, this status, and no picture.
refuses() {
    local expected=$1 text=$2 status=0
    shift 2
    checks=$((checks + 1))
    "$plot" -o "$scratch/none" "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
    [ $status -eq "$expected" ] || wrong "plot $*: status $status and not $expected"
    [ "$(wc -l <"$scratch/err")" -eq 1 ] || wrong "plot $*: said $(cat "$scratch/err")"
    grep -qF -- "$text" "$scratch/err" || wrong "plot $*: said $(cat "$scratch/err") and not: $text"
    [ ! -s "$scratch/out" ] || wrong "plot $*: printed something"
    if [ -e "$scratch/none.svg" ] || [ -e "$scratch/none.png" ]; then wrong "plot $*: left a picture"; fi
}

# variant FILE FILTER NAME: FILE changed, as NAME.
variant() {
    jq "$2" "$1" >"$3"
}

points() {
    # Eight gets of two rounds; those that took 20 us are of both.
    draws '[[8,0],[10,12.5],[20,75],[40,87.5],[80,100]]' '.lines[0].parts[0]' cdf run.json
    draws '["okv get","okv put","redis get"]' '[.lines[].text]' cdf run.json
    draws '[[0,0],[0,1],[1,0]]' '[.lines[] | [.colour, .dash]]' cdf run.json
    draws '["read","get"]' '[.lines[].text]' cdf floor.json
    cp run.json twin.json
    draws '["run: okv","run: redis","twin: okv","twin: redis"]' '[.lines[].text]' cdf --operation get run.json twin.json
    draws '"Distribution of latencies of get"' .title cdf --operation get run.json
    draws '"Distribution of latencies: okv"' .title cdf --target okv run.json
    draws '"It'"'"'s mine"' .title cdf --title "It's mine" run.json

    # Of two files, the one with less under way first, though it did more.
    variant run.json '.parameters.depth = 1 | .targets[].rounds[].operations_per_second *= 2' depth-1.json
    draws '[[220,22],[110,22]]' '.lines[0].parts[0]' load --target okv run.json depth-1.json
    draws '[[220,41],[110,41]]' '.lines[1].parts[0]' load --target okv run.json depth-1.json
    draws '[[100,50],[120,52]]' '.lines[2].parts[0]' load --target okv --operation put run.json

    # A rate is drawn as the time of each: 0.8 of the floor's rate is 1.25 of its time.
    variant floor.json '.parameters.value_size = 4096' floor-4K.json
    draws '[[32,1.2,1.1,1.4],[4096,1.2,1.1,1.4]]' '.lines[0].parts[0]' floor floor-4K.json floor.json
    draws '[[32,1.25,1,2]]' '.lines[1].parts[0]' floor floor.json
    draws '[[[32,1.5,1.3,1.6]]]' '.lines[] | .parts' floor --operation put floor.json
    draws '[[32,"32"],[4096,"4K"]]' .x.tics floor floor-4K.json floor.json
    draws 1 .mark floor floor.json
    variant floor.json '.targets[].rounds[].get_over_copy = 1.5' copy.json
    draws '[[32,1.5,1.5,1.5]]' '.lines[2].parts[0]' floor copy.json
    draws '["GET / READ, p50","GET / READ, time of each","GET / copy and hash, p50","PUT / echo, p50"]' '[.lines[].text]' \
        floor floor.json copy.json

    # A peer has no floor, and no echo is as long as a long value.
    variant floor.json '.targets += [.targets[0] | .name = "redis" | .rounds[] |= { latency }]' peer.json
    draws '["GET / READ, p50","GET / READ, time of each","PUT / echo, p50"]' '[.lines[].text]' floor peer.json
    variant floor.json '.parameters.value_size = 65536 | del(.targets[].rounds[].put_over_echo)' long.json
    draws '[[32,65536],[32]]' '[.lines[0,2].parts[0] | map(.[0])]' floor floor.json long.json

    variant run.json '.parameters.threads = 1 | .parameters.connections = 1' one.json
    draws '[[1,110,100,120],[6,110,100,120]]' '.lines[0].parts[0]' clients run.json one.json

    # Broken where a second had no operations, and between rounds.
    draws '[[[1,40]],[[3,44]],[[4,42]]]' '.lines[1].parts' time --target okv run.json
    draws '["okv p50","okv p99","redis p50","redis p99"]' '[.lines[].text]' time run.json
    # A percentile has the same line in each kind.
    draws '[[0,0],[0,1],[1,0],[1,1]]' '[.lines[] | [.colour, .dash]]' time run.json
    draws '[["okv p50",0],["okv p99",1]]' '[.lines[] | select(.text) | [.text, .dash]]' load --target okv run.json
}

# A bar from 0 for each target, the first on top, with the ends of its rounds.
bars() {
    draws '[[[[110,2,100,120]]],"bar"]' '.lines[0] | [.parts, .style]' targets run.json
    draws '[[2,"okv: 110"],[1,"redis: 10"]]' '[.y.tics[] | [.[0], .[1]]]' targets run.json
    draws '["operations per second: higher is better",0,true]' '[.x.text, .x.from, .x.to >= 120]' targets run.json
    draws '[[[22,1,20,24]]]' '.lines[0].parts' targets --operation get --target okv run.json
    draws '["p50 of get (us): lower is better","okv: 22"]' '[.x.text, .y.tics[0][1]]' targets --operation get --target okv run.json
    draws '[2,1]' '[.lines[].parts[0][0][1]]' targets --operation get floor.json twin.json --target okv
}

captions() {
    draws '["kv-bench 0.1.0 0123456789ab; 2026-11-22","A '"'quoted'"' CPU, 2 CPUs, Linux 6.1 (emulated)"]' \
        '.caption[:2]' cdf run.json
    draws 2 '[.caption[] | select(test("mulated"))] | length' cdf run.json
    draws 0 '[.caption[] | select(test("mulated"))] | length' cdf floor.json
    draws '"emulated processors"' .tag cdf run.json
    draws null .tag cdf floor.json
    # What is too long for one line goes on in the next.
    variant run.json '.parameters.rate = 1000000001' rated.json
    for number in 2 3 4 5 6 7; do variant rated.json ".parameters.rate = ${number}000000001" "rated-$number.json"; done
    draws '[true,3,true]' \
        '[(.caption | all(length <= 135)), (.caption[2:] | length), (.caption[3] | startswith("operations/s due 1000000001/2"))]' \
        load --target okv rated.json rated-?.json
    draws '"workload b; records 1000; key bytes 16; value bytes 32; threads 2; connections 3; depth 1/4; rounds 2"' \
        '.caption[2]' load run.json depth-1.json
    variant run.json '.parameters.workload = null | .parameters.value_sizes = "uniform"' mixed.json
    draws true '.caption[2] | startswith("95 % get, 5 % put; records") and contains("value bytes uniform to 32")' \
        cdf mixed.json
}

# pictures KIND FILE...: both forms, with words and lines in them.
pictures() {
    local kind=$1
    checks=$((checks + 1))
    "$plot" "$@" || { wrong "plot $*: status $?"; return; }
    [ "$(head -c 8 "$kind.png" | od -An -tx1 | tr -d ' ')" = 89504e470d0a1a0a ] || wrong "plot $*: $kind.png is no PNG"
    grep -qx '</svg>' "$kind.svg" || wrong "plot $*: $kind.svg is no whole SVG"
    grep -q 'Linux 6.1' "$kind.svg" || wrong "plot $*: the machine is not below the picture"
    [ "$(grep -c '<path ' "$kind.svg")" -ge 3 ] || wrong "plot $*: there are no lines in $kind.svg"
}

drawings() {
    pictures cdf run.json
    pictures load run.json depth-1.json
    pictures floor floor.json floor-4K.json
    pictures clients run.json one.json
    pictures time run.json
    pictures targets run.json
    # One point is a picture too.
    pictures load --target redis run.json
    checks=$((checks + 1))
    "$plot" -o only --svg cdf run.json
    [ -s only.svg ] || wrong "plot --svg: no picture"
    [ ! -e only.png ] || wrong "plot --svg: made a PNG too"
}

refusals() {
    refuses 2 'no kind is given'
    refuses 2 "there is no kind 'pie'" pie run.json
    refuses 2 'no file is given' cdf
    refuses 2 'there is no option --colour' --colour cdf run.json
    refuses 2 '--title needs a value' cdf run.json --title
    refuses 3 'absent.json: there is no such file' cdf absent.json
    echo '{' >broken.json
    refuses 3 'broken.json: is not a JSON object' cdf broken.json
    echo '{ "schema": "another" }' >another.json
    refuses 3 'another.json: is not a file of kv-bench' cdf run.json another.json
    refuses 3 "run.json: has no target 'valkey'; there are okv, redis" cdf --target valkey run.json
    refuses 3 "run.json: 'redis' has no latency of put; it has get" cdf --operation put run.json
    refuses 3 'targets draws one operation' targets --operation get,put run.json
    refuses 3 "floor.json: 'okv' has no operations_per_second in round 1: is it a run with --floor? name an operation" targets floor.json
    refuses 3 'load draws one operation' load --operation get,put run.json
    refuses 3 "floor.json: 'okv' has no operations_per_second in round 1: is it a run with --floor?" load floor.json
    refuses 3 "run.json: 'okv' has no get_over_read in round 1: is it a run with --floor, and with values that one READ fetches?" \
        floor run.json
    refuses 3 "floor.json: 'okv' has no series.0.second in round 1" time floor.json
    variant run.json 'del(.targets[0].rounds[1].latency.get.histogram)' bare.json
    refuses 3 "bare.json: 'okv' has no latency.get.histogram.0.1 in round 2" cdf bare.json
    variant run.json '.targets[1].outcome |= (.good = false | .why = "3 wrong values")' bad.json
    refuses 3 "bad.json: the run of 'redis' was not good: 3 wrong values" cdf bad.json
    variant run.json '.targets[].rounds = []' loaded.json
    refuses 3 "loaded.json: 'okv' has no rounds" clients loaded.json
    refuses 3 "long.json: 'okv' has no put_over_echo in round 1" floor --operation put long.json
    refuses 3 "peer.json: 'redis' has no get_over_read in round 1" floor --target redis peer.json
    variant floor.json '.parameters.value_sizes = "trace"' trace.json
    refuses 3 'trace.json: its values are not of one size but trace' floor trace.json
    refuses 3 'nowhere/x.svg could not be written' -o nowhere/x cdf run.json
}

points
bars
captions
drawings
refusals
echo "plot: $checks checks, $failures wrong"
[ $failures -eq 0 ]
