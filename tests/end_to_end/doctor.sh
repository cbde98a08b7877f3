#!/usr/bin/env bash
# okv doctor: what it says of this host, of a server and of none.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/doctor.sh BUILD_DIR

Has the okv of BUILD_DIR look at this host, at a server and at one that is not there. Exits 1 when it says what is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"

failures=0

# doctor STATUS [OPTION...]: this exit status; what it prints is in $scratch/out.
doctor() {
    local status=0
    "$okv" doctor "${@:2}" >"$scratch/out" 2>"$scratch/err" || status=$?
    [ $status -eq "$1" ] || wrong "doctor ${*:2}: exit status $status, not $1"
}

wrong() {
    failures=1
    echo "WRONG: $*"
    cat "$scratch/out" "$scratch/err"
}

says() {
    grep -qE -- "$1" "$scratch/out" || wrong "it does not say $1"
}

start_server "$socket"
doctor 0 -s "$socket"
says '^ok +transports +.*local'
! grep -q '^ok.*transports.*ofi' "$scratch/out" || says '^ok +libfabric +providers for ofi://, best first: .*(net|tcp)'
says '^ok +route +local://.*: shared memory'
says '^ok +server +connect: [0-9.]+ us$'
says '^ok +server +.* over local: .*none of its CPU time'
says '^ok +server +put: [0-9.]+ us$'
says '^ok +server +get by one-sided READ: [0-9.]+ us$'
says '^ok +server +get by request: [0-9.]+ us$'
says '^ok +server +put and get of 8 KiB: [0-9.]+ us$'
says '^ok +server +delete: [0-9.]+ us$'
says '^0 problems$'
[ -z "$("$okv" -s "$socket" scan)" ] || wrong "it leaves an item"
doctor 0 -s "$socket" --json
[ "$(jq -r '.problems, (.findings | map(select(.what == "server")) | length)' "$scratch/out" | xargs)" = "0 8" ] ||
    wrong "its JSON is another"
doctor 0 -s "$socket" --peer
says "^note +peer +--peer compares the RDMA ports of one server, and $socket names none\$"
says '^ +-> name the server by rdma://ADDRESS$'
end_server TERM
doctor 1 -s "$socket"
says '^problem +server +.*no connection: no server listens'
says '^1 problem$'
doctor 1 -s "$socket" --json
jq -e '.findings[] | select(.what == "server") | .text | test("no server listens")' "$scratch/out" >/dev/null ||
    wrong "its JSON does not say why there is no connection"
jq -e '[.findings[] | select(.level != "ok") | .fix] | length > 0 and all' "$scratch/out" >/dev/null ||
    wrong "a note or a problem has no fix"
start_server "$socket" --memory 1M
head -c 180000 /dev/urandom >"$scratch/value"
for key in a b c d e f; do
    "$okv" -s "$socket" put $key - <"$scratch/value" 2>"$scratch/err" || break
done
doctor 0 -s "$socket"
says '^note +server +[1-9][0-9]* puts were refused'

# A port at which nobody answers: the kernel connects, and no program accepts.
host=127.$((1 + RANDOM % 254)).$((RANDOM % 256)).$((1 + RANDOM % 254))
mkfifo "$scratch/listens"
setpriv --pdeathsig KILL python3 - "$host" >"$scratch/listens" <<'PYTHON' &
import socket, sys, time
listener = socket.create_server((sys.argv[1], 7471))
print("listens", flush=True)
time.sleep(1000)
PYTHON
silent=$!
read -r _ <"$scratch/listens"
doctor 1 -t 500ms -s "tcp://$host"
says '^ok +route +tcp://.* stays on this host$'
says 'firewalls on both hosts and between them pass its port$'
kill $silent

# Providers that the environment hides.
if "$okv" --version | grep -q 'transports:.* ofi'; then
    export FI_PROVIDER=udp
    doctor 0 -s "$socket"
    says '^note +libfabric +providers for ofi://, best first: none; FI_PROVIDER=udp is set, and hides others$'
    says '^ +-> unset FI_PROVIDER$'
    doctor 1 -s ofi://127.0.0.1:1
    says '^problem +libfabric +providers for ofi://, best first: none; FI_PROVIDER=udp is set'
    unset FI_PROVIDER
    doctor 0 -s "$socket"
    says '^ok +libfabric +providers for ofi://, best first: .*(net|tcp)$'
    # To libfabric an empty one names no provider.
    FI_PROVIDER='' doctor 0 -s "$socket"
    says '^note +libfabric +providers for ofi://, best first: none; FI_PROVIDER= is set, and hides others$'
fi

# Without a name it looks at a server on the user's own socket, if there is one.
runtime=$scratch run_as=()
if [ "$(id -u)" -eq 0 ]; then
    runtime=/run/okv-test.$$ run_as=(setpriv --reuid nobody --clear-groups)
    install -d -o nobody "$runtime"
    trap 'rm -rf "$runtime"; programs_end' EXIT
fi
end_server TERM
doctor_of_user() {
    "${run_as[@]}" env XDG_RUNTIME_DIR="$runtime" "$okv" doctor >"$scratch/out" 2>"$scratch/err"
}
if [ ! -e /run/okv/okv.sock ]; then
    doctor_of_user || wrong "doctor without a server: exit status $?"
    says "^note +server +none was named, and none listens at local://$runtime/okv\.sock: none was checked\$"
fi
start_server "local://$runtime/okv.sock?uids=any&mode=0666"
doctor_of_user || wrong "doctor of the default server: exit status $?"
says "^ok +server +local://$runtime/okv.sock over local"
end_server TERM

# What it says of descriptors is what a server has.
asks=$(sed -nE 's/.* open files +.*: ([0-9]+) for 1024 clients$/\1/p' "$scratch/out")
: >"$scratch/ready"
(ulimit -n 1000 && exec setpriv --pdeathsig KILL "$server" --listen "$socket" --memory 1M --workers 4 >"$scratch/ready" 2>"$scratch/log") &
servers+=($!)
until grep -q '^ready' "$scratch/ready" || ! kill -0 "${servers[-1]}"; do sleep 0.05; done
grep -q "the hard limit on open files is 1000, and 1024 clients may take $asks:" "$scratch/log" ||
    wrong "it says that a server takes $asks descriptors, and the server: $(cat "$scratch/log")"
exit $failures
