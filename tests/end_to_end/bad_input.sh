#!/usr/bin/env bash
# What people get wrong: each program must say in one line what is wrong and what to do about it,
# with the exit status of its manual, and none hangs.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/bad_input.sh BUILD_DIR

Runs the okv-server, okv and kv-bench of BUILD_DIR with bad input and checks what they say. In the
QEMU guest (OKV_GUEST is set) also what needs an RDMA device. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
# shellcheck source=tests/support/complaint.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/complaint.sh"
# A program that takes so long waits for something that does not come.
seconds=300
# okv where a server is to answer: with a deadline that no machine is too slow for, and that only a hang meets.
patient=$scratch/okv
# shellcheck disable=SC2016 # for the script
printf '#!/bin/sh\nexec "%s" -t 120s "$@"\n' "$okv" >"$patient"
chmod +x "$patient"

# key LENGTH: a key of that many bytes.
key() {
    printf "%*s" "$1" '' | tr ' ' k
}

command_lines() {
    local size uri
    check "an argument that is no option (server)" 2 'unexpected argument' 'here' "$server" here
    check "an unknown option (server)" 2 'nonsense' '.' "$server" --nonsense
    check "an unknown option (okv)" 2 'nonsense' '.' "$okv" --nonsense ping
    check "an unknown option of a command" 2 'nonsense' '.' "$okv" ping --nonsense
    check "an unknown option (bench)" 2 'nonsense' '.' "$bench" --nonsense
    check "a slip in an option (server)" 2 'memry' 'do you mean --memory' "$server" --memry 5M
    check "a slip in an option of a command" 2 'tlt' 'do you mean --ttl' "$okv" put key value --tlt=5s
    check "a slip in an option of all commands" 2 'timeot' 'do you mean --timeout' "$okv" put key value --timeot 5s
    check "a slip in an option (bench)" 2 'recrods' 'do you mean --records' "$bench" --recrods 5
    check "an unknown command" 2 'frobnicate' 'okv --help' "$okv" -s "$socket" frobnicate
    check "a command of another store" 2 "'keys'" 'okv scan' "$okv" keys
    check "a command with a slip" 2 "'exsits'" 'okv exists' "$okv" -s "$socket" exsits key
    check "help of an unknown command" 2 'frobnicate' 'okv --help' "$okv" help frobnicate
    for size in 12Q 0 1K -1 '' 99999999999999999999 16M16; do
        check "--memory '$size'" 2 'memory' '[0-9]+ ?[KMG]' \
            "$server" --listen "$socket" "--memory=$size"
    done
    for size in 512MB 1.5G 4k5; do
        check "--memory $size" 2 'memory' 'whole number.*\(512M, not 512MB' "$server" --listen "$socket" --memory "$size"
        check "get --offset $size" 2 "--offset .$size" 'whole number.*\(512M, not 512MB' "$okv" get k --offset "$size"
        check "get --length $size" 2 "--length .$size" 'whole number.*\(512M, not 512MB' "$okv" get k --length "$size"
        check "probe --size $size" 2 "--size .$size" 'whole number.*\(512M, not 512MB' "$okv" probe --size "$size"
        check "--value-size $size" 2 "--value-size .$size" 'whole number.*\(512M, not 512MB' "$bench" --value-size "$size"
    done
    check "probe --size 0" 2 "--size" 'from 1 B to 1 GiB' "$okv" probe --size 0
    for size in 9999 0-9999 1- x ''; do
        check "--worker-cpus '$size'" 2 'worker-cpus' 'such as|taskset' "$server" --listen "$socket" "--worker-cpus=$size"
    done
    [ "$(nproc)" -eq 1 ] || check "more workers than --worker-cpus" 2 'names 1 processors' '--workers 1' \
        "$server" --listen "$socket" --workers 2 --worker-cpus "$(taskset -cp $$ | grep -o '[0-9]*$')"
    check "--worker-cpus of all" 2 'all processors' 'leave one' \
        "$server" --listen "$socket" --worker-cpus "$(taskset -cp $$ | sed 's/.*: //')"
    check "--max-silent 0" 2 'max-silent' 'from 1 to' "$server" --listen "$socket" --max-silent 0
    check "--alone-ms 0" 2 'alone-ms' 'from 1 to' "$server" --listen "$socket" --alone-ms 0
    check "--report-percent 0" 2 'report-percent' 'from 1 to 100' "$server" --listen "$socket" --report-percent 0
    check "--hello-ms 1" 2 'hello-ms' 'from 100 to' "$server" --listen "$socket" --hello-ms 1
    for ratio in -1 nan 1001 1x ''; do
        check "--snapshot-ratio '$ratio'" 2 'snapshot-ratio' 'from 0 to' "$server" --listen "$socket" \
            "--snapshot-ratio=$ratio"
    done
    check "--max-clients 0" 2 'max-clients' 'from 1 to' "$server" --listen "$socket" --max-clients 0
    for size in 100 500 8K 1M; do
        check "--bucket-size $size" 2 'bucket-size' '256|power of two' \
            "$server" --listen "$socket" --memory 16M --bucket-size "$size"
    done
    for size in 0 -1 65M 1G 64Q ''; do
        check "--max-value '$size'" 2 'max-value' 'from 1 B to 64 MiB' \
            "$server" --listen "$socket" --memory 1G "--max-value=$size"
    done
    check "--max-value over a quarter of the table" 2 'max-value 5 MiB' 'a quarter.*--memory' \
        "$server" --listen "$socket" --memory 16M --max-value 5M
    check "--max-value over a quarter, named first" 2 'max-value 5 MiB' 'a quarter.*--memory' \
        "$server" --listen "$socket" --max-value 5M --memory 16M
    check "--max-value over a quarter of one database" 2 'max-value 5 MiB: the database small' 'SIZE' \
        "$server" --listen "$socket" --database large:64M --database small:16M --max-value 5M
    for name in '' . .. ..:4M a/b a:0 a: a:1Q a:512K 01234567890123456789012345678901; do
        check "--database '$name'" 2 'database' 'from 1 MiB|1 to 31' "$server" --listen "$socket" --database "$name"
    done
    check "--database twice" 2 'one called a' 'another name' "$server" --listen "$socket" --database a --database a:4M
    check "--listen with a database" 2 'database' '--database' "$server" --listen "$socket?database=a"
    for size in '' 0 any,1000 Any; do
        check "--listen with uids=$size" 2 'uids may be any' 'uids=any' "$server" --listen "$socket?uids=$size"
    done
    check "uids for another host" 2 'not an option of an ofi URI' 'write' "$server" --listen 'ofi://127.0.0.1?uids=any'
    check "uids (okv)" 2 'uids is for the --listen' 'leave it out' "$okv" -s "$socket?uids=any" ping
    check "resp (okv)" 2 'is for clients of Redis' 'other listeners' "$okv" -s resp://127.0.0.1 ping
    check "uids (bench)" 2 'uids is for the --listen' 'leave it out' "$bench" -s "$socket?uids=any" --records 10
    reachable_listeners
    for size in 5 5000 0s 2h soon ''; do
        check "--sync '$size'" 2 'sync' 'a time from 1ms to 1h, such as 100ms' "$server" --listen "$socket" "--sync=$size"
    done
    check "a cluster without etcd" 2 'cluster c: say where etcd is' '--etcd URLS, such as' \
        "$server" --listen "$socket" --open --cluster c --advertise tcp://10.0.0.1
    check "etcd without a cluster" 2 'etcd https://10.0.0.1:2379' 'needs --cluster' \
        "$server" --listen "$socket" --etcd https://10.0.0.1:2379
    check "--data below a directory that is not there" 3 '^okv-server: --data: .*No such file' '/none/data' \
        "$server" --listen "$socket" --memory 16M --data "$scratch/none/data"
    check "databases beyond the memory" 3 'in all do not fit' 'choose less' \
        "$server" --listen "$socket" --database a:100T --database b:1M
    for size in 0 1001 -1 x; do
        check "--extra-reads $size" 2 'extra-reads' 'from 1 to 1000' \
            "$server" --listen "$socket" --memory 16M "--extra-reads=$size"
    done
    check "--full sometimes" 2 'full' 'refuse, evict|evict-expiring' "$server" --listen "$socket" --full=sometimes
    check "--full with a long value" 2 'max-value 2 MiB' 'values up to 1 MiB, a sixteenth' \
        "$server" --listen "$socket" --full=evict --memory 16M --max-value=2M
    for size in 9 96 -1 x; do
        check "--index-percent $size" 2 'index-percent' 'from 10 to 95' \
            "$server" --listen "$socket" --memory 16M "--index-percent=$size"
    done
    for uri in http://10.0.0.1 10.0.0.1 rdma:// rdma://host:99999 rdma://host:port local:// local://relative \
        local:///directory/ ''; do
        check "$uri (server)" 2 '.' '(rdma|local)://' "$server" --listen "$uri" --memory 16M
        [ -n "$uri" ] || continue
        check "$uri (okv)" 2 '.' '(rdma|local)://' "$okv" -s "$uri" ping
        check "$uri (bench)" 2 '.' '(rdma|local)://' "$bench" -s "$uri" --records 10
    done
    for uri in okv://10.0.0.1 okv://10.0.0.1,/NAME 'okv://10.0.0.1/NAME?transport=local' okv:///run/okv.sock,host/NAME; do
        check "$uri (okv)" 2 '.' '(okv|tcp)://|of one kind' "$okv" -s "$uri" ping
        check "$uri (bench)" 2 '.' '(okv|tcp)://|of one kind' "$bench" -s "$uri" --records 10
    done
    check "a cluster to listen at" 2 'okv://.*does not begin with' 'rdma://' "$server" --listen okv://10.0.0.1/NAME
    check "valkey+rdma:// (bench)" 2 'valkey\+rdma://' 'libvalkey|HOST\[:PORT\]' "$bench" -s valkey+rdma:// --records 10
}

