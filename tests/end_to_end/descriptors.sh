#!/usr/bin/env bash
# The server's limit on open files: raised to what its clients may take, as far as that goes. And programs that were
# started without standard input, output or error.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/descriptors.sh BUILD_DIR

Starts the okv-server of BUILD_DIR under limits on open files and looks at the limit that it has then, at what it says,
and at whether as many clients as it allows can connect. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
failures=0 program=$server
# What this script inherits, of a test's driver say, a server would inherit too. (bash reads the script from 255.)
for fd in "/proc/$$/fd/"*; do
    fd=${fd##*/}
    [ "$fd" -le 2 ] || [ "$fd" -eq 255 ] || exec {fd}>&-
done
# shellcheck disable=SC2034 # start_server runs it
server=$scratch/limited

wrong() {
    failures=$((failures + 1))
    echo "WRONG $1: $2"
    sed 's/^/      | /' "$scratch/log"
}

# start SOFT HARD OPTION...: a server under these limits; sets `soft` to the soft one that it has.
start() {
    printf '#!/bin/sh\nulimit -Sn %s && ulimit -Hn %s && exec "%s" "$@"\n' "$1" "$2" "$program" >"$server"
    chmod +x "$server"
    shift 2
    start_server "$socket" "$@"
    soft=$(awk '/^Max open files/ { print $4 }' "/proc/${servers[-1]}/limits")
}

stop() {
    kill "${servers[-1]}"
    wait "${servers[-1]}" || wrong "a server" "it ended with $?"
    unset 'servers[-1]'
}

# connect CLIENTS: so many at once, and each is served.
connect() {
    "$bench" -t 120s -s "$socket" --records 100 --warmup 0 --operations 1000 --connections "$1" >"$scratch/out" 2>&1
}

# Three descriptors for each of 60 clients are more than 110.
start 110 4096 --max-clients 64 --max-clients-per-address 0 --workers 1
[ $((soft >= 64 * 3 && soft < 4096)) -eq 1 ] || wrong "a limit that can be raised" "it is $soft"
! grep -q 'open files' "$scratch/log" || wrong "a limit that can be raised" "the server complains"
connect 60 || wrong "60 clients" "$(tail -n 1 "$scratch/out")"
stop

start 110 300 --max-clients 64 --max-clients-per-address 0 --workers 1
[ "$soft" -eq 300 ] || wrong "a hard limit that is too low" "the soft one is $soft"
line='okv-server: the hard limit on open files is 300, and 64 clients may take [0-9]*: .*ulimit -Hn.*--max-clients'
[ "$(grep -c "$line" "$scratch/log")" -eq 1 ] || wrong "a hard limit that is too low" "the server does not say so"
connect 10 || wrong "10 clients" "$(tail -n 1 "$scratch/out")"
fewer=$("$okv" -s "$socket" stat | awk '$1 == "max_clients" { print $2 }')
[ $((fewer > 10 && fewer * 3 + 128 < 300)) -eq 1 ] || # 128 may be pending
    wrong "a hard limit that is too low" "the server takes $fewer clients"
stop

start 100 100 --max-clients 4 --workers 1
line='okv-server: the hard limit on open files is 100, and the server needs [0-9]*: .*ulimit -Hn'
[ "$(grep -c "$line" "$scratch/log")" -eq 1 ] || wrong "a hard limit below that of a server" "the server does not say so"
stop

start 1000 1000 --max-clients 4 --workers 1
[ "$soft" -eq 1000 ] || wrong "a limit that is high enough" "it is $soft"
! grep -q 'open files' "$scratch/log" || wrong "a limit that is high enough" "the server complains"
stop

# A socket or a file in the place of one that is closed would get what the program prints.
# has_null WHAT DESCRIPTOR...: the process that was started last has /dev/null there once it serves, or is served.
has_null() {
    local what=$1 fd
    shift
    for fd; do
        [ "$(readlink "/proc/$!/fd/$fd")" = /dev/null ] || wrong "$what" "descriptor $fd is $(readlink "/proc/$!/fd/$fd")"
    done
    kill -KILL $!
    wait $! || true
}

# served CLIENTS: waits until the server has so many; `okv clients` lists itself, too, below a title.
served() {
    for ((i = 0; i < 1200; i++)); do
        [ "$("$okv" -s "$socket" clients 2>/dev/null | wc -l)" -ne $(($1 + 2)) ] || return 0
        sleep 0.1
    done
    wrong "the clients of a server" "there are never $1"
}

mkfifo "$scratch/stays"
setpriv --pdeathsig KILL "$program" --listen "$socket" --memory 16M --data "$scratch/data" <&- >&- 2>&- &
served 0
"$okv" -s "$socket" put key value
[ ! -s "$scratch/data/default/lock" ] || wrong "a server without standard error" "its log is in the lock"
has_null "a server" 0 1 2
server=$program

# A server executes nothing, and a library of its own might: each descriptor is closed then, clients' too. (Those that
# libfabric opens are not a server's to set.)
start_resp_server --data "$scratch/data" --listen "resp://$scratch/resp" --metrics 127.0.0.1:0
"$bench" -s "$socket" --records 10 --seconds 3600 >/dev/null 2>&1 &
client=$!
served 1
metrics=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics.*|\1|p' "$scratch/log")
exec 8<>"/dev/tcp/127.0.0.1/$metrics"
printf 'GET /healthz HTTP/1.1\r\nHost: okv\r\n\r\n' >&8
read -r _ <&8
"$python" -c 'import socket, sys
with socket.socket(socket.AF_UNIX) as redis:
    redis.connect(sys.argv[1])
    redis.sendall(b"PING\r\n")
    redis.recv(7)
    print("there", flush=True)
    sys.stdin.read()' "$scratch/resp" <"$scratch/stays" >"$scratch/redis" &
exec 7>"$scratch/stays"
until [ -s "$scratch/redis" ]; do sleep 0.05; done
several=0
for fd in /proc/"${servers[-1]}"/fdinfo/*; do
    [ "${fd##*/}" -gt 2 ] || continue
    several=$((several + 1))
    flags=$(awk '$1 == "flags:" { print $2 }' "$fd")
    [ $((8#$flags & 8#2000000)) -ne 0 ] ||
        wrong "a descriptor of the server" "$(readlink "${fd/fdinfo/fd}") stays open in a program that is executed"
done
[ $several -gt 20 ] || wrong "the descriptors of a server" "there are only $several"
exec 7>&- 8>&-
kill -KILL $client
wait $client 2>/dev/null || true
end_server TERM

start_server "$socket"
"$bench" -s "$socket" --records 10 --seconds 3600 <&- >&- 2>&- &
served 1
has_null kv-bench 0 1 2
served 0
mkfifo "$scratch/commands"
"$okv" -s "$socket" shell <"$scratch/commands" >&- 2>&- &
exec 9>"$scratch/commands"
echo "put key two" >&9
served 1
has_null okv 1 2
end_server TERM

echo "descriptors: $failures wrong"
[ $failures -eq 0 ]
