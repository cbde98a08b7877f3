# shellcheck shell=bash
# For scripts that run the programs of the build that their first argument names: source this, with a
# function `usage` defined. Sets `build`, an absolute path, `server`, `okv`, `bench` and `python`, a directory
# `scratch`, and `socket`, a URI in it where nobody listens yet. What start_server started ends with the
# script, also with one that is killed, and the directory goes.

case ${1:-} in
    --help | -h) usage; exit 0 ;;
    '' | -*) usage >&2; exit 2 ;;
esac
build=$(cd "$1" && pwd)
# shellcheck disable=SC2034 # for whoever sources this
server=$build/server/okv-server okv=$build/client/cli/okv bench=$build/bench/kv-bench
scratch=$(mktemp -d /tmp/okv-test.XXXXXX)
# shellcheck disable=SC2034 # likewise
socket=local://$scratch/okv.sock
servers=()
# The one that Debian's packages of modules are for, also where another comes first.
python=/usr/bin/python3
[ -x $python ] || python=python3
unset OKV_SERVER
export OKV_LOG_FORMAT=text # also in a file
LSAN_OPTIONS=suppressions=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/lsan.supp:print_suppressions=0
export LSAN_OPTIONS

programs_end() {
    local pid
    for pid in "${servers[@]}"; do
        kill -CONT "$pid" 2>/dev/null || true # a script that failed may have left it stopped
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$scratch"
}
trap programs_end EXIT

# What `same` has counted.
checks=0 failures=0
# same WHAT A B: the two are equal. Else it says so, with what was written last to $scratch/err.
same() {
    checks=$((checks + 1))
    [ "$2" = "$3" ] && return
    failures=$((failures + 1))
    printf 'WRONG %s: %s and not %s\n' "$1" "$2" "$3"
    [ ! -e "$scratch/err" ] || tail -n 3 "$scratch/err" | sed 's/^/      | /'
}

# try_server URI [ARGUMENT...]: a server that is ready; its process is the last of `servers`. False: it is not, and
# $scratch/log says why. With $OKV_TEST_DATA it has a log of its own, unless the arguments name one, and
# $OKV_TEST_SYNC says when that syncs.
try_server() {
    local uri=$1 tries=0 durable=()
    shift
    [ -z "${OKV_TEST_DATA:-}" ] || durable=(--data "$(mktemp -d "$scratch/data.XXXXXX")" --sync "${OKV_TEST_SYNC:-always}")
    : >"$scratch/ready"
    setpriv --pdeathsig KILL "$server" --listen "$uri" --open --memory 16M "${durable[@]}" "$@" \
        >"$scratch/ready" 2>"$scratch/log" &
    servers+=($!)
    until grep -q '^ready ' "$scratch/ready"; do
        sleep 0.1
        tries=$((tries + 1))
        [ $tries -le 1200 ] && kill -0 "${servers[-1]}" 2>/dev/null || return 1
    done
}

# start_server URI [ARGUMENT...]: the same, and the end of the script without it.
start_server() {
    try_server "$@" && return
    echo "the server at $1 did not start:"
    cat "$scratch/log"
    exit 1
}

# start_resp_server [ARGUMENT...]: one at $socket, and for clients of Redis at `port` of 127.0.0.1, which is free; with
# scheme=resps over TLS.
start_resp_server() {
    for _ in {1..20}; do
        port=$((20000 + RANDOM % 10000))
        ! try_server "$socket" --listen "${scheme:-resp}://127.0.0.1:$port" "$@" || return 0
        grep -q 'in use' "$scratch/log" || break
        unset 'servers[-1]'
    done
    echo "the server at port $port did not start:"
    cat "$scratch/log"
    exit 1
}

# end_server SIGNAL: the last of `servers` gets it, and has ended when this returns.
end_server() {
    kill "-$1" "${servers[-1]}"
    wait "${servers[-1]}" || true
    unset 'servers[-1]'
}

# halt_server: the last of `servers` stands still when this returns. kill(1) comes back before: one thread takes
# SIGSTOP, and until it runs to do so the others go on.
halt_server() {
    kill -STOP "${servers[-1]}"
    until ! grep -qv ') [TZ] ' "/proc/${servers[-1]}/task/"*/stat; do sleep 0.01; done
}
