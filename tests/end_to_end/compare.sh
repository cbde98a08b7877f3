#!/usr/bin/env bash
# bench/compare over shared memory: it measures every store, and leaves nothing behind.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/compare.sh BUILD_DIR

Runs bench/compare with the programs of BUILD_DIR for a few seconds, also interrupted, with wrong options and
with stand-ins for Valkey. Left out without redis-server, memcached and their libraries (tests/support/packages.sh
peers), which is a failure when OKV_TEST_REQUIRE_TOOLS is 1. The memory that servers take is not judged when
BUILD_DIR has sanitizers. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
compare=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/bench/compare
failures=0
sanitizers=$(sed -n 's/^OKV_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")
mkdir "$scratch/tmp"
export TMPDIR=$scratch/tmp

leave_out() {
    echo "compare: left out: $1; run: tests/support/packages.sh peers"
    [ "${OKV_TEST_REQUIRE_TOOLS:-}" = 1 ] && exit 1
    exit 77
}

wrong() {
    failures=$((failures + 1))
    printf 'WRONG %s: %s\n' "$what" "$1"
    sed 's/^/      | /' "$scratch/out" "$scratch/err"
}

check_tools() {
    local program uri
    for program in redis-server memcached; do
        command -v $program >/dev/null || leave_out "$program is not installed"
    done
    for uri in "redis://$scratch/none" "lmdb://$scratch/none/none"; do
        "$bench" -s "$uri" --records 10 2>"$scratch/err" || true
        grep -qE 'start redis-server|create the directory' "$scratch/err" ||
            leave_out "kv-bench was built without ${uri%%:*}"
    done
}

# run STATUS ARGUMENT...: bench/compare in a session of its own; it ends with STATUS and nothing is left of it. A server
# that a busy machine keeps waiting for seconds still answers.
run() {
    local expected=$1 status=0
    shift
    setsid "$compare" --build "$build" --timeout=120s "$@" >"$scratch/out" 2>"$scratch/err" &
    session=$!
    [ -z "${interrupt:-}" ] || interrupt_run
    wait $session || status=$?
    [ $status -eq "$expected" ] || wrong "exit status $status and not $expected"
    check_leftovers
}

check_leftovers() {
    local directory
    # A dead one has ended, whenever init takes note of it.
    [ -z "$(pgrep -s $session -r R,S,D,T)" ] || wrong "processes are left: $(pgrep -a -s $session -r R,S,D,T)"
    [ -z "$(ls -A "$TMPDIR")" ] || wrong "files are left: $(ls "$TMPDIR")"
    directory=$(sed -n 's/^lmdb .* in \(\/.*\)/\1/p' "$scratch/out")
    [ -z "$directory" ] || [ ! -e "$directory" ] || wrong "$directory is left"
}

# SIGTERM as soon as rounds are measured.
interrupt_run() {
    local tries=0
    until grep -q '^kv-bench ' "$scratch/out" || [ $tries -gt 1200 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    sleep 0.3
    kill "$session"
}

everything() {
    local name
    what="a quick run"
    run 0 --quick --workload a --connections 2 --depth 4 --json "$scratch/json"
    for name in okv-local redis-tcp redis-unix memcached-tcp memcached-unix lmdb; do
        grep -q "\"name\": \"$name\"" "$scratch/json" || wrong "no $name in the JSON"
        grep -q "^$name" "$scratch/out" || wrong "no $name in the table"
    done
    [ "$(sed -n '/^side by side/,$p' "$scratch/out" | grep -cE '^(okv|redis|memcached|lmdb)[a-z-]* .*[0-9]')" -eq 18 ] ||
        wrong "not a line and two bars for each target at the end"
    grep -qx "placement       left to the scheduler; $(nproc) processors" "$scratch/out" || wrong "the placement is not there"
    [ "$(nproc)" -eq 1 ] || grep -q '^placement was left to the scheduler: ' <(tail -n 2 "$scratch/out") ||
        wrong "the placement is not at the end"
    read -ra ours < <(taskset -cp $$ | sed 's/.*: //; s/[,-]/ /g')
    [ "$(nproc)" -eq 1 ] || grep -qE "^Measure both placements: --server-cpus ${ours[0]} with --client-cpus [0-9]+, .* ${ours[0]}\$" "$scratch/out" ||
        wrong "the advice does not name processors of this test"
    grep -q -e '^redis .*--appendonly no' "$scratch/out" || wrong "the settings of Redis are not there"
    what="some of them, by cas"
    run 0 --quick --targets okv-local,memcached-unix --mix get=50,cas=50 --value-size 16-4K \
        --rounds 1
    what="processors of one's own"
    run 0 --quick --targets okv-local,redis-unix --server-cpus 0 --client-cpus=0 --rounds 1
    grep -qx "placement       servers on 0, kv-bench on 0; $(nproc) processors" "$scratch/out" || wrong "the placement is not there"
    grep -qx "placed   on CPU 0" "$scratch/out" || wrong "kv-bench is elsewhere"
    ! grep -q '^placement was left' "$scratch/out" || wrong "advice on a placement that was chosen"
    what="an installation"
    mkdir -p "$scratch/prefix/bin"
    ln -s "$server" "$bench" "$scratch/prefix/bin"
    run 0 --build "$scratch/prefix" --quick --targets okv-local --records 1K --rounds 1
    grep -q "^okv-local  *$scratch/prefix/bin/okv-server " "$scratch/out" || wrong "the server of the build was started"
    what="the floor of okv"
    run 0 --quick --targets okv-local --floor --rounds 1 --json "$scratch/json"
    grep -q '"get_over_read": [0-9]' "$scratch/json" || wrong "no floor in the JSON"
    ! grep -q '^placement was left' "$scratch/out" || wrong "advice on a placement that does not matter"
    what="one half of a placement"
    run 0 --quick --targets okv-local,redis-unix --client-cpus 0 --records 1K --rounds 1
    grep -q '^placement       servers left to the scheduler, kv-bench on 0;' "$scratch/out" || wrong "the placement is not there"
    [ "$(nproc)" -eq 1 ] || grep -q '^placement was left' "$scratch/out" || wrong "no advice"
    what="records that cannot fit"
    run 3 --quick --targets okv-local --memory 4M --records 1M
    grep -q '1000000 records of 48 bytes, key and value, need --memory [0-9]*M at least, and the table has 4 MiB: .* --memory [0-9]*M' "$scratch/err" ||
        wrong "no cause"
    what="settings of one's own"
    mkdir "$scratch/tables"
    run 0 --quick --targets okv-local,lmdb --okv=--prefault --okv --max-value=128K --lmdb "$scratch/tables" --rounds 1
    grep -q -e '^okv-local .* --prefault --max-value=128K$' "$scratch/out" || wrong "okv-server's options are not there"
    grep -q "^lmdb .*$scratch/tables/" "$scratch/out" || wrong "LMDB's files are elsewhere"
    what="durable ones"
    mkdir "$scratch/disk"
    run 0 --quick --durable "$scratch/disk" --records 200 --mix put=100 --rounds 1 --depth 8
    grep -q -e '^okv-local .* --data ' "$scratch/out" || wrong "okv is in memory only"
    grep -q -e '^redis .*--appendfsync always' "$scratch/out" || wrong "Redis does not sync"
    grep -q '^lmdb .*a sync for each commit' "$scratch/out" || wrong "LMDB does not sync"
    grep -q '^lmdb-batch .*for the puts that wait' "$scratch/out" || wrong "LMDB has no batches"
    [ -z "$(ls -A "$scratch/disk")" ] || wrong "files are left in $scratch/disk"
    what="large values"
    run 0 --quick --targets redis-unix,memcached-tcp,lmdb,okv-local \
        --records 20 --value-size 1M --mix get=50,put=50 --rounds 1
}

# is_unjudged NAME: the resident memory of this server says nothing. Memcached takes whole MiB. With sanitizers okv
# takes so much for itself that the servers get more than they fill.
is_unjudged() {
    [[ $1 == memcached* || -n $sanitizers ]]
}

replay() {
    local name grown memory=4M
    if [ -n "$sanitizers" ]; then
        memory=64M
        echo "compare: left out: how much memory servers take: sanitizers ($sanitizers) take some for themselves"
    fi
    what="a replay"
    "$bench" --make-trace zipf,items=20K,requests=20K >"$scratch/trace"
    run 0 --replay "$scratch/trace" --memory "$memory" --json "$scratch/json"
    for name in okv-local redis-lru redis-lfu memcached-unix; do
        grep -qE "^$name +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9.]+ +[0-9]+\$" "$scratch/out" || wrong "no line of $name"
        grown=$(awk -v name="$name" '$1 == name && NF == 2 { print $2 }' "$scratch/out")
        [ -n "$grown" ] || wrong "no resident memory of $name"
        is_unjudged "$name" || [ $((grown > 3500 && grown < 4700)) -eq 1 ] || wrong "$name took $grown KiB"
    done
    grep -q -e '^redis-lfu .*--maxmemory [0-9]* --maxmemory-policy allkeys-lfu$' "$scratch/out" || wrong "the settings of Redis are not there"
    grep -q -e '^okv-local .* --full=evict$' "$scratch/out" || wrong "okv does not evict"
    ! grep -q '^placement was left' "$scratch/out" || wrong "advice on a placement that does not matter"
    [ "$(grep -c '^ *"requests": 20000,$' "$scratch/json")" -eq 4 ] || wrong "not four replays in the JSON"
    grep -q '"connections": 8,' "$scratch/json" || wrong "not 8 connections of each thread"
    what="a replay of nothing"
    run 2 --replay "$scratch/none"
    grep -q -e "--replay $scratch/none: give a file" "$scratch/err" || wrong "no cause"
    what="a durable replay"
    run 2 --replay "$scratch/trace" --durable "$scratch"
    grep -q 'leave out --durable' "$scratch/err" || wrong "no cause"
}

interrupted() {
    what="an interrupted run"
    interrupt=1
    run 143 --quick --seconds 60
    interrupt=
}

refusals() {
    what="an unknown target"
    run 2 --targets okv-local,oracle
    grep -q "no 'oracle'" "$scratch/err" || wrong "no cause"
    what="a server of one's own"
    run 2 -s local:///run/okv.sock
    what="the floor"
    run 2 --floor
    what="an option of kv-bench"
    run 2 --quick --targets okv-local --mix get=200
    what="processors that are not there"
    run 2 --targets okv-local --server-cpus 5000
    grep -q -e '--server-cpus 5000: give processors' "$scratch/err" || wrong "no cause"
    what="a provider that is no name"
    run 2 --quick --targets okv-ofi --ofi 'net&source=10.0.0.1'
    grep -q -e '--ofi net&source=10.0.0.1: give a provider' "$scratch/err" || wrong "no cause"
    what="the floor of others"
    run 2 --quick --targets okv-local,redis-unix --floor
    grep -q 'only okv has a floor' "$scratch/err" || wrong "no cause"
    what="a directory that is not there"
    run 2 --quick --durable /nowhere
    grep -q -e '--durable /nowhere: give a directory' "$scratch/err" || wrong "no cause"
    run 2 --quick --targets lmdb --lmdb /nowhere
    grep -q -e '--lmdb /nowhere: give a directory' "$scratch/err" || wrong "no cause"
    what="an option that nobody knows"
    run 2 --quick --targets okv-local --nonsense
    what="what a store cannot do"
    run 3 --quick --targets redis-unix --mix cas=100
    grep -q "redis-server does not offer a put on a version" "$scratch/err" || wrong "no cause"
    what="another build directory"
    run 3 --build "$scratch"
    grep -q "has no kv-bench" "$scratch/err" || wrong "no cause"
}

# Redis has the same commands and output; only RDMA is left out.
stand_in() {
    mkdir "$scratch/valkey"
    cat >"$scratch/valkey/valkey-server" <<'TEXT'
#!/usr/bin/env bash
arguments=()
while [ $# -gt 0 ]; do
    case $1 in
        --rdma-*) shift ;;
        *) arguments+=("$1") ;;
    esac
    shift
done
exec redis-server "${arguments[@]}"
TEXT
    cat >"$scratch/valkey/valkey-benchmark" <<'TEXT'
#!/usr/bin/env bash
[ "$1" = --help ] && { echo "  --rdma"; exit 0; }
arguments=()
for argument in "$@"; do
    case $argument in
        --rdma) ;;
        *) arguments+=("$argument") ;;
    esac
