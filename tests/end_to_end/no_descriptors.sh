#!/usr/bin/env bash
# A server without a descriptor for another client: clients wait, whatever they connect to, and the log says so once.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/no_descriptors.sh BUILD_DIR

Runs the okv-server of BUILD_DIR and takes its descriptors away. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"

# limit NUMBER: of the server's open files.
limit() {
    prlimit --pid "${servers[-1]}" --nofile="$1":
}

# The server can open nothing more when this returns.
take_descriptors() {
    local next=0
    while [ -e "/proc/${servers[-1]}/fd/$next" ]; do next=$((next + 1)); done
    limit $next
}

# lines URI: how often the log says that clients wait there.
lines() {
    grep -cF "$1: no client can be accepted" "$scratch/log" || true
}

# ask PORT REQUEST: the first line of the answer.
ask() {
    exec 3<>"/dev/tcp/127.0.0.1/$1"
    printf '%s\r\n\r\n' "$2" >&3
    head -n 1 <&3 | tr -d '\r'
    exec 3>&-
}

# waits WHAT URI COMMAND...: its client waits while there is no descriptor, and is served then.
waits() {
    local what=$1 uri=$2 pid status=0
    shift 2
    take_descriptors
    "$@" >"$scratch/answer" 2>"$scratch/err" &
    pid=$!
    until [ "$(lines "$uri")" = 1 ]; do sleep 0.01; done
    limit "$all"
    wait "$pid" || status=$?
    same "the end of $what" "$status" 0
    same "lines of $what" "$(lines "$uri")" 1
}

start_resp_server --metrics 127.0.0.1:0
all=$(awk '/^Max open files/ { print $4 }' "/proc/${servers[-1]}/limits")
metrics=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics.*|\1|p' "$scratch/log")
waits "a client of libokv" "$socket" "$okv" -s "$socket" --timeout 60s put key value
waits "a client of Redis" "resp://127.0.0.1:$port" ask "$port" PING
same "its answer" "$(cat "$scratch/answer")" +PONG
waits "a client of metrics" "http://127.0.0.1:$metrics/metrics" ask "$metrics" 'GET /healthz HTTP/1.0'
same "its answer" "$(cut -d ' ' -f 2 "$scratch/answer")" 200

echo "$checks checks, $failures failures"
[ "$failures" = 0 ]
