#!/usr/bin/env bash
# What the commands of okv(1) and kv-bench(1) say when the server dies while they are at work.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/dying_server.sh BUILD_DIR

Kills or stops the okv-server of BUILD_DIR in the middle of each command that takes long, with and without
another one in its place. Exit status 0 must mean that everything was done, and any other must come with a
sentence. Over shared memory. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
count=20000
half=$((count / 2))
failures=0 checks=0
patience=1000 # ms that a command waits for an answer
early=no      # a command ended while the server lived
export OKV_SERVER=$socket

wrong() {
    failures=$((failures + 1))
    printf 'WRONG %s: %s\n' "$what" "$1"
    tail -n 5 "$scratch/err" | sed 's/^/      | /'
}

serve() {
    start_server "$socket" --memory 64M --drain-ms 300
}

# dies: the server gets the signal of this turn, and another follows it if one should.
dies() {
    kill "-$signal" "${servers[-1]}"
    wait "${servers[-1]}" 2>/dev/null || true
    unset 'servers[-1]'
    [ "$follows" = no ] || serve 3>&-
}

# until_or_early CONDITION...: waits until it holds. False: the command under way ended first, which says nothing but
# that the machine is slow.
until_or_early() {
    until "$@"; do
        if ! kill -0 "$command" 2>/dev/null; then
            early=yes
            return 1
        fi
        sleep 0.01
    done
}

# in_time SCENARIO...: again with more patience when a command ended early.
in_time() {
    local tries
    for tries in 1 2 3 4 5 6; do
        early=no
        "$@"
        [ $early = yes ] || return 0
        patience=$((2 * patience))
        echo "dying_server: again, with $patience ms for an answer: $what"
    done
    wrong "it ended before the server did, $tries times"
}

