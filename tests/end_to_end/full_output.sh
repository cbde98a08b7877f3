#!/usr/bin/env bash
# What a program prints and cannot write: each says so and ends with status 3.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/full_output.sh BUILD_DIR

Runs the programs and examples of BUILD_DIR with each option and command that prints, into /dev/full and into a closed
descriptor. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"

# lost WHAT STATUS: of a run whose output had no room; its messages are in $scratch/err.
lost() {
    same "the status of $1" "$2" 3
    same "what $1 says" "$(grep -cE '(No space left on device|Bad file descriptor|cannot write the output)' "$scratch/err")" 1
}

# full COMMAND...: its output is lost, and it reports that.
full() {
    local status=0 what
    what="$(basename "$1") ${*:2}"
    "$@" >/dev/full 2>"$scratch/err" </dev/null || status=$?
    lost "$what" $status
    status=0
    "$@" >&- 2>"$scratch/err" </dev/null || status=$?
    lost "$what into nothing" $status
    # With room it does what it does.
    status=0
    "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
    same "$what prints" "$([ $status -lt 3 ] && [ -s "$scratch/out" ] && echo yes)" yes
}

of_all_programs() {
    local option program
    for program in "$server" "$okv" "$bench"; do
        for option in --help --usage --version; do
            full "$program" $option
        done
    done
    full "$server" --print-config
}

of_files() {
    start_server "$socket" --data "$scratch/data" --database one
    "$okv" -s "$socket" --database one put key value
    end_server TERM
    full "$server" --check "$scratch/data"
    full "$server" --check "$scratch/data/one"
    salvage_into_full
}

# A salvage has to have another directory each time.
salvage_into_full() {
    local status=0
    "$server" --salvage "$scratch/data" --to "$scratch/salvaged" >/dev/full 2>"$scratch/err" || status=$?
    lost "--salvage" $status
    status=0
    "$server" --check "$scratch/salvaged" >"$scratch/out" 2>"$scratch/err" || status=$?
    same "what was salvaged is whole" $status 0
}

of_okv() {
    local command
    "$okv" put key value
    "$okv" put visits 1
    for command in $("$okv" --help | sed -n 's/^  \([a-z]*\)  *[^ ].*/\1/p' | sort -u); do
        case $command in okv | export) continue ;; esac
        full "$okv" "$command" --help
    done
    full "$okv" get key
    full "$okv" mget key visits
    full "$okv" exists -v key
    full "$okv" scan
    full "$okv" export
    full "$okv" incr visits
    full "$okv" watch key -n 1
    full "$okv" ping -c 1
    full "$okv" probe -n 1
    full "$okv" stat
    full "$okv" stat --json
    full "$okv" stat --all
    full "$okv" top -i 10ms -n 1
    full "$okv" clients
    full "$okv" clients --json
    full "$okv" doctor
    full "$okv" doctor --json
    full "$okv" admin snapshot
    full "$okv" keygen
}

# Longer than a buffer, so that its first part fails before the end.
of_long_output() {
    head -c 200000 /dev/zero | tr '\0' x | "$okv" put long -
    full "$okv" get long
    full "$okv" export
    full "$okv" stat --json --all
    "$okv" del long >/dev/null
}

of_kv_bench() {
    local common=(-t 120s --records 10 --operations 10 --warmup 0 --rounds 1)
    full "$bench" "${common[@]}"
    full "$bench" "${common[@]}" --json -
    full "$bench" "${common[@]}" --csv -
    full "$bench" "${common[@]}" --floor
}

of_examples() {
    local name
    for name in sync async call_many registered session_cache feature_store lease blobs; do
        full "$build/client/examples/example_$name" "$socket"
    done
}

# A server serves, whether or not somebody reads that it does.
of_a_server() {
    local status=0
    "$server" --listen "$socket" --memory 4M >/dev/full 2>"$scratch/log" &
    servers+=($!)
    until grep -q 'does not take the line' "$scratch/log" || ! kill -0 $! 2>/dev/null; do sleep 0.02; done
    same "a server whose output has no room says so" \
        "$(grep -c "standard output does not take the line .ready': No space left on device" "$scratch/log")" 1
    same "it serves" "$("$okv" put key value && "$okv" get key)" value
    kill -TERM "${servers[-1]}"
    wait "${servers[-1]}" || status=$?
    unset 'servers[-1]'
    same "the status of a server that served" $status 0
}

export OKV_SERVER=$socket
of_all_programs
of_a_server
of_files
start_server "$socket" --data "$scratch/served" --memory 64M
of_okv
of_long_output
of_kv_bench
of_examples
end_server TERM
echo "full_output: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
