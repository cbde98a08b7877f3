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

# start_redis_evicting NAME POLICY
start_redis_evicting() {
    start "$1" redis-server --port 0 --unixsocket "$scratch/$1.sock" --save "" --appendonly no --dir "$scratch" \
        --maxmemory "$(size "$(limit_of "$1")")" --maxmemory-policy "$2"
    await "$1" test -S "$scratch/$1.sock"
    targets+=(-s "$1=redis://$scratch/$1.sock")
}

# What a server's own option says. Stores count different things as memory, so rehearsals find the
# options with which the resident memory of each grows by --memory.
declare -A limits
REHEARSALS=2

# limit_of NAME
limit_of() {
    echo "${limits[$1]:-$memory}"
}

# resident_of PID: KiB.
resident_of() {
    sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status"
}

note_resident() {
    local pid
    resident=()
    for pid in "${servers[@]}"; do resident+=("$(resident_of "$pid")"); done
}

# growth_of INDEX: KiB since then, at least 1.
growth_of() {
    local growth=$(($(resident_of "${servers[$1]}") - resident[$1]))
    echo $((growth > 0 ? growth : 1))
}

rescale() {
    local i name
    for i in "${!servers[@]}"; do
        name=${server_names[$i]}
        limits[$name]=$(($(size "$(limit_of "$name")") * ($(size "$memory") >> 10) / $(growth_of "$i")))
    done
}

start_again() {
    local pid
    for pid in "${servers[@]}"; do stop "$pid"; done
    rm -f "$scratch"/*.sock
    lines=("${lines[@]::${#lines[@]}-${#servers[@]}}") # without those of the servers
    servers=() server_names=() targets=()
    start_targets
}

rehearse() {
    local i
    for ((i = 1; i <= REHEARSALS; i++)); do
        echo "rehearsal $i of $REHEARSALS: how much memory the servers take"
        note_resident
        run_bench >"$scratch/rehearsal" || return $?
        rescale
        start_again
    done
}

print_resident() {
    local i
    printf '\nresident memory of the servers, KiB more than when they were empty\n'
    for i in "${!servers[@]}"; do
        printf '%-24s %10d\n' "${server_names[$i]}" "$(growth_of "$i")"
    done
}
