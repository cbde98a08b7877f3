# shellcheck shell=bash disable=SC2154 # programs.sh has set the rest
# For scripts with several hosts: source this after programs.sh. Each host is a network namespace $prefix-N with the
# address 10.0.0.N, all at one switch.

prefix=okv-hosts-$$
hosts=()

# begin_hosts: the switch. Ends the script with 77 and a reason where there can be none.
begin_hosts() {
    [ "$(id -u)" -eq 0 ] || { echo "skipped: network namespaces need root"; exit 77; }
    if ! { ip netns add "$prefix" && ip -n "$prefix" link add switch type bridge && ip -n "$prefix" link set switch up; } 2>/dev/null; then
        ip netns del "$prefix" 2>/dev/null || true
        echo "skipped: this kernel has no network namespaces with a bridge"
        exit 77
    fi
    trap 'end_hosts; programs_end' EXIT
}

# add_host N
add_host() {
    local space=$prefix-$1
    ip netns add "$space"
    ip link add "port$1" netns "$prefix" type veth peer name eth0 netns "$space"
    ip -n "$prefix" link set "port$1" master switch up
    ip -n "$space" addr add "10.0.0.$1/24" dev eth0
    ip -n "$space" link set lo up
    ip -n "$space" link set eth0 up
    hosts+=("$1")
}

# at N COMMAND...: in the network of that host.
at() {
    local space=$prefix-$1
    shift
    ip netns exec "$space" "$@"
}

# start_clients N PROGRAM URI TEXT: PROGRAM of the build's tests at that host, until it says TEXT. It reads what is written
# to the descriptor `to_clients`, and its output is in $scratch/clients. What is started later inherits the descriptor.
start_clients() {
    mkfifo "$scratch/orders"
    OKV_TEST_URI=$3 setpriv --pdeathsig KILL ip netns exec "$prefix-$1" "$build/tests/$2" \
        <"$scratch/orders" >"$scratch/clients" 2>&1 &
    clients=$!
    servers+=("$clients")
    exec {to_clients}>"$scratch/orders"
    until grep -q "$4" "$scratch/clients"; do
        kill -0 "$clients" || { cat "$scratch/clients"; exit 1; }
        sleep 0.1
    done
}

# end_clients: checks how they end.
end_clients() {
    local status=0
    exec {to_clients}>&-
    wait "$clients" || status=$?
    same "the exit status of the clients" "$status" 0
    [ "$status" = 0 ] || cat "$scratch/clients"
}

# end_host N: a host without power; all that runs there is killed.
end_host() {
    local pid
    for pid in $(ip netns pids "$prefix-$1" 2>/dev/null); do kill -9 "$pid" 2>/dev/null || true; done
    ip netns del "$prefix-$1" 2>/dev/null || true
}

end_hosts() {
    local host
    for host in "${hosts[@]}"; do end_host "$host"; done
    ip netns del "$prefix" 2>/dev/null || true
}
