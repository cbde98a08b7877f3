#!/usr/bin/env bash
# Where a user may have few threads: each program says so, and names the limits.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/threads.sh BUILD_DIR

Runs the okv-server and the kv-bench of BUILD_DIR as a user without other processes, under each low limit on threads
(ulimit -u). As root; exits 1 when something is wrong, 77 without root.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
[ "$(id -u)" -eq 0 ] || { echo "threads: left out: only root can act as another user"; exit 77; }
# A sanitizer has a thread of its own at the end of a program.
[ -z "$(sed -n 's/^OKV_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")" ] || { echo "threads: left out: sanitizers"; exit 77; }

# Nobody else has it: the limit counts all threads of a user.
user=$((61000 + $$ % 4000))
chmod 755 "$scratch"
mkdir "$scratch/of" "$scratch/programs"
chown $user "$scratch/of"
cp "$server" "$bench" "$build"/client/libokv.so.* "$scratch/programs" # its folders may be closed to others
[ -z "$(find "$build/shared" -name 'libokv-ofi.so.*')" ] || cp "$build"/shared/libokv-ofi.so.* "$scratch/programs"

# "${limited[@]}" THREADS COMMAND...: runs as the user, with at most THREADS threads.
# shellcheck disable=SC2016 # for the shell that has the limit
limited=(setpriv --reuid "$user" --regid "$user" --clear-groups --pdeathsig KILL
    env LD_LIBRARY_PATH="$scratch/programs" bash -c 'ulimit -u "$1" && shift && exec "$@"' limited)

# names WHAT STATUS: the program ended so, and says what is missing, on one line of its own.
names() {
    same "the status of $1" "$2" 3
    same "$1 names threads" "$(grep -c 'no more threads: .*ulimit -u.*pids\.max' "$scratch/err")" 1
    same "$1 speaks of memory" "$(grep -c 'memory' <(grep 'no more threads' "$scratch/err"))" 0
}

# from_one WHAT ARGUMENT...: a server with these under one thread, two, and so on, until it serves. Sets `needed`.
from_one() {
    local what=$1 status
    shift
    for ((needed = 1; needed < 40; needed++)); do
        : >"$scratch/out"
        "${limited[@]}" $needed "$scratch/programs/okv-server" --listen "local://$scratch/of/okv.sock" --memory 4M --workers 2 \
            "$@" >"$scratch/out" 2>"$scratch/err" &
        servers+=($!)
        until grep -q '^ready ' "$scratch/out" || ! kill -0 $! 2>/dev/null; do sleep 0.02; done
        ! grep -q '^ready ' "$scratch/out" || break
        status=0
        wait $! || status=$?
        unset 'servers[-1]'
        names "$what with $needed threads" $status
    done
    same "$what serves at last" "$((needed > 2 && needed < 40))" 1
    end_server TERM
}

from_one "a server"
alone=$needed
from_one "a server with a log and metrics" --data "$scratch/of/data" --metrics 127.0.0.1:0
same "a log and metrics have threads" "$((needed - alone >= 4))" 1
if [[ $(ldd "$server") == *libssl* ]]; then
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$scratch/of/key.pem" -out "$scratch/of/cert.pem" -days 2 \
        -subj /CN=okv 2>/dev/null
    chown "$user" "$scratch/of/key.pem" "$scratch/of/cert.pem"
    from_one "a server with TLS" --listen "resps://127.0.0.1:$((20000 + RANDOM % 10000))" \
        --tls-cert "$scratch/of/cert.pem" --tls-key "$scratch/of/key.pem"
    same "TLS has a thread" "$((needed > alone))" 1
fi
if [ -n "$(find "$build/shared" -name 'libokv-ofi.so.*')" ]; then
    from_one "a server over TCP" --listen "ofi://127.0.0.1:$((20000 + RANDOM % 10000))"
    same "READs over TCP have threads" "$((needed > alone))" 1
fi

start_server "$socket?uids=any&mode=0666"
status=0
"${limited[@]}" 6 "$scratch/programs/kv-bench" -t 120s -s "$socket" --records 10 --operations 10 --threads 20 \
    >"$scratch/out" 2>"$scratch/err" || status=$?
# It may fail by a thread once more as it removes its items.
sed -i '/items of this run are left/d' "$scratch/err"
names kv-bench $status
same "kv-bench says which thread" "$(grep -c 'cannot start thread [0-9]*: no more threads' "$scratch/err")" 1
end_server TERM
echo "threads: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
