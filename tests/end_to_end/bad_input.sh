#!/usr/bin/env bash
# What people get wrong: each program must say in one line what is wrong and what to do about it,
# with the exit status of its manual, within 5 seconds.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/bad_input.sh BUILD_DIR

Runs the okv-server, okv and kv-bench of BUILD_DIR with bad input and checks what they say. In the
QEMU guest (OKV_GUEST is set) also what needs an RDMA device. Exits 1 when something is wrong.
TEXT
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
    '' | -*) usage >&2; exit 2 ;;
esac
build=$(cd "$1" && pwd)
server=$build/server/okv-server okv=$build/client/cli/okv bench=$build/bench/kv-bench
scratch=$(mktemp -d /tmp/okv-bad-input.XXXXXX)
socket=local://$scratch/okv.sock
servers=()
failures=0 checks=0
unset OKV_SERVER

cleanup() {
    local pid
    for pid in "${servers[@]}"; do
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$scratch"
}
trap cleanup EXIT

wrong() {
    failures=$((failures + 1))
    printf 'WRONG %s: %s\n' "$what" "$1"
    sed 's/^/      | /' "$scratch/err"
}

# check WHAT STATUS CAUSE FIX COMMAND...: the command fails with STATUS and one line that matches CAUSE
# and FIX (extended regular expressions). Sets `message` to that line.
check() {
    local status=0 expected=$2 cause=$3 fix=$4 lines
    what=$1
    shift 4
    checks=$((checks + 1))
    timeout -k 5 5 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
    # argp adds where to find all options; that is no part of the message.
    message=$(sed '/^Try .* for more information\.$/d' "$scratch/err")
    lines=$(printf '%s\n' "$message" | wc -l)
    if [ $status -eq 124 ] || [ $status -eq 137 ]; then
        wrong "took longer than 5 seconds"
    elif [ $status -ne "$expected" ]; then
        wrong "exit status $status and not $expected"
    elif [ -z "$message" ] || [ "$lines" -ne 1 ]; then
        wrong "$lines lines and not one"
    elif [[ ! $message =~ ^([^ ]*/)?(okv|okv-server|kv-bench)(\ [a-z]+)?:\  ]]; then
        wrong "the line does not say which program speaks"
    elif [[ ! $message =~ $cause ]]; then
        wrong "no cause like /$cause/"
    elif [[ ! $message =~ $fix ]]; then
        wrong "no advice like /$fix/"
    elif [ -s "$scratch/out" ] && [ "$1" != "$bench" ]; then
        wrong "something is on standard output"
    fi
    [ -z "${VERBOSE:-}" ] || printf '%-40s %s\n' "$what" "$message"
}

# start_server URI: a server that is ready.
start_server() {
    "$server" --listen "$1" --memory 16M >"$scratch/ready" 2>"$scratch/log" &
    servers+=($!)
    local tries=0
    until grep -q '^ready ' "$scratch/ready"; do
        sleep 0.1
        tries=$((tries + 1))
        if [ $tries -gt 300 ] || ! kill -0 "${servers[-1]}" 2>/dev/null; then
            echo "the server at $1 did not start:"
            cat "$scratch/log"
            exit 1
        fi
    done
}

# key LENGTH: a key of that many bytes.
key() {
    printf "%*s" "$1" '' | tr ' ' k
}

command_lines() {
    local size uri
    check "an argument that is no option (server)" 2 'here' 'no option' "$server" here
    check "an unknown option (server)" 2 'nonsense' '.' "$server" --nonsense
    check "an unknown option (okv)" 2 'nonsense' '.' "$okv" --nonsense ping
    check "an unknown option of a command" 2 'nonsense' '.' "$okv" ping --nonsense
    check "an unknown option (bench)" 2 'nonsense' '.' "$bench" --nonsense
    check "an unknown command" 2 'frobnicate' 'okv --help' "$okv" -s "$socket" frobnicate
    for size in 12Q 0 1K -1 '' 99999999999999999999 16M16; do
        check "--memory '$size'" 2 'memory' '[0-9]+ ?[KMG]' \
            "$server" --listen "$socket" "--memory=$size"
    done
    check "--max-clients 0" 2 'max-clients' 'from 1 to' "$server" --listen "$socket" --max-clients 0
    for size in 100 500 8K 1M; do
        check "--bucket-size $size" 2 'bucket-size' '256|power of two' \
            "$server" --listen "$socket" --memory 16M --bucket-size "$size"
    done
    for uri in http://10.0.0.1 10.0.0.1 rdma:// rdma://host:99999 rdma://host:port local:// local://relative \
        local:///directory/ ''; do
        check "$uri (server)" 2 '.' '(rdma|local)://' "$server" --listen "$uri" --memory 16M
        [ -n "$uri" ] || continue
        check "$uri (okv)" 2 '.' '(rdma|local)://' "$okv" -s "$uri" ping
        check "$uri (bench)" 2 '.' '(rdma|local)://' "$bench" -s "$uri" --records 10
    done
}

