#!/usr/bin/env bash
# Machines with two RDMA devices, and ones that were prepared wrong: what okv doctor says of them, which device a URI
# chooses, and where rdma://* listens. It changes the network, so it runs in the QEMU guest only.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/devices.sh BUILD_DIR

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
failures=0

wrong() {
    failures=$((failures + 1))
    echo "WRONG: $*"
    cat "$scratch/out" "$scratch/err" "$scratch/log" 2>/dev/null || true
}

# runs STATUS COMMAND...: it ends so; $scratch/out and $scratch/err have what it prints.
runs() {
    local status=0
    "${@:2}" >"$scratch/out" 2>"$scratch/err" || status=$?
    [ $status -eq "$1" ] || wrong "${*:2}: exit status $status, not $1"
}

# says PATTERN: what ran last printed such a line.
says() {
    cat "$scratch/out" "$scratch/err" >"$scratch/both"
    grep -qE -- "$1" "$scratch/both" || wrong "it does not say $1"
}

# until_port DEVICE STATE: the device's port is in it.
until_port() {
    until grep -q "$2" "/sys/class/infiniband/$1/ports/1/state"; do sleep 0.1; done
}

# until_gids DEVICE COUNT: as many GIDs of the device are of IPv4 addresses.
until_gids() {
    until [ "$(cat "/sys/class/infiniband/$1/ports/1/gids/"* 2>/dev/null | grep -c '0000:ffff:')" -eq "$2" ]; do
        sleep 0.1
    done
}

a_machine_that_is_well() {
    runs 0 "$okv" doctor
    says '^ok +rxe0 +[0-9]+ queue pairs, .* [1-9][0-9]* bytes inline, .*READs under way: [1-9]'
    says '^ok +rxe0/1 +GID [0-9]+: 10\.9\.9\.1, RoCE v2, chosen by \?device= '
    says '^ok +rxe1/1 +GID [0-9]+: 10\.9\.9\.2, RoCE v2, chosen by \?device= '
    says '^ok +rxe1/1 +4: ACTIVE, Ethernet'
    says '^ok +RDMA CM +'
    says '^0 problems$'
}

# path_is DEVICE URI: the connection leaves by it.
path_is() {
    runs 0 "$okv" -t 60s -s "$2" stat
    says "^connection_path $1 port 1, GID [0-9]+ "
}

a_uri_that_names_a_device() {
    start_server 'rdma://*'
    grep -q '^ready rdma://10\.9\.9\.1:7471 rdma://10\.9\.9\.2:7471$' "$scratch/ready" ||
        wrong "* listens elsewhere: $(cat "$scratch/ready")"
    path_is rxe1 'rdma://10.9.9.1?device=rxe1'
    path_is rxe1 "rdma://10.9.9.1?device=rxe1&port=1&gid=$(gid_index rxe1)"
    path_is rxe0 'rdma://10.9.9.2?device=rxe0&source=10.9.9.1'
    runs 3 "$okv" -s 'rdma://10.9.9.1?device=rxe2' ping
    says 'rxe2 is not an RDMA device of this machine; usable are device=rxe0&port=1&gid=[0-9]+ \(10\.9\.9\.1\), device=rxe1'
    runs 3 "$okv" -s 'rdma://10.9.9.1?device=rxe1&gid=200' ping
    says 'rxe1 has no usable GID 200; usable are'
    runs 3 "$okv" -s 'rdma://10.9.9.1?device=rxe1&source=10.9.9.1' ping
    says 'rxe1 has no GID of 10\.9\.9\.1; usable are'
    runs 0 "$okv" -t 60s doctor -s 'rdma://10.9.9.1?device=rxe1'
    says '^ok +route +.* leaves by rxe1 port 1, GID [0-9]+ \(10\.9\.9\.2\)$'
    says '^ok +server +put and get of 8 KiB: '
    end_server TERM
    start_server 'rdma://*?device=rxe1'
    grep -q '^ready rdma://10\.9\.9\.2:7471$' "$scratch/ready" || wrong "it listens elsewhere: $(cat "$scratch/ready")"
    path_is rxe0 'rdma://10.9.9.2?device=rxe0'
    end_server TERM
}

gid_index() {
    basename "$(grep -l '0000:ffff:' "/sys/class/infiniband/$1/ports/1/gids/"* 2>/dev/null | head -n 1)"
}

