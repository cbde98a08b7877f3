#!/usr/bin/env bash
# Installs what is missing, builds okv and shows it at work on this machine's own package list.
set -euo pipefail
cd "$(dirname "$0")"

usage() {
    cat <<'TEXT'
usage: ./demo.sh [--local | --guest]

Shows okv at work: imports this machine's package list, looks it up, changes it, keeps reading
while the server process is stopped, measures a get against a raw RDMA READ, kills a durable server,
which has every item when it is started again, and kills one of two servers, of which the other goes on.

It runs over RDMA: on this machine's own device if it has one with an address, on a soft-RoCE
device that it makes and takes away again if the kernel can, and else in a small QEMU guest.
Building takes a minute or two on two cores, the demonstration 20 seconds, in the guest 2 minutes.

  --local   over shared memory instead, without RDMA: 20 seconds once it is built
  --guest   in the QEMU guest even if this machine has RDMA

On a Debian or Ubuntu machine, as root or with sudo. Installs missing packages, leaves nothing running.
TEXT
}

build=build/demo
okv=$build/client/cli/okv
bench=$build/bench/kv-bench
softroce_link=okv-demo0 softroce_device=okv_demo softroce_address=198.18.77.1

step() {
    printf '\n\033[1m== %s\033[0m\n' "$*"
}

show() {
    printf '$ %s\n' "$*"
    "$@"
}

# ---- the demonstration itself: here, or started again inside the guest ----

cpu_ticks() {
    awk '{ sub(/.*\) /, ""); print $12 + $13 }' "/proc/$server/stat"
}

# start_server URI [OPTION...]
start_server() {
    : >"$work/ready"
    "$build/server/okv-server" --listen "$1" --open --memory 64M --log-format text "${@:2}" >"$work/ready" 2>"$work/server.log" &
    server=$!
    for _ in $(seq 300); do
        grep -q ^ready "$work/ready" && break
        kill -0 "$server" 2>/dev/null || { cat "$work/server.log" >&2; exit 1; }
        sleep 0.1
    done
    sed 's/^/  /' "$work/server.log" "$work/ready"
}

end_demonstration() {
    local pid
    for pid in "$server" "${cluster[@]}"; do
        kill -CONT "$pid" 2>/dev/null || true
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    done
    rm -rf "$work"
}

real_data() {
    step "Real input: this machine's packages, name and version"
    dpkg-query -W -f '${binary:Package}\t${Version}\n' >"$work/packages.tsv"
    cut -f 1 "$work/packages.tsv" >"$work/names"
    show "$okv" import <"$work/packages.tsv"
    show "$okv" get bash
    echo
    show "$okv" put bash "my own build"
    show "$okv" get bash
    echo
    show "$okv" del bash
    show "$okv" get bash || echo "  exit status $?: a miss"
    echo '$ okv export | sort   compared with what was imported, less the key that was deleted'
    "$okv" export | LC_ALL=C sort >"$work/exported"
    grep -v "^bash$(printf '\t')" "$work/packages.tsv" | LC_ALL=C sort | cmp - "$work/exported"
    echo "  equal: $(wc -l <"$work/exported") items"
}

# What an application asks of a store besides put and get.
more_than_put_and_get() {
    step "Conditions, counters, expiry, large values"
    show "$okv" put lock "worker 1" --if-absent
    show "$okv" put lock "worker 2" --if-absent || echo "  exit status $?: it is taken"
    show "$okv" incr visits 41
    show "$okv" incr visits
    show "$okv" put session alice --ttl 3s
    show "$okv" get session
    echo
    sleep 4
    show "$okv" get session || echo "  exit status $?: expired"
    head -c 3000000 /dev/urandom >"$work/blob"
    echo '$ okv put blob - <3,000,000 random bytes   the server READs them out of the client'
    "$okv" put blob - <"$work/blob"
    show "$okv" get blob -o "$work/blob.back"
    cmp "$work/blob" "$work/blob.back" && echo "  equal"
    show "$okv" del lock visits blob
    "$okv" stat | grep -E '^ *(items|buckets|splits|extra_reads_per_1000) ' | sed 's/^ */  /'
}

