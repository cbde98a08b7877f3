#!/usr/bin/env bash
# tcps:// as its users see it: certificates, wrong ports, and what both sides say.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/tls.sh BUILD_DIR

Runs okv-server, okv, kv-bench and the Python package of BUILD_DIR over tcps:// and tcp://, with certificates that it
makes, and with each protocol at the port of another one. Where the library has sanitizers, Python is left out. Exits 1
when something is wrong, 77 without OpenSSL.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"

if [[ $(ldd "$server") != *libssl* ]] || [ -z "$(command -v openssl)" ]; then
    echo "skipped: there is no OpenSSL in this build, or no openssl on this machine"
    exit 77
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
"$root/tests/support/certificates.sh" "$scratch/tls"
tls=$scratch/tls
host=127.$((1 + RANDOM % 254)).$((RANDOM % 256)).$((1 + RANDOM % 254))
secure="tcps://$host?server-name=okv.test&ca=$tls/ca.pem"
certified=(--tls-cert "$tls/server.pem" --tls-key "$tls/server.key")

# says WHAT STATUS WORDS COMMAND...: the command ends with the status, and stderr has the words.
says() {
    local what=$1 wanted=$2 words=$3 status=0
    shift 3
    timeout 60 "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
    same "the status of $what" $status "$wanted"
    same "what $what says" "$(grep -cF -- "$words" "$scratch/err")" 1
}

# gets WHAT COMMAND...: it prints `hello`.
gets() {
    local what=$1
    shift
    same "$what" "$("$@" 2>"$scratch/err")" hello
}

# logs WORDS: the server's log has them, if not now, then soon.
logs() {
    local tries
    for ((tries = 0; tries < 1200; tries++)); do
        ! grep -qF -- "$1" "$scratch/log" || break
        sleep 0.05
    done
    same "the log's '$1'" "$(grep -cF -- "$1" "$scratch/log" | sed 's/[1-9][0-9]*/some/')" some
}

by_python() {
    gets "Python" env PYTHONPATH="$root/client/python" OKV_LIBRARY="$build/client/libokv.so" "$python" -c "
import okv, sys
with okv.Client('tcps://$host', tls_ca='$tls/ca.pem', tls_server_name='okv.test') as db:
    sys.stdout.write(db.get('greeting').decode())"
}

clients() {
    start_server "tcps://$host" --listen "tcp://$host" --listen "resps://$host" --listen "resp://$host:6380" "${certified[@]}"
    "$okv" -s "$secure" put greeting hello
    gets "the certificate by the URI" "$okv" -s "$secure" get greeting
    gets "the certificate by options" "$okv" -s "tcps://$host" --tls-ca "$tls/ca.pem" --tls-server-name okv.test get greeting
    gets "the certificate by the environment" env OKV_TLS_CA="$tls/ca.pem" \
        "$okv" -s "tcps://$host?server-name=okv.test" get greeting
    # An interpreter without sanitizers cannot load a library that has them.
    [ -n "$(sed -n 's/^OKV_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")" ] || by_python
    "$bench" -s "$secure" --records 100 --operations 500 --floor --rounds 1 >"$scratch/out" 2>"$scratch/err" ||
        same "kv-bench --floor" $? 0
    same "what kv-bench says of the connection" "$(grep -c 'TLS over TCP' "$scratch/out")" 1

    "$bench" -s "tcps://$host?server-name=okv.test" --tls-ca "$tls/ca.pem" --records 100 --operations 500 --warmup 0 \
        >"$scratch/out" 2>"$scratch/err" || same "kv-bench --tls-ca" $? 0

    says "another authority" 3 'nobody signed who is trusted here' "$okv" -s "tcps://$host?server-name=okv.test&ca=$tls/other.pem" get greeting
    says "no authority" 3 '?ca=FILE or OKV_TLS_CA' "$okv" -s "tcps://$host?server-name=okv.test" get greeting
    says "another name" 3 'a certificate for okv.test: connect by a name' "$okv" -s "tcps://$host?ca=$tls/ca.pem" get greeting
    says "a certificate without its key" 2 'a certificate and its key go together' "$okv" -s "$secure&cert=$tls/client.pem" get greeting
    says "a database that is not there" 3 "okv: refused by $secure&database=no: " "$okv" -s "$secure&database=no" get greeting
    says "a file that is not there" 2 "ca=: " "$okv" -s "tcps://$host?ca=$scratch/none" get greeting
}