done
exec redis-benchmark "${arguments[@]}"
TEXT
    chmod +x "$scratch/valkey/"*
}

valkey() {
    stand_in
    what="Valkey's own program"
    run 0 --quick --rdma rdma://127.0.0.1:7471 --valkey-rdma "$scratch/valkey" --targets valkey-tcp
    figures=$(grep -cE '^(rdma|tcp) +(GET|SET) +[0-9]+ +[0-9.]+ +[0-9.]+$' "$scratch/out") || true
    # A kv-bench with libvalkey leaves nothing to measure for it.
    "$bench" -s valkey+rdma:// --records 1 2>"$scratch/refusal" || true
    if ! grep -q 'built without' "$scratch/refusal"; then
        [ "$figures" -eq 0 ] || wrong "Valkey's own program was used"
    else
        [ "$figures" -eq 8 ] || wrong "not 8 figures"
        what="Valkey over RDMA without libvalkey"
        run 2 --rdma rdma://127.0.0.1:7471 --valkey-rdma "$scratch/valkey" --targets valkey-rdma
        grep -q 'built with libvalkey' "$scratch/err" || wrong "no advice"
    fi
    what="Valkey without a device"
    [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ] || run 3 --valkey-rdma "$scratch/valkey"
}

check_tools
everything
replay
interrupted
refusals
valkey
[ $failures -eq 0 ] || { echo "$failures things were wrong"; exit 1; }
echo "compare: as it should be"