nobody_listens() {
    check "no such socket (okv)" 3 'no server listens' 'okv-server --listen' "$okv" -s "$socket" ping
    check "no such socket (bench)" 3 'no server listens' 'okv-server --listen' "$bench" -s "$socket" --records 10
    # Root's is not for a test to use; it may be somebody's.
    if [ ! -e /run/okv.sock ]; then
        check "no server named (okv)" 3 'no server listens' '-s URI or set OKV_SERVER' \
            env "XDG_RUNTIME_DIR=$scratch" "$okv" ping
        check "no server named (bench)" 3 'no server listens' '-s URI or set OKV_SERVER' \
            env "XDG_RUNTIME_DIR=$scratch" "$bench" --records 10
    fi
    check "no such directory (server)" 3 'directory' 'create|choose' \
        "$server" --listen "local://$scratch/no/such" --memory 16M
    : >"$scratch/file"
    check "a file in the way (server)" 3 'not a socket' 'remove|choose' \
        "$server" --listen "local://$scratch/file" --memory 16M
    check "a file, not a socket (okv)" 3 'no server listens' 'okv-server --listen' \
        "$okv" -s "local://$scratch/file" ping
}

# The three results that people mix up have three messages, and a miss its own status.
keys_and_values() {
    local of_key of_value of_miss
    for length in 0 1025; do
        check "put of a key of $length bytes" 3 '1 to 1024' '.' "$okv" -s "$socket" put "$(key $length)" value
        check "get of a key of $length bytes" 3 '1 to 1024' '.' "$okv" -s "$socket" get "$(key $length)"
        check "del of a key of $length bytes" 3 '1 to 1024' '.' "$okv" -s "$socket" del "$(key $length)"
    done
    of_key=$message
    check "a value over the limit" 3 'larger than the server' 'okv stat|split' \
        "$okv" -s "$socket" put large "$(key 100000)"
    of_value=$message
    check "an unknown key (get)" 1 'not in the table' '.' "$okv" -s "$socket" get unknown
    of_miss=$message
    check "an unknown key (del)" 1 'not in the table' '.' "$okv" -s "$socket" del unknown
    if [ "$of_key" = "$of_value" ] || [ "$of_key" = "$of_miss" ] || [ "$of_value" = "$of_miss" ]; then
        what="keys and values" wrong "two of three results have one message"
    fi
    "$okv" -s "$socket" put first 1
    "$okv" -s "$socket" put last 1
    check "a bad key among good ones (del)" 3 '1 to 1024' '.' "$okv" -s "$socket" del first '' last
    check "the good key after it" 1 'not in the table' '.' "$okv" -s "$socket" get last
    check "a bad key before a miss (mget)" 3 '1 to 1024' '.' "$okv" -s "$socket" mget '' unknown
    # shellcheck disable=SC2016 # for the inner shell
    check "an empty line before a miss (mget)" 3 '1 to 1024' '.' \
        bash -c 'printf "\nunknown\n" | "$1" -s "$2" mget -' mget "$okv" "$socket"
    check "a value size over the limit (bench)" 3 'larger than|value' '.' \
        "$bench" -s "$socket" --records 10 --value-size 1M --seconds 1
}