# Both ends are this machine, by another device each.
both_ends() {
    local uri='rdma://10.9.9.1?source=10.9.9.2'
    start_server 'rdma://*'
    runs 0 "$okv" -t 60s -s "$uri" doctor --peer
    says '^ok +peer +this host: rxe1/1, 10\.9\.9\.2 \(GID [0-9]+\).*, MTU 4200, soft-RoCE$'
    says '^ok +peer +the server: rxe0/1, 10\.9\.9\.1 \(GID [0-9]+\).*, MTU 4200, soft-RoCE$'
    says '^ok +peer +the server: memory on small pages$'
    says '^ok +verdict +a get takes [0-9.]+ us, and batches of 32 do [0-9.e-]+ M/s: soft-RoCE: no NIC to compare with$'
    [ -z "$("$okv" -t 60s -s "$uri" scan)" ] || wrong "it leaves an item"
    ip link set v1 mtu 1500
    runs 1 "$okv" -t 60s -s "$uri" doctor --peer
    says '^problem +peer +the MTU of this host is 1500, that of the server 4200: RDMA packets of 1024 and 4096 bytes$'
    ip link set v1 mtu 4200
    end_server TERM
}

# Without the right there is everything but the facts of the server.
an_end_that_does_not_tell() {
    "$okv" keygen "$scratch/key"
    printf '[alice]\nkey = %s\ndefault = read, write\n' "$(cat "$scratch/key")" >"$scratch/users"
    chmod 600 "$scratch/users"
    start_server rdma://10.9.9.1 --users "$scratch/users"
    runs 0 "$okv" -t 60s -s 'rdma://10.9.9.1?source=10.9.9.2' --user alice --key-file "$scratch/key" doctor --peer
    says '^ok +peer +this host: rxe1/1, '
    says "^note +peer +what the server's host says of its ports takes the right admin\$"
    says '^ok +verdict .* no NIC to compare with$'
    end_server TERM
}

# Long packets are dropped by the end with the small MTU, which the sender does not know.
a_small_mtu_on_the_way() {
    start_server rdma://10.9.9.1
    ip link set v0 mtu 1500
    runs 1 "$okv" -t 10s doctor -s 'rdma://10.9.9.1?device=rxe1'
    says '^note +rxe0/1 +MTU of v0 is 1500'
    says 'the same MTU \(4096 bytes here, 1024 there\)'
    says '^problem +server '
    ip link set v0 mtu 4200
    end_server TERM
}

little_locked_memory() {
    runs 0 setpriv --reuid 65534 --clear-groups bash -c "ulimit -l 64; exec '$okv' doctor"
    says '^note +locked memory +64 KiB: over rdma:// all memory of a server must fit, and 1.3 MiB for each handle of a client$'
    says '-> memlock in limits.conf\(5\), and log in again'
}

a_device_without_an_address() {
    ip addr flush dev v1
    until_gids rxe1 0
    runs 0 "$okv" doctor
    says '^note +rxe1/1 +no GID with an address that other hosts reach'
    says '-> ip addr add ADDRESS/24 dev v1'
    ip addr flush dev v0
    until_gids rxe0 0
    runs 1 "$okv" doctor
    says '^problem +rxe0/1 +no GID with an address'
    says '^2 problems$'
    ip addr add 10.9.9.1/24 dev v0
    until_gids rxe0 1
    ip addr add 10.9.9.2/24 dev v1
    until_gids rxe1 1
}

ports_that_are_down() {
    ip link set v1 down # which takes the carrier of v0
    until_port rxe0 DOWN
    until_port rxe1 DOWN
    runs 1 "$okv" doctor
    says '^problem +rxe0/1 +1: DOWN, Ethernet'
    says '-> ip link set v1 up'
    says '^2 problems$'
    runs 3 "$okv" -s 'rdma://10.9.9.1?device=rxe1' ping
    says 'rxe1 is not active; no port here is usable'
    runs 3 "$server" --listen 'rdma://*' --open --memory 16M
    says 'not on rxe0 port 1, which is not active'
    says 'no port of the RDMA devices here is usable'
    ip link set v1 up
    until_port rxe1 ACTIVE
    until_port rxe0 ACTIVE
}

# What was taken by somebody else is not a missing device.
a_taken_port() {
    start_server rdma://10.9.9.1
    runs 3 "$server" --listen rdma://10.9.9.1 --open --memory 16M
    says '--listen rdma://10\.9\.9\.1:7471: the port is in use'
    end_server TERM
}

a_machine_that_is_well
a_uri_that_names_a_device
both_ends
an_end_that_does_not_tell
a_small_mtu_on_the_way
little_locked_memory
a_taken_port
a_device_without_an_address
ports_that_are_down
exit $((failures > 0))