# With the server of clients().
wrong_ports() {
    says "tcp:// at tcps://" 3 'and speaks TLS: try tcps://' "$okv" -s "tcp://$host:7472" get greeting
    logs 'it does not speak TLS: tcp:// is another listener'
    says "tcps:// at tcp://" 3 'does not speak TLS: use tcp://' "$okv" -s "tcps://$host:7471?ca=$tls/ca.pem" get greeting
    logs 'it speaks TLS: tcps:// is another listener'
    says "tcps:// at resps://" 3 'speaks TLS, but is no okv-server with a tcps listener' \
        "$okv" -s "tcps://$host:6379?server-name=okv.test&ca=$tls/ca.pem" get greeting
    # The hello has random bytes, and with a line end among them it is answered: both sentences have these words.
    says "tcp:// at resp://" 3 'is no okv-server' "$okv" -t 500ms -s "tcp://$host:6380" get greeting
    says "tcps:// at nobody" 3 "start okv-server with --listen tcps://$host:7400" "$okv" -s "tcps://$host:7400" get greeting
    local port what
    for port in 7471 7472; do
        # shellcheck disable=SC2016
        for what in 'GET / HTTP/1.0\r\n\r\n' '*1\r\n$4\r\nPING\r\n'; do
            exec 3<>"/dev/tcp/$host/$port"
            printf '%b' "$what" | cat >&3 # by one write
            same "the answer of $port to ${what:0:3}" "$(timeout 10 head -c 10 <&3)" "-ERR okv's"
            exec 3>&-
        done
    done
    logs 'it speaks HTTP and not TLS'
    gets "a client after strangers" "$okv" -s "$secure" get greeting
}

nameless() {
    start_server "tcps://$host" --tls-cert "$tls/nameless.pem" --tls-key "$tls/server.key"
    says "a certificate without a name" 3 'a certificate for okv.test, its CN, as it has no subjectAltName: connect by a name' \
        "$okv" -s "tcps://$host?ca=$tls/ca.pem" get greeting
    end_server TERM
}

renewal() {
    cp "$tls/expired.pem" "$scratch/cert.pem"
    start_server "tcps://$host" --tls-cert "$scratch/cert.pem" --tls-key "$tls/server.key"
    says "a certificate that has expired" 3 'certificate has expired' "$okv" -s "$secure" get greeting
    logs 'it does not take the certificate of this server'
    cp "$tls/server.pem" "$scratch/cert.pem"
    kill -HUP "${servers[-1]}"
    logs "certificate read from $scratch/cert.pem"
    "$okv" -s "$secure" put greeting hello
    gets "the renewed certificate" "$okv" -s "$secure" get greeting
    end_server TERM
}

# An announced server shows a certificate of its name.
discovered() {
    local group=239.$((192 + RANDOM % 60)).$((RANDOM % 256)).$((RANDOM % 256)) tries=0
    start_server "tcps://$host" --announce="$group" --name okv.test "${certified[@]}"
    # A search lasts for a second, and this machine may be busy.
    until "$okv" -s "tcps://discover/okv.test?group=$group&ca=$tls/ca.pem" put greeting hello 2>"$scratch/err" ||
        [ $((++tries)) -eq 20 ]; do :; done
    gets "a server that was found" "$okv" -s "$secure" get greeting
    end_server TERM
    start_server "tcps://$host" --announce="$group" --name other "${certified[@]}"
    tries=0
    until ! "$okv" -s "tcps://discover/other?group=$group&ca=$tls/ca.pem" ping 2>"$scratch/err" &&
        grep -qF 'a certificate for okv.test' "$scratch/err" || [ $((++tries)) -eq 20 ]; do :; done
    same "the refusal of another's certificate" "$(grep -cF 'a certificate for okv.test' "$scratch/err")" 1
    end_server TERM
}

client_certificates() {
    start_server "tcps://$host" "${certified[@]}" --tls-ca "$tls/ca.pem"
    "$okv" -s "$secure&cert=$tls/client.pem&key=$tls/client.key" put greeting hello
    gets "a client with a certificate" "$okv" -s "$secure" --tls-cert "$tls/client.pem" --tls-key "$tls/client.key" get greeting
    "$bench" -s "$secure" --tls-cert "$tls/client.pem" --tls-key "$tls/client.key" --records 100 --operations 500 --warmup 0 \
        >"$scratch/out" 2>"$scratch/err" || same "kv-bench --tls-cert" $? 0
    says "a client without a certificate" 3 'wants a certificate of the client' "$okv" -s "$secure" get greeting
    logs 'it has no certificate, and --tls-ca asks for one'
    says "another's certificate" 3 'does not take the certificate of the client' \
        "$okv" -s "$secure&cert=$tls/other.pem&key=$tls/other.key" get greeting
    end_server TERM
}

starts() {
    says "no certificate" 3 'tcps://: name a certificate and its key with --tls-cert and --tls-key' \
        "$server" --listen "tcps://$host" --open --memory 16M
    says "ofi:// at the port of tcp://" 2 'another --listen has the same place' \
        "$server" --listen "tcp://$host" --listen "ofi://$host" --open
    says "resp:// at the port of tcps://" 2 'another --listen has the same place' \
        "$server" --listen "tcps://$host:6379" --listen "resp://$host" --open
    says "an option for clients" 2 "'ca', 'cert', 'key' and 'server-name' are for clients" \
        "$server" --listen "tcps://$host?ca=$tls/ca.pem" --open
    says "a loopback of the same kind" 2 'such as tcps://127.0.0.1, if' "$server" --listen 'tcps://10.1.2.3' --memory 16M "${certified[@]}"
    says "an open port" 2 'other hosts may reach it' "$server" --listen 'tcps://10.1.2.3' --memory 16M "${certified[@]}"
}

clients
wrong_ports
end_server TERM
nameless
renewal
discovered
client_certificates
starts
echo "tls: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