huge_pages() {
    local free overcommit
    free=$(awk '/^HugePages_Free/ { print $2 }' /proc/meminfo)
    overcommit=$(cat /proc/sys/vm/nr_overcommit_hugepages 2>/dev/null || echo 0)
    if [ "${free:-0}" -ne 0 ] || [ "$overcommit" -ne 0 ]; then
        echo "left out: no huge pages (this machine has some)"
        return
    fi
    check "no huge pages" 3 'huge pages' 'nr_hugepages|--huge' \
        "$server" --listen "local://$scratch/huge.sock" --memory 64M --huge
}

no_device() {
    if [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
        echo "left out: no RDMA device (this machine has one)"
        return
    fi
    local fix='rdma link|rdma_rxe|local://|load|modprobe|driver|install'
    check "no RDMA device (server)" 3 'RDMA' "$fix" "$server" --listen rdma://127.0.0.1 --memory 16M
    check "no RDMA device (server, *)" 3 'RDMA' "$fix" "$server" --listen 'rdma://*' --memory 16M
    check "no RDMA device (okv)" 3 'RDMA' "$fix" "$okv" -s rdma://10.1.2.3 ping
    check "no RDMA device (bench)" 3 'RDMA' "$fix" "$bench" -s rdma://10.1.2.3 --records 10
}

# locked KILOBYTES COMMAND...: runs it with that limit on locked memory and without the privilege that
# lifts it.
locked() {
    local limit=$1
    shift
    # shellcheck disable=SC2016 # for the inner shell
    setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \
        bash -c 'ulimit -l "$1"; shift; exec "$@"' locked "$limit" "$@"
}

with_a_device() {
    local address=$OKV_GUEST_ADDR
    export -f locked
    check "no server listens (rdma)" 3 'no server listens' 'okv-server' "$okv" -s "rdma://$address:7499" ping
    check "no server listens (rdma, bench)" 3 'no server listens' 'okv-server' \
        "$bench" -s "rdma://$address:7499" --records 10
    check "a host that does not answer" 3 '.' 'check' "$okv" -s rdma://10.9.9.77 ping
    check "an address without device (server)" 3 '127\.0\.0\.1' 'rdma link|address|device' \
        "$server" --listen rdma://127.0.0.1 --memory 16M
    check "an address that is not here (server)" 3 '192\.0\.2\.1' 'ip addr|address' \
        "$server" --listen rdma://192.0.2.1 --memory 16M
    # shellcheck disable=SC2016 # for the inner shell
    check "not enough locked memory (server)" 3 'lock' 'ulimit -l' \
        bash -c 'locked 64 "$@"' locked "$server" --listen "rdma://$address:7498" --memory 16M
    start_server "rdma://$address"
    check "a port in use" 3 'in use|already' 'stop|another port|choose' \
        "$server" --listen "rdma://$address" --memory 16M
    # shellcheck disable=SC2016 # for the inner shell
    check "not enough locked memory (okv)" 3 'lock' 'ulimit -l' \
        bash -c 'locked 64 "$@"' locked "$okv" -s "rdma://$address" ping
    check "a socket of the wrong kind" 3 'no server listens' 'okv-server' "$okv" -s "$socket.none" ping
    socket=rdma://$address
    keys_and_values
}

unresolvable_hosts() {
    local host=no-such-host.invalid
    check "an unresolvable host (server)" 3 "$host|RDMA" 'check|give|load' "$server" --listen "rdma://$host" --memory 16M
    check "an unresolvable host (okv)" 3 "$host|RDMA" 'check|give' "$okv" -s "rdma://$host" ping
    check "an unresolvable host (bench)" 3 "$host|RDMA" 'check|give' "$bench" -s "rdma://$host" --records 10
}

command_lines
nobody_listens
huge_pages
unresolvable_hosts
if [ -n "${OKV_GUEST:-}" ]; then
    with_a_device
else
    no_device
    start_server "$socket"
    check "a socket in use" 3 'already listens' 'stop|choose' "$server" --listen "$socket" --memory 16M
    keys_and_values
    kill -KILL "${servers[-1]}"
    wait "${servers[-1]}" 2>/dev/null || true
    check "the socket of a killed server" 3 'no server listens' 'okv-server --listen' "$okv" -s "$socket" ping
fi
echo "bad_input: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