# Other hosts reach these: only with --open.
reachable_listeners() {
    local uri fix='--open.*local://.*(ofi|tcp|resps?)://127'
    for uri in rdma://10.0.0.1 rdma://127.0.0.1 'rdma://*' rdma://localhost 'rdma://[::1]' ofi://10.0.0.1 ofi://0.0.0.0 \
        'ofi://*' ofi://128.0.0.1 ofi://126.255.255.255 'ofi://[::]' 'ofi://[fd00::1]' 'ofi://[::ffff:10.0.0.1]' \
        ofi://localhost ofi://127.1 'ofi://10.0.0.1:7471?provider=tcp' resp://10.0.0.1 'resp://*' resps://10.0.0.1; do
        check "$uri without --open" 2 "--listen .*: other hosts .* read, write and flush" "$fix" \
            "$server" --listen "$uri" --memory 16M
    done
    check "one of several without --open" 2 '--listen ofi://10.0.0.1: other hosts' "$fix" \
        "$server" --listen "$socket" --listen ofi://10.0.0.1 --listen ofi://127.0.0.1 --memory 16M
    check "several with --open" 2 'one called a' 'another name' \
        "$server" --listen ofi://10.0.0.1 --open --listen rdma://10.0.0.1 --database a --database a
    # Not refused for that, but for what comes after it.
    for uri in ofi://127.0.0.1 ofi://127.255.255.254 'ofi://[::1]' 'ofi://[::1]:7471' resp://127.0.0.1 \
        resp:///tmp/okv-resp.sock "$socket"; do
        check "$uri without --open" 2 'one called a' 'another name' \
            "$server" --listen "$uri" --listen "$socket.2" --database a --database a
    done
}

