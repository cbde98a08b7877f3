# shellcheck shell=bash disable=SC2034,SC2154 # part of bench/compare: Valkey, over TCP and RDMA

# One server for TCP and for RDMA. Its module of RDMA is loaded where that is not built in.
valkey_port=''
start_valkey() {
    local over_rdma=(--rdma-bind "$address" --rdma-port)
    valkey_port=$(free_port "$address")
    over_rdma+=("$valkey_port")
    [ ! -e "$valkey/valkey-rdma.so" ] ||
        over_rdma=(--loadmodule "$valkey/valkey-rdma.so" "bind=$address" "port=$valkey_port")
    start valkey "$valkey/valkey-server" --bind "$address" --port "$valkey_port" --protected-mode no \
        --save "" --appendonly no --dir "$scratch" "${over_rdma[@]}"
    await valkey listens_at "$valkey_port"
}

# valkey_round TRANSPORT [OPTION]: one line for each command.
valkey_round() {
    "${client_bound[@]}" "$valkey/valkey-benchmark" -h "$address" -p "$valkey_port" ${2:+"$2"} -t set,get -n 50000 --csv \
        -c "$(busy_clients)" -P "$(count "$depth")" -d "$(usual_value)" -r "$(count "$records")" |
        tr -d '"' | awk -F , -v transport="$1" \
        '$1 == "SET" || $1 == "GET" { printf "%-5s %-4s %12.0f %10.1f %10.1f\n", transport, $1, $2, $5 * 1e3, $7 * 1e3 }'
}

measure_valkey() {
    local round
    echo
    echo "valkey-server by valkey-benchmark, $(count "$rounds") rounds over RDMA and TCP in turn"
    printf '%-5s %-4s %12s %10s %10s\n' over what op/s 'p50 us' 'p99 us'
    for ((round = 0; round < $(count "$rounds"); round++)); do
        valkey_round rdma --rdma
        valkey_round tcp
    done
}
