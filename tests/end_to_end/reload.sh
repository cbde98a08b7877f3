#!/usr/bin/env bash
# SIGHUP: the configuration file is read again.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/reload.sh BUILD_DIR

Changes the configuration file of a running okv-server of BUILD_DIR, rightly and wrongly, and sends SIGHUP. Exits 1 when
something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"

failures=0 file=$scratch/okv.conf

wrong() {
    failures=1
    echo "WRONG: $*; the log: $(cat "$scratch/log")"
}

# reload TEXT: the file has TEXT, and the server has read it when this returns. Its lines since then are in `said`.
reload() {
    local before tries
    before=$(wc -l <"$scratch/log")
    printf '%s\n' "$1" >"$file"
    kill -HUP "${servers[-1]}"
    for ((tries = 0; tries < 1200; tries++)); do
        said=$(tail -n "+$((before + 1))" "$scratch/log")
        ! grep -q 'configuration \(read\|stays\)' <<<"$said" || return 0
        sleep 0.05
    done
    wrong "SIGHUP with '$1' says nothing"
}

# says LINE...: these are the lines of the reload, but for the last one.
says() {
    local expected
    expected=$(printf 'okv-server: %s\n' "$@" "configuration read from $file")
    [ "$said" = "$expected" ] || wrong "says '$said', not '$expected'"
}

figure() { "$okv" -s "$socket" stat | awk -v name="$1" '$1 == name { print $2 }'; }

printf 'max-clients = 5\ncredits = 8\nhello-ms = 600000\n' >"$file"
start_server "$socket" --config "$file" --drain-ms 7000
"$okv" -s "$socket" put key value

reload $'max-clients = 5\ncredits = 8\nhello-ms = 600000'
[ "$said" = "okv-server: configuration read from $file" ] || wrong "no change says '$said'"

reload $'max-clients = 3\nhello-ms = 200\nalone-ms = 20\nreport-percent = 50\nmax-silent = 9\nidle-s = 60\nspin-us = 0\nmax-clients-per-address = 1\ncredits = 8'
says 'max-clients: 5 -> 3' 'max-clients-per-address: (default) -> 1' 'max-silent: 128 -> 9' \
    'hello-ms: 600000 -> 200' 'alone-ms: 10 -> 20' 'report-percent: 2 -> 50' 'idle-s: 0 -> 60' 'spin-us: 50 -> 0'
[ "$(figure max_clients)" = 3 ] || wrong "--max-clients did not change"

# One client of an address is served, and a second one is not. The one before may not have left yet.
until
    "$okv" -s "$socket" watch key >"$scratch/watched" 2>&1 &
    watcher=$!
    until grep -q 'value' "$scratch/watched" || ! kill -0 $watcher 2>/dev/null; do sleep 0.05; done
    kill -0 $watcher 2>/dev/null
do sleep 0.05; done
! "$okv" -s "$socket" put other value 2>"$scratch/refused" || wrong "a second client of the address is served"
grep -q 'address' "$scratch/refused" || wrong "a second client of the address: $(cat "$scratch/refused")"
kill $watcher
wait $watcher 2>/dev/null || true

# Who says nothing is dropped: the start allowed ten minutes.
timeout 60 python3 - "${socket#local://}" <<'TEXT' || wrong "a silent client stays"
import socket, sys
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as silent:
    silent.connect(sys.argv[1])
    silent.recv(1)
TEXT

# What takes a restart is said each time, and nothing of it happens.
reload $'max-clients = 4\ncredits = 9\nmemory = 8M\ndatabase = other\nprefault = yes'
for line in 'prefault: no -> yes: restart to apply' 'credits: 8 -> 9: restart to apply' 'max-clients: 3 -> 4' \
    'database: (default) -> other: restart to apply'; do
    grep -qxF "okv-server: $line" <<<"$said" || wrong "'$line' is missing in '$said'"
done
! grep -q 'memory' <<<"$said" || wrong "the file's memory does not go before the command line's: '$said'"
[ "$(figure max_clients)" = 4 ] || wrong "--max-clients did not change beside what cannot"
reload $'open = yes\ncluster = c\netcd = http://127.0.0.1:2379\nadvertise = tcp://10.0.0.1\nadvertise = resp://10.0.0.1\ncredits = 8'
for line in 'cluster: (default) -> c' 'etcd: (default) -> http://127.0.0.1:2379' \
    'advertise: (default) -> tcp://10.0.0.1 resp://10.0.0.1'; do
    grep -qxF "okv-server: $line: restart to apply" <<<"$said" || wrong "'$line' is missing in '$said'"
done
reload 'credits = 8'
grep -qxF 'okv-server: max-clients 1024: the start made room for 5: restart to apply' <<<"$said" ||
    wrong "more clients than there is room for: '$said'"
[ "$(figure max_clients)" = 5 ] || wrong "--max-clients is not what there is room for"

# A wrong file changes nothing, says where and what to do, and the server goes on.
for mistake in 'credits = 0|--credits 0: give a number from 1 to 1024' 'memry = 8M|memry: do you mean memory?' \
    'idle-s|not NAME = VALUE' 'metrics = nonsense|--metrics nonsense: give HOST:PORT' \
    'workers = 65|--workers 65: give a number'; do
    reload $'max-clients = 2\n'"${mistake%%|*}"
    grep -qF "okv-server: configuration stays as it was: $file:2: ${mistake#*|}" <<<"$said" ||
        wrong "'${mistake%%|*}' says '$said'"
    [ "$(wc -l <<<"$said")" -eq 1 ] || wrong "'${mistake%%|*}' says more: '$said'"