nobody_listens() {
    check "no such socket (okv)" 3 'no server listens' 'okv-server --listen' "$okv" -s "$socket" ping
    check "no such socket (bench)" 3 'no server listens' 'okv-server --listen' "$bench" -s "$socket" --records 10
    # Root's and the service's are not for a test to use; they may be somebody's.
    if [ ! -e /run/okv.sock ] && [ ! -e /run/okv/okv.sock ]; then
        check "no server named (okv)" 3 'no server listens' '-s URI or set OKV_SERVER' \
            env "XDG_RUNTIME_DIR=$scratch" "$okv" ping
        check "no server named (bench)" 3 'no server listens' '-s URI or set OKV_SERVER' \
            env "XDG_RUNTIME_DIR=$scratch" "$bench" --records 10
    fi
    check "no such directory (server)" 3 'directory' 'create|choose' \
        "$server" --listen "local://$scratch/no/such" --memory 16M
    : >"$scratch/file"
    mkfifo "$scratch/socket.lock"
    check "a FIFO for the lock of a socket" 3 'socket.lock: it is not a regular file' '.' \
        "$server" --listen "local://$scratch/socket" --memory 16M
    check "a file, not a socket (okv)" 3 'no server listens' 'okv-server --listen' \
        "$okv" -s "local://$scratch/file" ping
}

key_files() {
    check "two files for one key" 2 'unexpected argument' 'one FILE' "$okv" keygen "$scratch/one" "$scratch/two"
    : >"$scratch/there"
    check "a key file that is there" 3 'File exists' 'another name|remove' "$okv" keygen "$scratch/there"
    ln -s "$scratch/nowhere" "$scratch/link"
    check "a link to no file" 3 'File exists' 'another name|remove' "$okv" keygen "$scratch/link"
    check "a key file without a directory" 3 'No such file' 'directory' "$okv" keygen "$scratch/no/such/key"
    check "no key for a password" 3 'No such file' 'can read' "$okv" keygen --password "$scratch/no/such/key"
    chmod 644 "$scratch/there" # as a key file must not be
    check "a key for a password that others may read" 3 'there' 'chmod' "$okv" keygen --password "$scratch/there"
    check "no room for a key" 3 'No space left' 'output' sh -c "\"$okv\" keygen >/dev/full"
}

