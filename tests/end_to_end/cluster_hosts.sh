#!/usr/bin/env bash
# The commands of docs/cluster-hosts.md in network namespaces, under load; see --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/cluster_hosts.sh BUILD_DIR

Runs the blocks of docs/cluster-hosts.md with the programs of BUILD_DIR, each in a shell of the host that its first line
names: a network namespace with a host name, a /var and an /etc of its own. From step 4 on clients write and verify, and
before step 5 the first host is killed. All that was acknowledged must be there, once. Needs root, network namespaces
with veth and a bridge, and etcd: ends with 77 and a reason without.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
# shellcheck source=tests/support/cluster.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/cluster.sh"
require_etcd cluster_hosts
# shellcheck source=tests/support/hosts.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts.sh"
page=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../docs" && pwd)/cluster-hosts.md
declare -A shells=() orders=()
begin_hosts

# start_host NUMBER: with a shell that runs what is written to its pipe.
start_host() {
    local pipe host=$1 directory=$scratch/host$1
    add_host "$1"
    mkdir -p "$directory/etc" "$directory/lib" "$directory/log"
    cp -a /etc/. "$directory/etc"
    mkfifo "$directory/orders"
    setpriv --pdeathsig KILL ip netns exec "$prefix-$1" unshare --mount --uts bash -c "
        hostname host$1
        mount --bind '$directory/etc' /etc
        mount --bind '$directory/lib' /var/lib
        mount --bind '$directory/log' /var/log
        export PATH='$build/server:$build/client/cli:$PATH' OKV_LOG_FORMAT=text
        exec bash" <"$directory/orders" >"$directory/out" 2>&1 &
    shells[$host]=$!
    exec {pipe}>"$directory/orders"
    orders[$host]=$pipe
}

# run_at NUMBER COMMANDS: in the shell of that host; the script ends if one fails.
run_at() {
    local host=$1 tries=0 directory=$scratch/host$1
    rm -f "$directory/status"
    printf '%s\n' "set -e" "$2" "set +e" "echo \$? >$directory/part && mv $directory/part $directory/status" >&"${orders[$host]}"
    until [ -e "$directory/status" ]; do
        sleep 0.1
        tries=$((tries + 1))
        [ $tries -lt 6000 ] && kill -0 "${shells[$host]}" 2>/dev/null && continue
        echo "WRONG on 10.0.0.$host:"
        printf '%s\n' "$2"
        tail -n 20 "$directory/out" "$directory"/log/*
        exit 1
    done
}

# block NUMBER: of the page, without its first line.
block() {
    awk -v wanted="$1" '/^```sh/ { count++; inside = 1; next } /^```/ { inside = 0 } inside && count == wanted' "$page" |
        tail -n +2
}

# hosts_of NUMBER: the last parts of the addresses that the block's first line names.
hosts_of() {
    awk -v wanted="$1" '/^```sh/ { count++; first = 1; next } first && count == wanted { print } { first = 0 }' "$page" |
        grep -o '10\.0\.0\.[0-9]*' | sed 's/.*\.//'
}

# run_block NUMBER: at each of its hosts.
run_block() {
    local host
    for host in $(hosts_of "$1"); do run_at "$host" "$(block "$1")"; done
}

# The fourth one, too: what it inherits would keep the pipe of the load open.
for host in 1 2 3 4; do start_host $host; done
same "blocks of the page" "$(grep -c '^```sh needs=hosts' "$page")" 6
for number in 1 2 3 4; do run_block $number; done
same "the value that was put" "$(tail -c 5 "$scratch/host3/out")" hello

start_clients 3 cluster_load_live okv://10.0.0.1,10.0.0.2,10.0.0.3/prod "the load runs"
run_block 5
run_at 2 'okv -s tcp://10.0.0.2 cluster status --wait' # a copy that a slow machine has put off
end_host 1
run_block 6
same "the value, after all that" "$(tail -c 5 "$scratch/host4/out")" hello
end_clients
grep -E 'acknowledged|unknown|longest|ERROR|client ' "$scratch/clients" || true
echo "cluster_hosts: $checks checks, $failures wrong"
[ $failures -eq 0 ]