done
reload $'salvage = x'
grep -qF "stays as it was: $file:1: no line for a file" <<<"$said" || wrong "--salvage in a file: '$said'"
[ "$(figure max_clients)" = 5 ] || wrong "a wrong file changed something"
truncate -s 1G "$file"
kill -HUP "${servers[-1]}"
until grep -q 'stays as it was: --config: ' "$scratch/log"; do sleep 0.05; done
grep -q 'stays as it was: --config: .* has more than 1048576 bytes' "$scratch/log" || wrong "a file of 1 GiB is read"
mv "$file" "$file.away"
kill -HUP "${servers[-1]}"
until grep -q 'stays as it was: --config: .* cannot be opened: No such file' "$scratch/log"; do sleep 0.05; done
[ "$("$okv" -s "$socket" get key)" = value ] || wrong "the server does not go on"

# The command line goes before the file.
reload 'drain-ms = 1'
! grep -q 'drain-ms' <<<"$said" || wrong "the file goes before the command line: '$said'"

# The log's format, which the environment has had so far.
end_server TERM
unset OKV_LOG_FORMAT
printf 'log-format = text\n' >"$file"
start_server "$socket" --config "$file"
reload 'log-format = xml'
grep -qF "stays as it was: $file:1: --log-format xml: give auto, text" <<<"$said" || wrong "a format that is none: '$said'"
reload 'log-format = logfmt'
grep -q ' msg="configuration read from ' <<<"$said" || wrong "the format of the log: '$said'"
end_server TERM

# ---- certificates: those that connect later get the new one, and nobody is disconnected ----
export OKV_LOG_FORMAT=text
# certify NAME: a certificate of this name, with its key.
certify() {
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$scratch/key.pem" \
        -out "$scratch/cert.pem" -days 2 -subj "/CN=$1" 2>/dev/null
}

# shown: the name in the certificate that the server shows.
shown() {
    openssl s_client -connect "127.0.0.1:$port" </dev/null 2>/dev/null | openssl x509 -noout -subject | sed 's/.*CN *= *//'
}

# hang_up LINE: SIGHUP; the log has the line when this returns.
hang_up() {
    local before tries
    before=$(wc -l <"$scratch/log")
    kill -HUP "${servers[-1]}"
    for ((tries = 0; tries < 1200; tries++)); do
        ! tail -n "+$((before + 1))" "$scratch/log" | grep -qF "okv-server: $1" || return 0
        sleep 0.05
    done
    wrong "SIGHUP does not say '$1'"
}

certificates() {
    certify first
    scheme=resps start_resp_server --tls-cert "$scratch/cert.pem" --tls-key "$scratch/key.pem"
    [ "$(shown)" = first ] || wrong "the certificate is of '$(shown)'"
    # A client that stays; it asks when it is told to.
    mkfifo "$scratch/asks" "$scratch/answers"
    openssl s_client -connect "127.0.0.1:$port" -quiet <"$scratch/asks" >"$scratch/answers" 2>/dev/null &
    local client=$! answer
    exec 4>"$scratch/asks" 5<"$scratch/answers"
    printf 'PING\r\n' >&4
    read -r answer <&5
    [ "$answer" = $'+PONG\r' ] || wrong "a client of Redis over TLS: '$answer'"

    certify second
    hang_up "certificate read from $scratch/cert.pem"
    [ "$(shown)" = second ] || wrong "the renewed certificate is of '$(shown)'"
    certify third
    hang_up "certificate read from $scratch/cert.pem"
    hang_up "certificate read from $scratch/cert.pem"
    [ "$(shown)" = third ] || wrong "the certificate renewed again is of '$(shown)'"
    printf 'PING\r\n' >&4
    read -r answer <&5
    [ "$answer" = $'+PONG\r' ] || wrong "a client that stays over a renewal: '$answer'"

    # Not another's key, nor one that others may read.
    cp "$scratch/cert.pem" "$scratch/kept.pem"
    certify fourth
    cp "$scratch/kept.pem" "$scratch/cert.pem"
    hang_up "the certificate stays as it was: --tls-key $scratch/key.pem: "
    chmod 644 "$scratch/key.pem"
    hang_up "the certificate stays as it was: --tls-key: "
    rm "$scratch/cert.pem"
    hang_up "the certificate stays as it was: --tls-cert: "
    [ "$(shown)" = third ] || wrong "after three mistakes the certificate is of '$(shown)'"
    ! grep -q 'nothing to read again' "$scratch/log" || wrong "SIGHUP with --tls-cert says that there is nothing to read"
    exec 4>&- 5<&-
    kill $client
    wait $client || true
    end_server TERM
}
[[ $(ldd "$server") != *libssl* ]] || certificates
start_server "$socket"
hang_up 'SIGHUP: there is nothing to read again without --config, --users or --tls-cert'
end_server TERM

# --print-config and --help name the same options.
env -u OKV_LOG_FORMAT "$server" --print-config | sed -n '/at SIGHUP/,$ s/^; \([a-z-]*\) =.*/\1/p' | sort >"$scratch/printed"
"$server" --help | awk '/^      --/ { split(substr($1, 3), name, "=") } /\[SIGHUP\]/ { print name[1] }' |
    grep -v '^config$' | sort >"$scratch/help"
[ -s "$scratch/printed" ] || wrong "--print-config names none"
diff "$scratch/printed" "$scratch/help" || wrong "--help names others"
exit $failures
