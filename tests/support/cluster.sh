# shellcheck shell=bash disable=SC2154 # programs.sh has set the rest
# For scripts that run a cluster: source this after programs.sh. An etcd of its own, and okv-servers numbered from 1 at
# local://$scratch/sI, whose logs are $scratch/logI.

# require_etcd NAME: ends the script NAME without one, which is a failure when OKV_TEST_REQUIRE_TOOLS is 1.
require_etcd() {
    command -v etcd >/dev/null && return
    echo "$1: left out: there is no etcd; run: tests/support/packages.sh cluster"
    [ "${OKV_TEST_REQUIRE_TOOLS:-}" = 1 ] && exit 1
    exit 77
}

# A port of 127.0.0.1 that is free now.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# Sets `url`.
start_etcd() {
    local port peer
    port=$(free_port)
    peer=$(free_port)
    url=http://127.0.0.1:$port
    etcd --data-dir "$scratch/etcd" --listen-client-urls "$url" --advertise-client-urls "$url" \
        --listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
        --initial-cluster "default=http://127.0.0.1:$peer" >"$scratch/etcd.log" 2>&1 &
    servers+=($!)
}

# start_member I [ARGUMENT...]: server I, whose process is the last of `servers`.
start_member() {
    local member=$1
    shift
    start_server "local://$scratch/s$member" --cluster test --etcd "$url" --advertise "local://$scratch/s$member" "$@"
    mv "$scratch/log" "$scratch/log$member"
}

# cluster I WORD...: okv cluster WORD... at server I. Its errors are in $scratch/err.
cluster() {
    local member=$1
    shift
    "$okv" -s "local://$scratch/s$member" cluster "$@" 2>"$scratch/err"
}

# await_servers I COUNT: until server I knows as many.
await_servers() {
    until [ "$(cluster "$1" status | grep -c '^server')" = "$2" ]; do sleep 0.1; done
}
