#!/usr/bin/env bash
# The sockets of local:// and resp:// in the file system: what a start removes, and what an end does.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/socket_paths.sh BUILD_DIR

Has the okv-server of BUILD_DIR listen where something else is, where another server listens, and where one was killed.
Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"

# refused WHAT SENTENCE URI: a server does not start there, and says so (an extended regular expression).
refused() {
    local status=0
    timeout -k 5 300 "$server" --listen "$3" --memory 16M >/dev/null 2>"$scratch/err" || status=$?
    same "the status of $1" "$status" 3
    same "the sentence on $1" "$(grep -cE -- "$2" "$scratch/err")" 1
}

# What is no socket of a server that died stays where it is.
things_in_the_way() {
    local scheme thing
    : >"$scratch/file"
    ln -s "$scratch/file" "$scratch/link"
    mkfifo "$scratch/fifo"
    mkdir "$scratch/directory"
    "$python" -c 'import socket, sys, time
socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
socket.bind(sys.argv[1])
time.sleep(600)' "$scratch/datagrams" &
    servers+=($!)
    until [ -S "$scratch/datagrams" ]; do sleep 0.05; done
    for scheme in local resp; do
        for thing in file link fifo directory datagrams; do
            refused "a $thing in the way of $scheme" \
                "$thing (exists and is not a socket|is the socket of another program): choose another path" \
                "$scheme://$scratch/$thing"
            same "a $thing that was in the way of $scheme" "$([ -e "$scratch/$thing" ] && echo there)" there
        done
    done
    end_server TERM
}

# Each server removes its own socket at its end, and not that of one which has the path by now.
sockets_of_others() {
    local scheme path=$scratch/shared
    for scheme in local resp; do
        start_server "$socket.first" --listen "$scheme://$path"
        refused "a socket in use by $scheme" "already listens on $path: stop it, or choose" "$scheme://$path"
        rm "$path" "$path.lock"
        start_server "$socket.second" --listen "$scheme://$path"
        kill "${servers[-2]}"
        wait "${servers[-2]}" || true
        same "the files of a server that took the path, $scheme" "$(cd "$scratch" && echo shared*)" "shared shared.lock"
        unset 'servers[-2]'
        end_server TERM
        same "the files after its end, $scheme" "$(cd "$scratch" && echo shared*)" "shared*"
        start_server "$socket.first" --listen "$scheme://$path"
        end_server KILL
        start_server "$socket.first" --listen "$scheme://$path" # over the socket that was left
        end_server TERM
    done
}

things_in_the_way
sockets_of_others
echo "socket_paths: $checks checks, $failures of them wrong"
[ "$failures" -eq 0 ]