# stat_is_from NAME LEAST
stat_is_from() {
    [ "$(patiently stat | sed -n "s/^$1 //p")" -ge "$2" ]
}

lines_are_from() {
    [ "$(wc -l <"$1")" -ge "$2" ]
}

# ended: waits for the command under way and sets `status`.
ended() {
    status=0
    wait "$command" || status=$?
    checks=$((checks + 1))
}

# judge COMPLETE...: with status 0 the command COMPLETE must hold, any other needs a sentence, and 1 says that the
# keys are not there, as after a restart.
judge() {
    if [ $status -eq 0 ]; then
        "$@" || wrong "status 0, and not everything was done"
    elif [ $status -eq 1 ]; then
        [ "$follows" = yes ] || wrong "a miss, without a server that could tell"
    elif [ $status -ne 3 ]; then
        wrong "status $status"
    elif ! grep -Eq '^(okv|kv-bench): [a-z0-9 -]+.*: ' "$scratch/err"; then
        wrong "status 3 without a sentence"
    fi
}

patiently() {
    "$okv" -t 120s "$@"
}

fill() {
    patiently import <"$scratch/items" >/dev/null
}

counted() {
    grep -qx "$1 $2" "$scratch/err"
}

deletes() {
    what="del, $signal, another server: $follows"
    fill
    # shellcheck disable=SC2046 # as many arguments as keys
    timeout 300 "$okv" -t ${patience}ms --counters del $(cat "$scratch/keys") 2>"$scratch/err" &
    command=$!
    until_or_early stat_is_from deletes 1 || { ended; return 0; }
    dies
    ended
    if [ $status -eq 3 ]; then
        grep -Eq '^okv: del: stopped: [0-9]+ of 20000 keys were not tried$' "$scratch/err" ||
            counted deletes $count || wrong "keys were left and it does not say so"
    else
        judge counted deletes $count
        [ $status -ne 1 ] || counted deletes $count || wrong "keys were not tried"
    fi
}

# Keys that come in two halves, between which the server dies.
lookups() {
    what="mget -, $signal, another server: $follows"
    fill
    timeout 300 "$okv" -t ${patience}ms mget - <"$scratch/fifo" >"$scratch/out" 2>"$scratch/err" &
    command=$!
    exec 3>"$scratch/fifo"
    head -n $half "$scratch/keys" >&3 || true
    until_or_early lines_are_from "$scratch/out" $half || { exec 3>&-; ended; return 0; }
    dies
    tail -n +$((half + 1)) "$scratch/keys" >&3 2>/dev/null || true
    exec 3>&-
    ended
    judge cmp -s "$scratch/items" "$scratch/out"
    [ "$follows" = yes ] || [ $status -eq 3 ] || wrong "status $status without a server"
    [ $status -ne 3 ] || grep -q 'were not looked up' "$scratch/err" ||
        wrong "keys were left and it does not say so"
}

# Nothing stands between the server's death and a lookup here: the signal comes at any moment.
lookups_at_any_moment() {
    local ms
    for ms in 004 010 020; do
        what="mget KEY..., $signal after 0.$ms s, another server: $follows"
        fill
        # shellcheck disable=SC2046
        timeout 300 "$okv" -t ${patience}ms mget $(cat "$scratch/keys") >"$scratch/out" 2>"$scratch/err" &
        command=$!
        sleep 0.$ms
        dies
        ended
        judge cmp -s "$scratch/items" "$scratch/out"
        [ "$follows" = yes ] || serve
    done
    [ "$follows" = yes ] || dies
}

imports() {
    what="import, $signal, another server: $follows"
    timeout 300 "$okv" -t ${patience}ms import <"$scratch/fifo" >"$scratch/out" 2>"$scratch/err" &
    command=$!
    exec 3>"$scratch/fifo"
    head -n $half "$scratch/items" >&3 || true
    until_or_early stat_is_from items $((half / 2)) || { exec 3>&-; ended; patiently flush --yes; return 0; }
    dies
    tail -n +$((half + 1)) "$scratch/items" >&3 2>/dev/null || true
    exec 3>&-
    ended
    judge false
}

# listing COMMAND: its output stands still in a full pipe while the server dies.
listing() {
    what="$1, $signal, another server: $follows"
    fill
    timeout 300 "$okv" -t ${patience}ms "$1" >"$scratch/fifo" 2>"$scratch/err" &
    command=$!
    exec 3<"$scratch/fifo"
    head -c 100 <&3 >"$scratch/out"
    dies
    cat <&3 >>"$scratch/out"
    exec 3<&-
    ended
    judge test "$(wc -l <"$scratch/out")" -eq $count
}

# long MOST COMMAND...: how often COMMAND is done when the server dies; what comes behind COMMAND is how often. MOST if
# that is the end; if it goes on with another server, what this build does in about two seconds.
long() {
    local count=500 most=$1 begin took=0
    shift
    while [ "$follows" = yes ] && [ $took -lt 200000 ] && [ $count -lt "$most" ]; do
        count=$((count * 2)) begin=${EPOCHREALTIME/[.,]/}
        "$@" $count >/dev/null
        took=$((${EPOCHREALTIME/[.,]/} - begin))
    done
    [ "$follows" = no ] || count=$((count * 2000000 / took))
    [ "$follows" = yes ] && [ $count -lt "$most" ] || count=$most
    echo "$count"
}

# The command under way has a connection, beside that which asks for the figure.
await_connection() {
    while [ "$(patiently stat | sed -n 's/^sessions //p')" -lt 2 ] && kill -0 $command 2>/dev/null; do :; done
}

# timing COMMAND...: more than can be done before the server dies, which it does 0.3 seconds after it met the command.
timing() {
    what="$*, $signal, another server: $follows"
    timeout 300 "$@" >"$scratch/out" 2>"$scratch/err" &
    command=$!
    await_connection
    sleep 0.3
    dies
    ended
    judge test "$1 $follows" = "$okv yes" # goes on with it
    [ "$follows" = yes ] || serve
}

benchmark() {
    timing "$bench" "$@"
    [ $status -eq 3 ] || wrong "status $status"
    grep -q 'a run whose connection broke has no results' "$scratch/err" || wrong "it does not say what broke"
    [ ! -s "$scratch/out" ] || wrong "it prints figures"
}

# A put whose deadline passed may still be applied: it is not sent again.
import_meets_a_stopped_server() {
    what="import, a stopped server"
    timeout 300 "$okv" -t $((3 * patience))ms --counters import <"$scratch/fifo" >"$scratch/out" 2>"$scratch/err" &
    command=$!
    exec 3>"$scratch/fifo"
    head -n 1 "$scratch/items" >&3
    until_or_early stat_is_from items 1 || { exec 3>&-; ended; patiently flush --yes; return 0; }
    halt_server
    sed -n 2p "$scratch/items" >&3
    exec 3>&-
    ended
    kill -CONT "${servers[-1]}"
    [ $status -eq 3 ] || wrong "status $status"
    counted puts 2 || wrong "the put was made more than once"
}

each_command() {
    serve
    in_time deletes
    [ "$follows" = yes ] || serve
    in_time lookups
    [ "$follows" = yes ] || serve
    lookups_at_any_moment
    [ "$follows" = yes ] || serve
    patiently flush --yes
    in_time imports
    [ "$follows" = yes ] || serve
    listing scan
    [ "$follows" = yes ] || serve
    listing export
    [ "$follows" = yes ] || serve
    timing "$okv" -t ${patience}ms ping -c "$(long 1000000 "$okv" ping -c)"
    timing "$okv" -t ${patience}ms probe --size 16K -n "$(long 10000000 "$okv" probe --size 16K -n)"
    benchmark --records 1000 --warmup 0 --seconds 20 --rounds 1
    benchmark --records 1000 --warmup 0 --operations 2000000000 --rounds 1
    signal=TERM follows=no dies
}

seq $count | sed 's/^/key/' >"$scratch/keys"
seq $count | sed 's/.*/key&\tvalue of key &/' >"$scratch/items"
mkfifo "$scratch/fifo"
for signal in KILL TERM; do
    for follows in no yes; do
        each_command
    done
done
serve
follows=no
in_time import_meets_a_stopped_server
echo "dying_server: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
