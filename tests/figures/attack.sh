#!/usr/bin/env bash
# What honest clients notice of each attack: medians of several runs, as a file for bench/results.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/figures/attack.sh [-n RUNS] BUILD_DIR FILE [OPTION...] [-- ATTACK...]

Runs the attack_test of a build, such as build/release, RUNS (3) times for each attack, one after the other, with
options such as -s 8 and -p 1. Writes to FILE a row for each attack: the medians of the times of puts in us, at rest and
attacked, the medians of their ratios, how many operations of any kind failed in all runs under attack, and the times
from an administrator's kill to the end of the attackers' sessions and from SIGTERM to the end of the server; beside
it the times of puts, gets and opens of each run. A p99 is left out, "-", where those at rest differ by more than a
factor of 2. An attack that is not possible here is left out. Needs jq, and root for -p.

Exit status: 0 done, 1 a run failed and its attack is left out, 2 wrong usage.

example, of all attacks, and the page with them:
  tests/figures/attack.sh build/release docs/results/data/attack/each.json -s 8 -p 1
  bench/results -o docs/results/attack.md docs/results/data/attack/each.json
TEXT
}

environment() {
    local model virtual=''
    model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
    ! grep -q '^flags.* hypervisor' /proc/cpuinfo || virtual=', virtual'
    jq -n --arg processors "${model:-unknown}$virtual, $(nproc) CPUs, $(uname -srm)" --arg date "$(date -u +%F)" \
        --arg okv "$("$build/server/okv-server" --version | sed -n '1s/^okv-server //p'), the commit that has this page" \
        --arg runs "\`attack_test${options[*]:+ ${options[*]}}\`, medians of $runs runs of each attack" \
        '{processors: $processors, date: $date, okv: $okv, runs: $runs}' | sed '2,$s/^/  /'
}

# rows JSON...: that of one attack, of its runs: puts as cells, with the numbers of all operations.
rows() {
    jq -n -c -L "$here/../../bench/report" 'include "results";
        [inputs] as $runs | [$runs[].tables[0].rows] | transpose
        | map({at_rest: map(.at_rest), attacked: map(.attacked)}) as [$put, $get, $open]
        | ([$put, $get, $open | .attacked[].failed] | add) as $failed
        | ($put.at_rest | map(.p99) | max <= 2 * min) as $is_steady
        | def both($name): [$put.at_rest, $put.attacked | map(.[$name]) | median | fixed(1)] | join("; ");
          def ratio($name): [$put.at_rest, $put.attacked] | transpose | map(.[1][$name] / .[0][$name]) | median | fixed(2);
          def ms($name): $runs | map(.[$name] | select(. >= 0)) | if . == [] then "-" else median | fixed(1) end;
          { cells: [$name, both("p50"), ratio("p50"), (if $is_steady then both("p99"), ratio("p99") else "-", "-" end),
                    ($failed | tostring), ms("kill_ms"), ms("stop_ms")],
            put: $put, get: $get, open: $open, kill_ms: ($runs | map(.kill_ms)), stop_ms: ($runs | map(.stop_ms)) }' --arg name "$1" "${@:2}"
}

# measure ATTACK: adds its rows to $scratch/rows. False: a run failed.
measure() {
    local run status
    for ((run = 1; run <= runs; run++)); do
        status=0
        "$build/tests/chaos/attack_test" "${options[@]}" --json "$scratch/$1.$run" "$1" >"$scratch/log" 2>&1 || status=$?
        if [ $status -ne 0 ]; then
            grep -E '^(attack_test:|[^ ]+ +skipped: )' "$scratch/log" || tail -n 5 "$scratch/log"
            return $((status != 77))
        fi
    done
    rows "$1" "$scratch/$1".* | tee -a "$scratch/rows" | jq -r '.cells | join("  ")'
}

write() {
    local columns='["attack", "put, p50 in us", "ratio", "p99 in us", "ratio", "failed", "kill, ms", "stop, ms"]'
    printf '{\n  "schema": "okv-figures-1",\n  "environment": %s,\n' "$(environment)"
    printf '  "tables": [\n    {\n      "columns": %s,\n      "rows": [\n' "$columns"
    sed 's/^/        /; $!s/$/,/' "$scratch/rows"
    printf '      ]\n    }\n  ]\n}\n'
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
runs=3 options=() failed=0
[ "${1-}" != --help ] || { usage; exit 0; }
[ "${1-}" != -n ] || { runs=${2-}; shift 2; }
if [ $# -lt 2 ] || ! [[ $runs =~ ^[1-9][0-9]*$ ]]; then
    usage >&2
    exit 2
fi
build=$1 file=$2
shift 2
while [ $# -gt 0 ] && [ "$1" != -- ]; do
    options+=("$1")
    shift
done
attacks=("${@:2}")
[ ${#attacks[@]} -gt 0 ] || mapfile -t attacks < <("$build/tests/chaos/attack_test" --list)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
: >"$scratch/rows"
for attack in "${attacks[@]}"; do
    measure "$attack" || failed=1
done
write >"$scratch/file"
jq empty "$scratch/file"
cp "$scratch/file" "$file"
exit $failed