# Files that somebody else may have made or changed, and what is no file.
server_files() {
    local mode part
    mkfifo "$scratch/fifo"
    check "a configuration that is a FIFO" 2 '--config: .*not a regular file' 'name one' "$server" --config "$scratch/fifo"
    : >"$scratch/configuration"
    for mode in 602 620 666; do
        chmod $mode "$scratch/configuration"
        check "a configuration of mode $mode" 2 "others \(mode 0$mode\)" 'chmod go-w' "$server" --config "$scratch/configuration"
    done
    check "a password for etcd that others may read" 3 '--etcd-password-file: .*mode 0666' 'chmod 600' \
        "$server" --listen "$socket" --memory 16M --open --cluster c --advertise "$socket" \
        --etcd http://127.0.0.1:1 --etcd-user me --etcd-password-file "$scratch/configuration"
    [[ $(ldd "$server") == *libssl* ]] && [ -n "$(command -v openssl)" ] || return 0
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$scratch/key" -out "$scratch/cert" -days 2 -subj /CN=localhost 2>/dev/null
    local tls=("$server" --listen resps://127.0.0.1 --memory 16M)
    for part in "$scratch/fifo $scratch/key" "$scratch/cert $scratch/fifo"; do
        check "a FIFO for TLS" 3 'fifo is not a regular file' 'name one' "${tls[@]}" --tls-cert "${part% *}" --tls-key "${part#* }"
    done
    tls+=(--tls-cert "$scratch/cert" --tls-key "$scratch/key")
    truncate -s 1G "$scratch/endless"
    check "a file of 1 GiB for --tls-ca" 3 '--tls-ca: .*endless has more than 1048576 bytes' 'name the right' \
        "${tls[@]}" --tls-ca "$scratch/endless"
    check "a FIFO for --tls-ca" 3 '--tls-ca: .*fifo is not a regular file' 'name one' "${tls[@]}" --tls-ca "$scratch/fifo"
    for mode in 604 640; do
        chmod $mode "$scratch/key"
        check "a key of TLS of mode $mode" 3 "--tls-key: .*mode 0$mode" 'chmod 600' "${tls[@]}"
    done
    chmod 646 "$scratch/cert"
    check "a certificate that anybody may change" 3 '--tls-cert: .*mode 0646' 'chmod go-w' "${tls[@]}"
}

# What argp lets through and the programs have to refuse; no server is needed for that.
command_arguments() {
    local bad
    for bad in 0s -1s 0 60000ms1 140737488355328ms 99999999999999999999s 1.5s 10sec ''; do
        check "--ttl '$bad'" 2 '--ttl' 'time from 1ms to 1628906d, such as 500ms, 60s' \
            "$okv" -s "$socket" put key value "--ttl=$bad"
        check "touch '$bad'" 2 'TIME' 'time from 1ms to .* or none' "$okv" -s "$socket" touch key "$bad"
    done
    for bad in one 1.5 -5x 007 -0 9223372036854775808 -9223372036854775809 ''; do
        check "incr by '$bad'" 2 'N' 'whole number from -9223372036854775808' "$okv" -s "$socket" incr key "$bad"
    done
    for bad in 0 -1 x 18446744073709551616; do
        check "--if-version '$bad' (put)" 2 '--if-version' 'whole number from 1' \
            "$okv" -s "$socket" put key value "--if-version=$bad"
        check "--if-version '$bad' (del)" 2 '--if-version' 'whole number from 1' \
            "$okv" -s "$socket" del key "--if-version=$bad"
    done
    check "two conditions" 2 'exclude each other' 'give one' \
        "$okv" -s "$socket" put key value --if-absent --if-version 1
    check "--if-version for two keys" 2 '--if-version' 'one KEY' "$okv" -s "$socket" del a b --if-version 1
    for bad in 0s 0 -1s soon 86401 86400001ms; do
        check "--timeout '$bad' (okv)" 2 '--timeout' 'time from 1ms' "$okv" -s "$socket" "--timeout=$bad" ping
        check "-t '$bad' (of a command)" 2 '--timeout' 'time from 1ms' "$okv" -s "$socket" ping -t "$bad"
        check "--timeout '$bad' (bench)" 2 '--timeout' 'time from 1ms' "$bench" -s "$socket" "--timeout=$bad"
        check "-t '$bad' (bench)" 2 '--timeout' 'time from 1ms' "$bench" -s "$socket" -t "$bad"
    done
    check "scan with a word" 2 'user:' '--prefix user:' "$okv" -s "$socket" scan user:
    check "export with a word" 2 'items.tsv' '--prefix items.tsv, .* >items.tsv' "$okv" -s "$socket" export items.tsv
    check "import of two files" 2 'b.tsv' 'one FILE' "$okv" -s "$socket" import a.tsv b.tsv
    check "put of two values" 2 'exclude each other' 'give one' "$okv" -s "$socket" put key value -f "$scratch/file"
    check "a value with a dash" 2 "'-x'" 'put -- before' "$okv" -s "$socket" put key -x
    check "get of two outputs" 2 '--json' 'leave out --output' "$okv" -s "$socket" get key --json -o "$scratch/file"
    check "scan of two outputs" 2 '--json' 'leave out --long' "$okv" -s "$socket" scan --json --long
    check "ttl of two keys" 2 'unexpected argument' 'one KEY' "$okv" -s "$socket" ttl a b
    check "scan --limit 0" 2 '--limit' 'from 1' "$okv" -s "$socket" scan --limit 0
    check "flush without a word" 2 'every item' '--yes' "$okv" -s "$socket" flush
    check "flush with a key" 2 'every item' 'okv del key' "$okv" -s "$socket" flush key
    check "put without a value" 2 'KEY and VALUE' 'KEY and -' "$okv" -s "$socket" put key
    check "append without a value" 2 'KEY and VALUE' 'KEY and -' "$okv" -s "$socket" append key
    check "touch without a time" 2 'a time such as 60s' 'none' "$okv" -s "$socket" touch key
    check "exists of two keys" 2 'unexpected argument' 'one KEY' "$okv" -s "$socket" exists a b
    check "--get-many 0" 2 '--get-many' 'from 1' "$bench" -s "$socket" --get-many 0
    check "--get-many with puts" 2 '--get-many' 'leave out' "$bench" -s "$socket" --get-many 8 --mix get=50,put=50
    bench_arguments
}

bench_arguments() {
    local bad
    for bad in get=50,put=49 get=101 get=50,get=50 scan=10 get get= =5 'get=95,' put=-5 '' get=nan; do
        check "--mix '$bad'" 2 '--mix' 'add up to 100, such as' "$bench" -s "$socket" "--mix=$bad"
    done
    for bad in g aa '' B; do
        check "--workload '$bad'" 2 '--workload' 'give a, b, c, d or f' "$bench" -s "$socket" "--workload=$bad"
    done
    check "--workload e" 2 'order of keys' 'give a, b, c, d or f' "$bench" -s "$socket" --workload e
    check "an unknown distribution" 2 'normal' 'zipfian, latest or hotspot' "$bench" -s "$socket" --distribution normal
    for bad in 0.2 0.2,1 0,0.8 0.2,0.8,0.1 a,b ''; do
        check "--hotspot '$bad'" 2 '--hotspot' 'between 0 and 1, such as' "$bench" -s "$socket" "--hotspot=$bad"
    done
    for bad in 15 8-32 4K-16 16- trace:5 tracer 32,64 ''; do
        check "--value-size '$bad'" 2 '--value-size' 'give' "$bench" -s "$socket" "--value-size=$bad"
    done
    for bad in 0 -1 fast 2000000000; do
        check "--rate '$bad'" 2 '--rate' 'whole number from 1' "$bench" -s "$socket" "--rate=$bad"
        check "--connections '$bad'" 2 '--connections' 'whole number from 1' "$bench" -s "$socket" "--connections=$bad"
    done
    check "--even without a rate" 2 '--even' 'give --rate' "$bench" -s "$socket" --even
    check "--rate with --floor" 2 '--floor' 'leave out --rate' "$bench" -s "$socket" --rate 10 --floor
    check "--rate with --get-many" 2 '--get-many' 'leave out --rate' "$bench" -s "$socket" --rate 10 --get-many 8
    check "--connections with --floor" 2 '--floor' 'leave out' "$bench" -s "$socket" --connections 2 --floor
    check "an empty number of threads" 2 '--threads' 'whole number from 1' "$bench" -s "$socket" --threads 1,
    check "a number of threads twice" 2 '--threads' 'each number once' "$bench" -s "$socket" --threads 2,1,2
    check "too many numbers of threads" 2 '--threads' 'at most 16' "$bench" -s "$socket" -s "x=$socket" --threads 1,2,3,4,5,6,7,8,9
    check "numbers of threads with --floor" 2 '--floor' 'leave out' "$bench" -s "$socket" --threads 1,2 --floor
    check "numbers of threads that insert" 2 '--threads' 'leave' "$bench" -s "$socket" --threads 1,2 --workload d
    check "--floor with many sizes" 2 '--floor' 'one SIZE' "$bench" -s "$socket" --value-size 16-4K --floor
    check "--load-only with --floor" 2 '--load-only' 'leave out --floor' "$bench" -s "$socket" --load-only --floor
    check "--load-only with --no-load" 2 '--no-load' 'give one' "$bench" -s "$socket" --load-only --no-load
    check "inserts with short keys" 2 '--key-size' 'longer' "$bench" -s "$socket" --workload d --key-size 8
    check "a mix for a replay" 2 '--replay' 'leave out --mix' "$bench" -s "$socket" --replay "$scratch/trace" --mix get=100
    check "numbers of threads for a replay" 2 '--replay' 'one number' "$bench" -s "$socket" --replay "$scratch/trace" --threads 1,2
    check "items for no replay" 2 '--replay-items' 'give --replay' "$bench" -s "$socket" --replay-items 5
    check "a trace that is not there" 2 'no/such' 'directory' "$bench" -s "$socket" --replay "$scratch/no/such"
    check "a trace of no kind" 2 "'zap'" 'give zipf' "$bench" --make-trace zap
    check "two outputs on stdout" 2 '--csv' 'FILE' "$bench" -s "$socket" --json - --csv -
    check "one name for two servers" 2 "'x'" 'another' "$bench" -s "x=$socket" -s "x=$socket.2"
    check "a server without a URI" 2 '--server' 'NAME=URI' "$bench" -s x=
    check "a file that cannot be written" 3 'no/such' 'directory' "$bench" -s "$socket" --json "$scratch/no/such"
}

# Conditions, numbers, lengths and times that the item there does not meet.
items_as_they_are() {
    local status=0 okv=$patient
    "$okv" -s "$socket" put word text
    "$okv" -s "$socket" put number 9223372036854775807
    "$okv" -s "$socket" put long "$(key 60000)"
    check "incr of what is no number" 3 'not a decimal integer' 'okv get' "$okv" -s "$socket" incr word
    check "incr beyond 64 bits" 3 'does not fit' 'add less' "$okv" -s "$socket" incr number
    check "append beyond the limit" 3 'larger than' 'connection_max_value' \
        "$okv" -s "$socket" append long "$(key 10000)"
    check "append of more than a message" 3 'one append takes up to 1[0-9]{4} bytes' 'in parts' \
        "$okv" -s "$socket" append word "$(key 20000)"
    # shellcheck disable=SC2016 # for the inner shell
    check "append of more than any value (stdin)" 3 'one append takes up to 1[0-9]{4} bytes' 'in parts' \
        bash -c 'head -c 100000 /dev/zero | "$1" -s "$2" append word -' append "$okv" "$socket"
    check "put to another version" 1 'another version' 'okv exists -v' "$okv" -s "$socket" put word x --if-version 4711
    check "put to a version of nothing" 1 'not in the table' '.' "$okv" -s "$socket" put unknown x --if-version 4711
    check "put of what is there" 1 'in the table already' '--if-absent' "$okv" -s "$socket" put word x --if-absent
    check "del of another version" 1 'another version' 'okv exists -v' "$okv" -s "$socket" del word --if-version 4711
    check "an unknown key (touch)" 1 'not in the table' '.' "$okv" -s "$socket" touch unknown 1s
    # shellcheck disable=SC2016 # for the inner shell
    check "standard input over the limit" 3 'larger than' 'connection_max_value' \
        bash -c 'head -c 100000 /dev/zero | "$1" -s "$2" put zeros -' put "$okv" "$socket"
    # shellcheck disable=SC2016 # for the inner shell
    check "a key with an unknown escape (mget)" 3 'escape' 'backslash' \
        bash -c 'echo "a\\qb" | "$1" -s "$2" mget -' mget "$okv" "$socket"

    what="what was refused changed nothing" checks=$((checks + 1))
    [ "$("$okv" -s "$socket" get word)" = text ] || wrong "the value is another one"
    [ "$("$okv" -s "$socket" get long | wc -c)" -eq 60000 ] || wrong "the long value is another one"
    what="an unknown key (exists)" checks=$((checks + 1))
    "$okv" -s "$socket" exists unknown >"$scratch/out" 2>"$scratch/err" || status=$?
    [ $status -eq 1 ] || wrong "exit status $status and not 1"
    if [ -s "$scratch/out" ] || [ -s "$scratch/err" ]; then wrong "something was printed"; fi
    local word
    for word in 'mget -' 'del -' import; do
        # shellcheck disable=SC2016 # for the inner shell
        check "a line without an end ($word)" 3 'longer than (a key|an item) may be' 'line 1' \
            bash -c 'head -c 200M /dev/zero | "$1" -s "$2" $3 >/dev/null' line "$okv" "$socket" "$word"
    done
    what="a key named twice (mget)" checks=$((checks + 1))
    "$okv" -s "$socket" mget word word >"$scratch/out"
    [ "$(grep -c "^word$(printf '\t')text$" "$scratch/out")" -eq 2 ] || wrong "not two lines"
}

# The three results that people mix up have three messages, and a miss its own status.
keys_and_values() {
    local of_key of_value of_miss okv=$patient
    for length in 0 1025; do
        check "put of a key of $length bytes" 3 '1 to 1024' '.' "$okv" -s "$socket" put "$(key $length)" value
        check "get of a key of $length bytes" 3 '1 to 1024' '.' "$okv" -s "$socket" get "$(key $length)"
        check "del of a key of $length bytes" 3 '1 to 1024' '.' "$okv" -s "$socket" del "$(key $length)"
    done
    of_key=$message
    check "a value over the limit" 3 'larger than the server' 'okv stat' \
        "$okv" -s "$socket" put large "$(key 100000)"
    of_value=$message
    check "an unknown key (get)" 1 'not in the table' '.' "$okv" -s "$socket" get unknown
    of_miss=$message
    check "an unknown key (del)" 1 'not in the table' '.' "$okv" -s "$socket" del unknown
    if [ "$of_key" = "$of_value" ] || [ "$of_key" = "$of_miss" ] || [ "$of_value" = "$of_miss" ]; then
        what="keys and values" wrong "two of three results have one message"
    fi
    "$okv" -s "$socket" put first 1
    "$okv" -s "$socket" put last 1
    check "a bad key among good ones (del)" 3 '1 to 1024' '.' "$okv" -s "$socket" del first '' last
    check "the good key after it" 1 'not in the table' '.' "$okv" -s "$socket" get last
    check "a bad key before a miss (mget)" 3 '1 to 1024' '.' "$okv" -s "$socket" mget '' unknown
    # shellcheck disable=SC2016 # for the inner shell
    check "an empty line before a miss (mget)" 3 '1 to 1024' '.' \
        bash -c 'printf "\nunknown\n" | "$1" -s "$2" mget -' mget "$okv" "$socket"
    check "a value size over the limit (bench)" 3 'larger than' 'at most 65536' \
        "$bench" -t 120s -s "$socket" --records 10 --value-size 1M --seconds 1
}

huge_pages() {
    local free overcommit
    check "unknown huge pages" 2 'huge=tiny' 'reserved, transparent, auto or off' "$server" --huge=tiny
    free=$(awk '/^HugePages_Free/ { print $2 }' /proc/meminfo)
    overcommit=$(cat /proc/sys/vm/nr_overcommit_hugepages 2>/dev/null || echo 0)
    if [ "${free:-0}" -ne 0 ] || [ "$overcommit" -ne 0 ]; then
        echo "left out: no huge pages (this machine has some)"
        return
    fi
    check "no huge pages" 3 'huge pages' 'nr_hugepages|--huge' \
        "$server" --listen "local://$scratch/huge.sock" --memory 64M --huge
}

no_device() {
    if [ -n "$(ls /sys/class/infiniband 2>/dev/null)" ]; then
        echo "left out: no RDMA device (this machine has one)"
        return
    fi
    local fix='rdma link|rdma_rxe|local://|load|modprobe|driver|install'
    check "no RDMA device (server)" 3 'RDMA' "$fix" "$server" --listen rdma://127.0.0.1 --open --memory 16M
    check "no RDMA device (server, *)" 3 'RDMA' "$fix" "$server" --listen 'rdma://*' --open --memory 16M
    check "no RDMA device (okv)" 3 'RDMA' "$fix" "$okv" -s rdma://10.1.2.3 ping
    check "no RDMA device (bench)" 3 'RDMA' "$fix" "$bench" -s rdma://10.1.2.3 --records 10
}

# locked KILOBYTES COMMAND...: runs it with that limit on locked memory and without the privilege that
# lifts it.
locked() {
    local limit=$1
    shift
    # shellcheck disable=SC2016 # for the inner shell
    setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock \
        bash -c 'ulimit -l "$1"; shift; exec "$@"' locked "$limit" "$@"
}

with_a_device() {
    local address=$OKV_GUEST_ADDR
    export -f locked
    check "no server listens (rdma)" 3 'no server listens' 'okv-server' "$patient" -s "rdma://$address:7499" ping
    check "no server listens (rdma, bench)" 3 'no server listens' 'okv-server' \
        "$bench" -t 120s -s "rdma://$address:7499" --records 10
    check "a host that does not answer" 3 '.' 'check' "$okv" -s rdma://10.9.9.77 ping
    check "an address without device (server)" 3 '127\.0\.0\.1' 'rdma link|address|device' \
        "$server" --listen rdma://127.0.0.1 --open --memory 16M
    check "an address that is not here (server)" 3 '192\.0\.2\.1' 'ip addr|address' \
        "$server" --listen rdma://192.0.2.1 --open --memory 16M
    # shellcheck disable=SC2016 # for the inner shell
    check "not enough locked memory (server)" 3 'lock' 'ulimit -l' \
        bash -c 'locked 64 "$@"' locked "$server" --listen "rdma://$address:7498" --open --memory 16M
    start_server "rdma://$address" --max-value 64K
    check "a port in use" 3 'in use|already' 'stop|another port|choose' \
        "$server" --listen "rdma://$address" --open --memory 16M
    # shellcheck disable=SC2016 # for the inner shell
    check "not enough locked memory (okv)" 3 'lock' 'ulimit -l' \
        bash -c 'locked 64 "$@"' locked "$patient" -s "rdma://$address" ping
    check "a socket of the wrong kind" 3 'no server listens' 'okv-server' "$okv" -s "$socket.none" ping
    socket=rdma://$address
    keys_and_values
    items_as_they_are
    import_in_little_memory
}

# More values are under way than the limit lets the client lock: some are tried again, and all arrive.
import_in_little_memory() {
    local status=0 line okv=$patient
    what="import where few values can be locked" checks=$((checks + 1))
    for line in $(seq 100); do
        printf 'locked:%s\t%s%s\n' "$((line % 90))" "$line" "$(key 60000)"
    done >"$scratch/items"
    locked 1700 "$okv" -s "$socket" --counters import <"$scratch/items" >"$scratch/out" 2>"$scratch/err" || status=$?
    [ $status -eq 0 ] || wrong "exit status $status and not 0"
    [ "$(cat "$scratch/out")" = "imported 100 items" ] || wrong "it says $(cat "$scratch/out")"
    [ "$(sed -n 's/^puts //p' "$scratch/err")" -gt 100 ] || wrong "the limit was not met: choose another"
    [ "$("$okv" -s "$socket" get locked:7 | head -c 3)" = 97k ] || wrong "the last line did not win"
    # shellcheck disable=SC2016 # for the inner shell
    check "import where no value can be locked" 3 'resource limit' 'line 1|ulimit|limit' \
        bash -c 'locked 850 "$0" -s "$1" import --depth 32 <"$2" 2>&1 >/dev/null | tail -n 1 >&2; exit "${PIPESTATUS[0]}"' \
        "$okv" "$socket" "$scratch/items"
}

unresolvable_hosts() {
    local host=no-such-host.invalid
    check "an unresolvable host (server)" 3 "$host|RDMA" 'check|give|load' "$server" --listen "rdma://$host" --open --memory 16M
    check "an unresolvable host (okv)" 3 "$host|RDMA" 'check|give' "$okv" -s "rdma://$host" ping
    check "an unresolvable host (bench)" 3 "$host|RDMA" 'check|give' "$bench" -s "rdma://$host" --records 10
}

# answerer ADDRESS BYTES: a server there that answers the first client so (printf's escapes), and nothing more. Its
# process is the last of `servers`.
answerer() {
    printf '%b' "$2" >"$scratch/answer"
    : >"$scratch/ready"
    setpriv --pdeathsig KILL python3 - "$1" "$scratch/answer" >"$scratch/ready" <<'PYTHON' &
import socket, sys, time
server = socket.create_server((sys.argv[1], 7471))
print("ready", flush=True)
client = server.accept()[0]
client.sendall(open(sys.argv[2], "rb").read())
time.sleep(1000)
PYTHON
    servers+=($!)
    until grep -q ready "$scratch/ready"; do sleep 0.1; done
}

# Of libfabric, natively over TCP.
fabrics() {
    local -x LD_LIBRARY_PATH=$build/shared # a sanitizer's dlopen() does not see the program's own search path
    local net=127.$((1 + RANDOM % 254)).$((RANDOM % 256))
    local zeros='\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
    check "a provider that is none (server)" 3 'no libfabric provider nosuch' 'without \?provider=' \
        "$server" --listen "ofi://$net.1?provider=nosuch" --memory 16M
    check "a provider that reads nothing (server)" 3 'no libfabric provider udp' 'it has .*net' \
        "$server" --listen "ofi://$net.1?provider=udp" --memory 16M
    check "a provider that protects nothing (server)" 3 'protects no memory' 'local://' \
        "$server" --listen "ofi://$net.1?provider=shm" --memory 16M
    check "a provider that the host lacks (server)" 3 'no provider efa' 'fi_info' \
        "$server" --listen "ofi://$net.1?provider=efa" --memory 16M
    check "an address that is not here (server)" 3 '192\.0\.2\.1' 'ip addr' \
        "$server" --listen ofi://192.0.2.1 --open --memory 16M
    check "every address (server)" 3 'one address' 'ofi://10' "$server" --listen 'ofi://*' --open --memory 16M
    check "a source that is not here (okv)" 3 '192\.0\.2\.1' 'ip addr' "$okv" -s "ofi://$net.1?source=192.0.2.1" ping
    check "no server listens (ofi)" 3 'no server listens' 'okv-server' "$okv" -s "ofi://$net.1" ping
    answerer "$net.2" "KOFI\\x63\\x01\\x20\\0$zeros"
    check "another version (ofi)" 3 'another version' 'update' "$okv" -s "ofi://$net.2" ping
    answerer "$net.3" "HTTP/1.1 400 Bad Request\\r\\n"
    check "another service (ofi)" 3 'no okv-server with an ofi listener' "$net\.3 port 7471" "$okv" -s "ofi://$net.3" ping
    answerer "$net.4" ''
    check "a server that says nothing (ofi)" 3 'did not answer' 'busy or stopped' "$okv" -s "ofi://$net.4" -t 1s ping
    answerer "$net.5" "KOFI\\x01\\x01\\x20\\0efa$zeros"
    check "the server's provider is not here (okv)" 3 'no provider efa' 'fi_info' "$okv" -s "ofi://$net.5" ping
    check "a port in use (ofi)" 3 'in use' 'another port' "$server" --listen "ofi://$net.5" --memory 16M
    start_server "ofi://$net.6?provider=net"
    what="a server of this host does not say that it is open" checks=$((checks + 1))
    ! grep -q ': open: ' "$scratch/log" || wrong "it says so"
    what="a server on a loopback address says that users of this host reach it" checks=$((checks + 1))
    grep -q "ofi://$net.6.*: every user of this host .*: .*--users.*resp:///PATH" "$scratch/log" || wrong "it says nothing"
    what="a server of other hosts says that it is open" checks=$((checks + 1))
    start_server "ofi://${net%.*}.$((${net##*.} * 256 + 7))?provider=net" # as a name; they count as other hosts
    [ "$(grep -c 'okv-server: open: anyone who reaches it' "$scratch/log")" -eq 1 ] || wrong "it says nothing"
    check "FI_PROVIDER hides the provider (server)" 3 'no provider net' 'FI_PROVIDER=udp is set, and hides others: unset it' \
        env FI_PROVIDER=udp "$server" --listen "ofi://$net.8?provider=net" --memory 16M
    check "FI_PROVIDER hides all (server)" 3 'no provider with' 'FI_PROVIDER=udp is set, and hides others: unset it' \
        env FI_PROVIDER=udp "$server" --listen "ofi://$net.8" --memory 16M
    check "an empty FI_PROVIDER hides all (server)" 3 'no provider with' 'FI_PROVIDER= is set, and hides others: unset it' \
        env FI_PROVIDER= "$server" --listen "ofi://$net.8" --memory 16M
    check "FI_PROVIDER hides the provider (okv)" 3 'no provider net' 'FI_PROVIDER=udp is set, and hides others: unset it' \
        env FI_PROVIDER=udp "$okv" -s "ofi://$net.6" ping
    check "another provider than the server's" 3 'uses .* net, .* names tcp' 'leave' \
        "$okv" -s "ofi://$net.6?provider=tcp" ping
}

# A server that refuses is there: over each scheme it is said so.
refusals() {
    local net=127.$((1 + RANDOM % 254)).$((RANDOM % 256)) listeners=() uri
    [ ! -e "$build"/shared/libokv-ofi.so.0.3 ] || listeners=("ofi://$net.2")
    local -x LD_LIBRARY_PATH=$build/shared
    start_server "$socket" --listen "tcp://$net.1" "${listeners[@]/#/--listen=}"
    for uri in "$socket" "tcp://$net.1" "${listeners[@]}"; do
        check "no such database ($uri)" 3 "^okv: refused by $uri\?database=no: the server has no database" '--database' \
            "$okv" -s "$uri?database=no" ping
        check "no such database ($uri, bench)" 3 "^kv-bench: refused by $uri\?database=no: the server has no" '--database' \
            "$bench" -s "$uri?database=no" --records 10
    done
    check "no server listens (tcp)" 3 "^okv: no server listens at $net\.3 port 7471: " 'okv-server' "$okv" -s "tcp://$net.3" ping
    end_server TERM
}

# An okv without libokv-ofi.so, as -DOKV_OFI=OFF builds it.
without_libfabric() {
    cmake --install "$build" --prefix "$scratch/installed" >/dev/null
    find "$scratch/installed" -name 'libokv-ofi.so*' -delete
    check "no libfabric (server)" 3 'ofi:// needs libokv-ofi' 'install libfabric' \
        env -u LD_LIBRARY_PATH "$scratch/installed/bin/okv-server" --listen ofi://127.0.0.1 --memory 16M
    check "no libfabric (okv)" 3 'ofi:// needs libokv-ofi' 'install libfabric' \
        env -u LD_LIBRARY_PATH "$scratch/installed/bin/okv" -s ofi://127.0.0.1 ping
}

command_lines
nobody_listens
huge_pages
unresolvable_hosts
if [ -n "${OKV_GUEST:-}" ]; then
    with_a_device
else
    command_arguments # the same everywhere, and the guest is slow
    key_files
    server_files
    no_device
    without_libfabric
    [ ! -e "$build"/shared/libokv-ofi.so.0.3 ] || fabrics
    refusals
    start_server "$socket" --max-value 64K
    check "a socket in use" 3 'already listens' 'stop|choose' "$server" --listen "$socket" --memory 16M
    keys_and_values
    items_as_they_are
    kill -KILL "${servers[-1]}"
    wait "${servers[-1]}" 2>/dev/null || true
    check "the socket of a killed server" 3 'no server listens' 'okv-server --listen' "$okv" -s "$socket" ping
fi
echo "bad_input: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
