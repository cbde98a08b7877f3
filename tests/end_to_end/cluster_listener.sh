#!/usr/bin/env bash
# A primary whose soft-RoCE device is removed hands over to a copy that has its own. It changes the network, so it runs
# in the QEMU guest only.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/cluster_listener.sh BUILD_DIR

Runs an etcd and two okv-servers of BUILD_DIR in the guest with two devices (tests/guest/run --net veth). Exits 1 when
something is wrong, 77 elsewhere.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
if [ "${OKV_GUEST_NET:-}" != veth ]; then
    echo "skipped: it needs the guest with two devices, tests/guest/run --net veth"
    exit 77
fi
# shellcheck source=tests/support/cluster.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/cluster.sh"
require_etcd cluster_listener

# leads I: whether server I does.
leads() {
    "$okv" -s "local://$scratch/s$1" stat --json >"$scratch/stat"
    grep -qE '"copies_led": *1' "$scratch/stat"
}

# until_it COMMAND...: waits until it succeeds; a hang ends by the guest's limit.
until_it() {
    until "$@"; do sleep 0.1; done
}

start_etcd
start_member 1 --listen rdma://10.9.9.1 --advertise rdma://10.9.9.1
start_member 2 --listen rdma://10.9.9.2 --advertise rdma://10.9.9.2
await_servers 1 2
cluster 1 create --copies 2 --force --yes >/dev/null
until_it leads 1
"$okv" -s "rdma://10.9.9.1?source=10.9.9.2" put key value
rdma link del rxe0 & # it waits for the server
del=$!
until_it leads 2
same "what the log of the first says" "$(grep -c 'a listener is closed: this server hands over' "$scratch/log1")" 1
same "the item at the second" "$("$okv" -s "rdma://10.9.9.2?source=10.9.9.2" get key)" value
cluster 2 handover >/dev/null
until_it leads 1
sleep 3
checks=$((checks + 1))
if ! leads 1; then # by suspicion it may lose the lead at any time
    leads 2
    same "whether the first hands over only once" "$(grep -cE '"copies_took_over": *0' "$scratch/stat")" 0
fi
kill "${servers[@]}"
wait "$del" || same "the device" "not given back" "given back"
echo "cluster_listener: $checks checks, $failures wrong"
[ $failures -eq 0 ]
