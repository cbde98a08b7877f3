#!/usr/bin/env bash
# A start while the server before is still ending: what that one has is waited for.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/takeover.sh BUILD_DIR

Starts the okv-server of BUILD_DIR where another one has the directory, a port or a socket, and kills that one when it is
waited for, not before. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"

# free_port: of 127.0.0.1.
free_port() {
    "$python" -c 'import socket
with socket.socket() as any: any.bind(("127.0.0.1", 0)); print(any.getsockname()[1])'
}

# react PROCESS SIGNAL COMMAND...: the command, in the background. When it says that it waits, the process gets the
# signal; `self' is the command itself, `child' the process that it waits for. What it says is in $scratch/lines.
react() {
    local target=$1 signal=$2
    shift 2
    rm -f "$scratch/said"
    mkfifo "$scratch/said"
    : >"$scratch/ready"
    : >"$scratch/lines"
    setpriv --pdeathsig KILL "$@" >"$scratch/ready" 2>"$scratch/said" &
    servers+=($!)
    [ "$target" != self ] || target=$!
    local command=$!
    while IFS= read -r line; do
        printf '%s\n' "$line" >>"$scratch/lines"
        [[ $line = *' is in use: waiting '* ]] || continue
        [ "$target" != child ] || target=$(pgrep -P "$command")
        kill "-$signal" "$target" || true
    done <"$scratch/said" &
    reader=$!
}

# ended: waits for the last of `servers`, and for its last line. Sets `status`.
ended() {
    status=0
    wait "${servers[-1]}" || status=$?
    wait "$reader" || true
    unset 'servers[-1]'
}

waits() { grep -c ' is in use: waiting up to 5 s for a server that may be ending$' "$scratch/lines" || true; }

# taken_over WHAT WHERE ARGUMENT...: two servers with these arguments, at a socket each; the second one says that it waits
# for WHERE.
taken_over() {
    local what=$1 where=$2 first
    shift 2
    start_server "$socket.first" "$@"
    first=${servers[-1]}
    react "$first" KILL "$server" --listen "$socket.second" --open --memory 16M "$@"
    until grep -q '^ready ' "$scratch/ready" || ! kill -0 "${servers[-1]}" 2>/dev/null; do sleep 0.02; done
    same "$what is taken over" "$(grep -c '^ready ' "$scratch/ready")" 1
    same "$what is waited for, which is said once" "$(waits)" 1
    same "$what is named" "$(grep -cF -- "$where is in use" "$scratch/lines")" 1
    end_server TERM
    wait "$reader" || true
    wait "$first" 2>/dev/null || true
    unset 'servers[-1]'
}

# given_up WHAT SENTENCE ARGUMENT...: while the first one goes on, a second one ends with its error.
given_up() {
    local what=$1 sentence=$2
    shift 2
    start_server "$socket.first" "$@"
    react "${servers[-1]}" CONT "$server" --listen "$socket.second" --open --memory 16M "$@"
    ended
    same "the status when $what stays in use" $status 3
    same "the lines then" "$(waits) $(grep -c -- "$sentence" "$scratch/lines")" '1 1'
    end_server TERM
}

# interrupted WHAT ARGUMENT...: SIGTERM ends the wait, and nothing is said of an error.
interrupted() {
    local what=$1
    shift
    start_server "$socket.first" "$@"
    react self TERM "$server" --listen "$socket.second" --open --memory 16M "$@"
    ended
    same "the status when SIGTERM ends the wait for $what" $status $((128 + 15))
    same "the lines then" "$(waits) $(grep -cE 'stop that one|choose another' "$scratch/lines")" '1 0'
    end_server TERM
}

# A container starts a server as process 1, for which the kernel drops signals without a handler.
interrupted_as_process_1() {
    if ! unshare --pid --fork true 2>/dev/null; then
        echo "a server that is process 1 is not tried: it needs the right to make a PID namespace" >&2
        return
    fi
    start_server "$socket.first" "$@"
    react child TERM unshare --pid --fork --kill-child "$server" --listen "$socket.second" --open --memory 16M "$@"
    ended
    same "the status when SIGTERM ends the wait of process 1" $status $((128 + 15))
    same "the lines then" "$(waits) $(grep -cE 'stop that one|choose another' "$scratch/lines")" '1 0'
    end_server TERM
}

data=(--data "$scratch/data" --database one)
resp=resp://127.0.0.1:$(free_port)
metrics=127.0.0.1:$(free_port)
taken_over "a directory" "--data $scratch/data" "${data[@]}"
taken_over "a port of Redis" "$resp" --listen "$resp"
taken_over "a socket of Redis" "resp://$scratch/resp" --listen "resp://$scratch/resp"
taken_over "a socket" "local://$scratch/shared" --listen "local://$scratch/shared"
taken_over "a port of metrics" "--metrics $metrics" --metrics "$metrics"
export LD_LIBRARY_PATH=$build/shared # a sanitizer's dlopen() does not see the program's own search path
if [ -n "$(find "$build/shared" -name 'libokv-ofi.so.*')" ]; then
    ofi=ofi://127.0.0.1:$(free_port)
    taken_over "a port over libfabric" "$ofi" --listen "$ofi"
fi
given_up "a directory" "--data $scratch/data: another server has it: stop that one" "${data[@]}"
port_in_use='the port is in use by another program: stop that one, or choose another port'
given_up "a port of Redis" "--listen $resp: $port_in_use" --listen "$resp"
given_up "a port of metrics" "--metrics $metrics: $port_in_use" --metrics "$metrics"
interrupted "a directory" "${data[@]}"
interrupted "a port of Redis" --listen "$resp"
interrupted_as_process_1 --listen "$resp"

# A check of what a killed server leaves.
start_server "$socket" "${data[@]}"
first=${servers[-1]}
react "$first" KILL "$server" --check "$scratch/data"
ended
same "the status of a check after a kill" $status 0
same "the lines then" "$(waits) $(grep -c 'one: whole' "$scratch/ready")" '1 1'
wait "$first" 2>/dev/null || true
unset 'servers[-1]'

# As a service manager does it, with a region that takes a while to free.
for _ in 1 2 3; do
    start_server "$socket" "${data[@]}" --listen "$resp" --metrics "$metrics" --memory 512M --prefault
    kill -KILL "${servers[-1]}"
    if try_server "$socket" "${data[@]}" --listen "$resp" --metrics "$metrics" --memory 512M; then
        same "an item after a kill and a start at once" \
            "$("$okv" -s "$socket" --database one put key value && "$okv" -s "$socket" --database one get key)" value
        end_server KILL
    else
        same "a start at once after a kill" "$(cat "$scratch/log")" ready
        unset 'servers[-1]'
    fi
    wait "${servers[-1]}" 2>/dev/null || true
    unset 'servers[-1]'
done
echo "takeover: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
