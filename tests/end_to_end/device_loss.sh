#!/usr/bin/env bash
# A soft-RoCE device that is removed under a server: what the kernel really does, beside device_loss_test with devices
# of the process. It changes the network, so it runs in the QEMU guest only.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/device_loss.sh BUILD_DIR

Runs the programs of BUILD_DIR in the guest with two devices (tests/guest/run --net veth). Exits 1 when something is
wrong, 77 elsewhere.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
if [ "${OKV_GUEST_NET:-}" != veth ]; then
    echo "skipped: it needs the guest with two devices, tests/guest/run --net veth"
    exit 77
fi

wrong() {
    echo "WRONG: $*"
    cat "$scratch/log"
    exit 1
}

# until_it COMMAND...: waits until it succeeds; a hang ends by the guest's limit.
until_it() {
    until "$@"; do sleep 0.1; done
}

is_closed() {
    "$okv" -s "$socket" stat --json >"$scratch/stat"
    grep -qE "\"listeners_closed\": *$1" "$scratch/stat"
}

"$server" --listen rdma://10.9.9.1 --listen rdma://10.9.9.2 --listen "$socket" --open --memory 16M \
    >"$scratch/out" 2>"$scratch/log" &
pid=$!
until_it grep -q ready "$scratch/out"
until_it "$okv" -s "rdma://10.9.9.1?source=10.9.9.2" put key value
rdma link del rxe0 & # it waits for the server
del=$!
until_it is_closed 1
[ "$("$okv" -s "$socket" get key)" = value ] || wrong "the item is gone"
"$okv" -s "$socket" put other value || wrong "the listener on shared memory does not go on"
[ "$("$okv" -s rdma://10.9.9.2?source=10.9.9.2 get other)" = value ] || wrong "the other device does not go on"
grep -qE '"listener_1".*closed: its device is gone' "$scratch/stat" || wrong "okv stat does not say that it is closed"
grep -q 'rdma://10.9.9.1:7471: its device is gone' "$scratch/log" || wrong "the log does not say so"
kill "$pid"
wait "$pid" || wrong "it ended with status $?"
wait "$del" || wrong "the device was not given back"
echo passed
