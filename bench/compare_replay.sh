# shellcheck shell=bash disable=SC2034,SC2154 # part of bench/compare: the replay of a trace by stores that evict

resident=() # KiB of each server before the replay

# Of all that is measured, what evicts.
choose_for_replay() {
    [ -z "$durable$valkey" ] || refuse "--replay: stores in memory are compared: leave out --durable and --valkey-rdma"
    known=" okv-local redis-lru redis-lfu memcached-unix "
    [ -z "$rdma" ] || known+="okv-rdma "
    chosen=${chosen:-okv-local,redis-lru,redis-lfu,memcached-unix}
    memory=${memory:-64M}
}

# okv evicts by an option.
evict_okv() {
    [[ $chosen == *okv* ]] || return 0
    if "$okv_server" --help | grep -q -e '--full='; then
        okv_options+=(--full=evict)
    else
        lines+=("$(printf '%-15s %s' note "this okv-server does not know --full=evict: when it is full it refuses puts")")
    fi
}

# start_redis_evicting NAME POLICY
start_redis_evicting() {
    start "$1" redis-server --port 0 --unixsocket "$scratch/$1.sock" --save "" --appendonly no --dir "$scratch" \
        --maxmemory "$(size "$memory")" --maxmemory-policy "$2"
    await "$1" test -S "$scratch/$1.sock"
    targets+=(-s "$1=redis://$scratch/$1.sock")
}

# resident_of PID: KiB.
resident_of() {
    sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status"
}

note_resident() {
    local pid
    for pid in "${servers[@]}"; do resident+=("$(resident_of "$pid")"); done
}

# What the limits come to: stores count different things as memory.
print_resident() {
    local i
    printf '\nresident memory of the servers, MiB more than when they were empty\n'
    for i in "${!servers[@]}"; do
        printf '%-24s %10d\n' "${server_names[$i]}" $((($(resident_of "${servers[$i]}") - resident[i]) / 1024))
    done
}