# A client that is connected before the server is stopped looks up every name afterwards.
stopped_server() {
    local before after
    step "The server process is stopped (SIGSTOP); every package is looked up"
    mkfifo "$work/keys"
    "$okv" --counters mget - <"$work/keys" >"$work/found" 2>"$work/counters" &
    local reader=$!
    exec 3>"$work/keys"
    grep -v -m 1 '^bash$' "$work/names" >&3
    while [ ! -s "$work/found" ]; do sleep 0.05; done
    kill -STOP "$server"
    before=$(cpu_ticks)
    grep -v '^bash$' "$work/names" | tail -n +2 >&3
    exec 3>&-
    wait "$reader"
    after=$(cpu_ticks)
    echo "  state of the server process: $(awk '/^State/ { print $2, $3 }' "/proc/$server/status")"
    echo "  gets answered: $(wc -l <"$work/found"), wrong: $(LC_ALL=C sort "$work/found" |
        LC_ALL=C comm -3 - "$work/exported" | wc -l)"
    sed -n 's/^\(reads\|hits\|requests\) /  client: \1 /p' "$work/counters"
    echo "  server CPU time before and after: $before and $after ticks of 10 ms"
    kill -CONT "$server"
}

# What was answered is there after a kill: a durable server answers when its log has the change.
killed_server() {
    step "A durable server (--data DIR) is killed (kill -9) and started again"
    start_server "$1" --data "$work/data"
    show "$okv" import <"$work/packages.tsv"
    show "$okv" put bash "my own build"
    echo '$ kill -9'
    kill -9 "$server"
    wait "$server" 2>/dev/null || echo "  it is gone"
    start_server "$1" --data "$work/data"
    show "$okv" get bash
    echo
    "$okv" del bash
    echo '$ okv export | sort   compared with what was imported before the kill'
    "$okv" export | LC_ALL=C sort | cmp - "$work/exported"
    echo "  equal: $(wc -l <"$work/exported") items"
    kill "$server"
    wait "$server"
}

# Waits for a command to succeed; 60 s.
await() {
    for _ in $(seq 300); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.2
    done
    echo "demo.sh: this did not succeed: $*" >&2
    exit 1
}

# start_member NAME URI: a server of the cluster "demo".
start_member() {
    "$build/server/okv-server" --listen "$2" --advertise "$2" --open --memory 64M --log-format text \
        --cluster demo --etcd "http://127.0.0.1:$etcd_port" >"$work/$1.log" 2>&1 &
    cluster+=($!)
    await grep -q '^ready' "$work/$1.log"
}

# knows_both URI: the server there knows that both run.
knows_both() {
    [ "$("$okv" -s "$1" cluster status | grep -c '^server')" = 2 ]
}

# What was answered is on the other server, too, and a get never returns an older value.
second_copy() {
    local one two both
    step "A second copy: of two servers the one that leads is killed (kill -9)"
    case $1 in
        local:*)
            one=local://$work/one.sock two=local://$work/two.sock both=okv://$work/one.sock,$work/two.sock/demo ;;
        *)
            one=${1%%\?*}:7481 two=${1%%\?*}:7482 both=${one#*://},${two#*://}
            both="okv://$both/demo?transport=${one%%:*}" ;;
    esac
    etcd_port=$((20000 + RANDOM % 10000))
    etcd --data-dir "$work/etcd" --listen-client-urls "http://127.0.0.1:$etcd_port" --listen-peer-urls http://127.0.0.1:0 \
        --advertise-client-urls "http://127.0.0.1:$etcd_port" >"$work/etcd.log" 2>&1 &
    cluster+=($!)
    start_member one "$one"
    start_member two "$two"
    await knows_both "$one"
    show "$okv" -s "$one" cluster create --copies 2 --force --yes
    show "$okv" -s "$both" import <"$work/packages.tsv"
    show "$okv" -s "$both" put bash "my own build"
    echo '$ kill -9   the one that leads'
    kill -9 "${cluster[1]}"
    wait "${cluster[1]}" 2>/dev/null || echo "  it is gone"
    show "$okv" -s "$both" get bash
    echo
    "$okv" -s "$both" del bash
    echo '$ okv export | sort   compared with what was imported before the kill'
    "$okv" -s "$both" export | LC_ALL=C sort | cmp - "$work/exported"
    echo "  equal: $(wc -l <"$work/exported") items"
    show "$okv" -s "$two" cluster status
}

# What a get is compared with: what it is called, and what both go through.
choose_words() {
    case $1 in
        local:*) floor="raw copy" floors="raw copies" way="the same shared memory" ;;
        *) floor="raw RDMA READ" floors="raw RDMA READs" way="one queue pair" ;;
    esac
}

# Percent of all processors that other programs use while ours wait, for a second.
others_percent() {
    local before after
    before=$(awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9, $5 + $6 }' /proc/stat)
    sleep 1
    after=$(awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 + $9, $5 + $6 }' /proc/stat)
    echo "$before $after" | awk '{ busy = $3 - $1; all = busy + $4 - $2; print (all > 0 ? int(100 * busy / all) : 0) }'
}

