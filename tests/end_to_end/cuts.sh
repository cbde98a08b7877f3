#!/usr/bin/env bash
# The history of many clients over TCP, while the network between them and their server fails; see --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/cuts.sh SCHEME BUILD_DIR

Runs linearizability_live_test of BUILD_DIR over SCHEME (tcp or tcps) between two network namespaces. Meanwhile the link
between them loses everything for 0.1 to 4 s at a time: from the clients, from the server, or both ways; or goes down.
Where the kernel can, it resets all connections, and loses, delays, repeats and reorders packets (netem). Or the server
is stopped for that time. Every answer must fit one order of the operations. Needs root and network namespaces with veth:
ends with 77 and a reason without. For tcps, OKV_TEST_TLS is a directory that tests/support/certificates.sh has made.
With OKV_TEST_NETEM=1, netem must work.
TEXT
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
esac
[ $# -eq 2 ] || { usage >&2; exit 2; }
scheme=$1 build=$(cd "$2" && pwd)
here=okv-cuts-here-$$ there=okv-cuts-there-$$ cutter='' scratch=''

finish() {
    [ -z "$cutter" ] || kill "$cutter" 2>/dev/null || true
    ip netns del "$here" 2>/dev/null || true
    ip netns del "$there" 2>/dev/null || true
    [ -z "$scratch" ] || rm -rf "$scratch"
}
trap finish EXIT

[ "$(id -u)" -eq 0 ] || { echo "skipped: network namespaces need root"; exit 77; }
if ! { ip netns add "$here" && ip netns add "$there" &&
    ip link add here netns "$here" type veth peer name there netns "$there"; } 2>/dev/null; then
    echo "skipped: this kernel has no network namespaces with veth"
    exit 77
fi
scratch=$(mktemp -d /tmp/okv-test.XXXXXX)

# up NAMESPACE DEVICE ADDRESS
up() {
    ip -n "$1" addr add "$3/24" dev "$2"
    ip -n "$1" link set lo up
    ip -n "$1" link set "$2" up
}
up "$here" here 10.9.8.1
up "$there" there 10.9.8.2
hardware_here=$(ip -n "$here" link show here | awk '/ether/ { print $2 }')
hardware_there=$(ip -n "$there" link show there | awk '/ether/ { print $2 }')
nobody=02:00:00:00:00:99

# What is sent to a hardware address that nobody has is lost, as on a link that drops it.
to_server() { ip -n "$here" neigh replace 10.9.8.2 lladdr "$1" dev here nud permanent; }
to_clients() { ip -n "$there" neigh replace 10.9.8.1 lladdr "$1" dev there nud permanent; }
netem() { tc -n "$there" qdisc replace dev there root netem limit 20000 "$@" && tc -n "$here" qdisc replace dev here root netem limit 20000 "$@"; }
mend() {
    server_signal CONT
    ip -n "$there" link set there up
    to_server "$hardware_there"
    to_clients "$hardware_here"
}

# server_signal NAME: to the server, if it has begun.
server_signal() { [ ! -s "$scratch/pid" ] || kill -s "$1" "$(cat "$scratch/pid")" 2>/dev/null || true; }

ways=(from-clients from-server both down reset stop)
if netem delay 0ms 2>"$scratch/netem"; then
    ways+=(loss repeat delay)
elif [ "${OKV_TEST_NETEM:-}" = 1 ]; then
    cat "$scratch/netem" >&2
    exit 1
fi

cut_for_ever() {
    local seconds
    while :; do
        for way in "${ways[@]}"; do
            seconds=$((RANDOM % 10 == 0 ? 4 : 0)).$((1 + RANDOM % 9))
            case $way in
                from-clients) to_server $nobody ;;
                from-server) to_clients $nobody ;;
                both) to_server $nobody && to_clients $nobody ;;
                down) ip -n "$there" link set there down ;;
                stop) server_signal STOP ;;
                loss) netem loss 10% ;;
                repeat) netem duplicate 20% ;;
                delay) netem delay 20ms 10ms reorder 25% ;;
                reset) ip netns exec "$there" ss -K sport = :7471 or sport = :7472 >"$scratch/killed" 2>&1 || true ;;
            esac
            [ "$way" = reset ] || sleep "$seconds"
            mend
            case $way in loss | repeat | delay) netem delay 0ms ;; esac
            echo "$way $seconds" >>"$scratch/cuts"
            sleep 0.$((3 + RANDOM % 6))
        done
    done
}

cat >"$scratch/server" <<TEXT
#!/bin/sh
echo \$\$ >$scratch/pid
exec ip netns exec $there $build/server/okv-server "\$@"
TEXT
chmod 755 "$scratch/server"
export OKV_SERVER_BIN=$scratch/server OKV_TEST_LISTEN=$scheme://10.9.8.2 OKV_TEST_URI=$scheme://10.9.8.2 OKV_TEST_CUTS=1
export OKV_TEST_SERVER_ARGS='--keepalive-ms 1500'
if [ "$scheme" = tcps ]; then
    OKV_TEST_URI+="?server-name=okv.test&ca=${OKV_TEST_TLS:?}/ca.pem"
    OKV_TEST_SERVER_ARGS+=" --tls-cert $OKV_TEST_TLS/server.pem --tls-key $OKV_TEST_TLS/server.key"
fi
mend
cut_for_ever &
cutter=$!
OKV_OPERATIONS=${OKV_OPERATIONS:-40000} ip netns exec "$here" "$build/tests/linearizability_live_test"
echo "cuts: $(wc -l <"$scratch/cuts"), by way: $(cut -d ' ' -f 1 "$scratch/cuts" | sort | uniq -c | tr -s ' \n' ' ')"
[ -s "$scratch/cuts" ]
