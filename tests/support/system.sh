# shellcheck shell=bash
# For scripts that install okv and use it there: source this. Sets `root`, the tree, `test`, the script's name, and a
# directory `scratch`, which goes with the script, as do the server that `serve` started and what `unmount` has.
# shellcheck disable=SC2034 # for whoever sources this
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
test=$(basename "$0" .sh)
scratch=$(mktemp -d "/tmp/okv-$test.XXXXXX")
server_pid='' unmount=''

system_end() {
    [ -z "$server_pid" ] || kill "$server_pid" 2>/dev/null || true
    [ -z "$server_pid" ] || wait "$server_pid" 2>/dev/null || true
    [ -z "$unmount" ] || ! mountpoint -q "$unmount" || umount "$unmount"
    rm -rf --one-file-system "$scratch"
}
trap system_end EXIT

skip() {
    echo "$test: skipped: $*"
    exit 77
}

fail() {
    echo "$test: $*" >&2
    exit 1
}

# needs TOOL...: where ./test.sh has installed what is needed, nothing is left out for want of it.
needs() {
    local tool
    for tool in "$@"; do
        command -v "$tool" >/dev/null && continue
        [ -z "${OKV_TEST_REQUIRE_TOOLS:-}" ] || fail "there is no $tool"
        skip "there is no $tool: tests/support/packages.sh package"
    done
}

# logged COMMAND...: quiet when it works.
logged() {
    "$@" >"$scratch/log" 2>&1 || {
        tail -n 40 "$scratch/log"
        fail "$* failed"
    }
}

# mount_proc SYSTEM: for a server in that directory.
mount_proc() {
    unmount=$1/proc
    mount -t proc proc "$unmount"
}

unmount_proc() {
    umount "$unmount"
    unmount=
}

# serve COMMAND...: a server, which is ready when this returns.
serve() {
    : >"$scratch/ready"
    setpriv --pdeathsig KILL "$@" >"$scratch/ready" 2>"$scratch/server" &
    server_pid=$!
    for _ in $(seq 1200); do
        ! grep -q '^ready ' "$scratch/ready" || return 0
        kill -0 $server_pid 2>/dev/null || break
        sleep 0.1
    done
    cat "$scratch/server"
    fail "the server did not start: $*"
}

stop() {
    kill -TERM "$server_pid"
    wait "$server_pid" || fail "the server ended with $?"
    server_pid=
}