measure() {
    others=$(others_percent)
    step "How close to the hardware: gets and $floors in turn, on $way"
    show "$bench" --floor --records 20000 --rounds 5 | tee "$work/floor"
}

# The medians of the rounds.
short_table() {
    awk -v floor="$floor" -v others="$others" '
        NF == 4 { p50[$1] = $2 }
        /get \/ READ, p50/ { ratio = $5 }
        END {
            printf "\n  %-22s %8.3f\n", "get / " floor, ratio
            printf "  %-22s %8.2f us\n", "get, p50", p50["get"]
            printf "  %-22s %8.2f us\n", floor ", p50", p50["read"]
            printf "  %-22s %8.2f us\n\n", "put, p50", p50["put"]
            if (others >= 20)
                printf "  Other programs used %d %% of the processors before: times are longer than at rest.\n\n", others
        }' "$work/floor"
}

run_demonstration() {
    work=${work:-$(mktemp -d)} cluster=()
    trap end_demonstration EXIT
    export OKV_SERVER=$1
    choose_words "$1"
    step "okv-server"
    start_server "${2:-$1}"
    real_data
    more_than_put_and_get
    stopped_server
    measure
    step "Stopping the server (SIGTERM)"
    kill "$server"
    wait "$server" && echo "  it said goodbye to its clients and ended"
    killed_server "${2:-$1}"
    second_copy "$1"
    short_table
}

# ---- where to run it ----

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

# The first address of an active RDMA device, or nothing.
rdma_address() {
    local port netdev address
    for port in /sys/class/infiniband/*/ports/*; do
        grep -q ACTIVE "$port/state" 2>/dev/null || continue
        for netdev in "$port"/gid_attrs/ndevs/*; do
            netdev=$(cat "$netdev" 2>/dev/null) || continue
            address=$(ip -4 -o address show dev "$netdev" | awk 'NR == 1 { sub("/.*", "", $4); print $4 }') || continue
            [ -n "$address" ] || continue
            echo "$address"
            return
        done
    done
}

make_softroce() {
    as_root modprobe rdma_rxe 2>/dev/null && as_root modprobe rdma_ucm 2>/dev/null || return 1
    trap remove_softroce EXIT
    as_root ip link add "$softroce_link" type dummy &&
        as_root ip link set "$softroce_link" mtu 4200 up &&
        as_root ip address add "$softroce_address/30" dev "$softroce_link" &&
        as_root rdma link add "$softroce_device" type rxe netdev "$softroce_link" && return
    remove_softroce
    return 1
}

remove_softroce() {
    as_root rdma link delete "$softroce_device" 2>/dev/null || true
    as_root ip link delete "$softroce_link" 2>/dev/null || true
}

build_okv() {
    step "Building okv (log: $build/build.log)"
    mkdir -p "$build"
    if ! { cmake -S . -B "$build" -G Ninja -DOKV_TESTS=OFF && cmake --build "$build"; } \
        >"$build/build.log" 2>&1; then
        tail -n 40 "$build/build.log"
        echo "demo.sh: the build failed; all of its output is in $build/build.log" >&2
        exit 1
    fi
}

main() {
    local where=${1:-} address
    case $where in
        '' | --local | --guest) ;;
        --help | -h) usage; exit 0 ;;
        *) usage >&2; exit 2 ;;
    esac
    step "Packages"
    tests/support/packages.sh build cluster
    build_okv
    if [ "$where" = --local ]; then
        step "Over shared memory: no RDMA is involved"
        work=$(mktemp -d)
        run_demonstration "local://$work/okv.sock"
        return
    fi
    if [ "$where" != --guest ]; then
        tests/support/packages.sh demo
        address=$(rdma_address)
        if [ -n "$address" ]; then
            step "On this machine's RDMA device, $address"
            run_demonstration "rdma://$address"
            return
        fi
        if make_softroce; then
            step "On a soft-RoCE device made for this demo"
            (run_demonstration "rdma://$softroce_address")
            return
        fi
    fi
    step "This kernel has no RDMA: in a QEMU guest with real soft-RoCE, emulated and so far slower"
    tests/support/packages.sh guest
    tests/guest/run --time 300 -- ./demo.sh --inside
}

if [ "${1:-}" = --inside ]; then
    run_demonstration "rdma://$OKV_GUEST_ADDR"
else
    main "$@"
fi
