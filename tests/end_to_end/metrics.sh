#!/usr/bin/env bash
# The server's figures over HTTP: what Prometheus reads, and whether it serves.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/metrics.sh BUILD_DIR

Runs the okv-server of BUILD_DIR with --metrics. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
checks=0 failures=0

expect() {
    checks=$((checks + 1))
    [ "$2" = "$3" ] && return
    failures=$((failures + 1))
    echo "WRONG $1: $2, not $3"
}

# request METHOD PATH: prints the response of the last server, its header included.
request() {
    local port
    port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics.*|\1|p' "$scratch/log")
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf '%s %s HTTP/1.1\r\nHost: okv\r\nConnection: close\r\n\r\n' "$1" "$2" >&3
    tr -d '\r' <&3
    exec 3>&-
}

status() {
    request "$@" | head -n 1 | cut -d ' ' -f 2
}

# figure NAME: the value of a sample with its labels, as it is written.
figure() {
    request GET /metrics | awk -v name="$1" '$1 == name { print $2 }'
}

# What the text format asks for: one HELP and one TYPE of each metric, before its samples, which are together. Those
# of a histogram have suffixes.
form() {
    request GET /metrics | sed '1,/^$/d' | awk '
        /^# HELP / { if ($3 in help) wrong("a second HELP of " $3); help[$3]; next }
        /^# TYPE / {
            if ($3 in type) wrong("a second TYPE of " $3)
            if (!($3 in help)) wrong("no HELP of " $3)
            type[$3] = $4; now = $3
            if (($4 == "counter") != ($3 ~ /_total$/)) wrong($3 " is a " $4)
            next
        }
        !/^[a-z_0-9]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [0-9.]+$/ { wrong("no sample: " $0); next }
        {
            name = $1; sub(/\{.*/, "", name)
            if (type[now] == "histogram") sub(/_(bucket|sum|count)$/, "", name)
            if (name != now) wrong($1 " is below " now)
            samples++
        }
        function wrong(text) { print "WRONG form: " text; bad = 1 }
        END { if (samples < 150) wrong(samples + 0 " samples"); exit bad }'
}

start_server "$socket" --metrics 127.0.0.1:0 --data "$scratch/data" --database one:16M --database two:16M
for key in a b c; do "$okv" -s "$socket" --database one put $key 1; done
"$okv" -s "$socket" --database two put a 1
"$okv" -s "$socket" --database two mget a b c d >/dev/null || true

expect "GET /healthz" "$(status GET /healthz)" 200
expect "GET /readyz" "$(status GET /readyz)" 200
expect "GET /metrics" "$(status GET /metrics)" 200
expect "it says so" "$(figure okv_ready)" 1
expect "GET /" "$(status GET /)" 404
expect "POST /metrics" "$(status POST /metrics)" 405
for path in /metrics /healthz /readyz; do
    for host in 127.0.0.1:9469 '[::1]:80' okv.example; do
        expect "GET http://$host$path" "$(status GET "http://$host$path")" 200
    done
    expect "GET HTTP://okv$path?a=b" "$(status GET "HTTP://okv$path?a=b")" 200
    expect "GET $path?a=http://okv" "$(status GET "$path?a=http://okv")" 200
    expect "GET http:/$path" "$(status GET "http:/$path")" 404
    expect "GET ftp://okv$path" "$(status GET "ftp://okv$path")" 404
    expect "GET http://okv/x$path" "$(status GET "http://okv/x$path")" 404
done
expect "GET http://okv" "$(status GET http://okv)" 404
expect "POST http://okv/metrics" "$(status POST http://okv/metrics)" 405
expect "the type" "$(request GET /metrics | grep -c '^Content-Type: text/plain; version=0.0.4')" 1
checks=$((checks + 1))
form || failures=$((failures + 1))
expect "puts to one" "$(figure 'okv_puts_total{database="one"}')" 3
expect "puts to two" "$(figure 'okv_puts_total{database="two"}')" 1
expect "items of one" "$(figure 'okv_items{database="one"}')" 3
expect "sessions" "$(figure okv_sessions_total)" 5
until [ "$(figure 'okv_client_reports_total{database="two"}')" = 1 ]; do sleep 0.05; done # a goodbye takes its time
expect "gets of two" "$(figure 'okv_client_gets_total{database="two"}')" 4
expect "gets of two that found their key" "$(figure 'okv_client_hits_total{database="two"}')" 1
expect "gets of one" "$(figure 'okv_client_gets_total{database="one"}')" 0
expect "times of writes" "$(figure 'okv_write_seconds_count{database="two"}')" 0
expect "times of syncs" "$(figure 'okv_sync_seconds_count{database="one"}')" \
    "$(figure 'okv_sync_seconds_bucket{database="one",le="34.359738368"}')"
expect "their sum" "$(figure 'okv_sync_seconds_sum{database="one"}' | awk '{ print ($1 > 0 && $1 < 1000) }')" 1
expect "syncs" "$(($(figure 'okv_sync_seconds_count{database="one"}') > 0))" 1
expect "times of gets" "$(figure 'okv_client_get_seconds_bucket{database="one",le="+Inf"}')" 0
expect "the version" "$(figure "okv_info{version=\"$("$server" --version | head -n 1 | cut -d ' ' -f 2)\",boot_id=\"$(
    "$okv" -s "$socket" --database one stat | sed -n 's/^boot_id //p')\"}")" 1
expect "a time in seconds" "$(figure 'okv_uptime_seconds{database="one"}' | grep -c '^[0-9]*\.[0-9]*$')" 1

# ---- slow connections keep nobody out, and end ----
# slow ADDRESS COUNT: as many that begin a request and do not end it; the last one sends a byte now and then. Prints "there"
# when they are, and "ended" when the last one is.
cat >"$scratch/slow.py" <<'TEXT'
import socket, sys, time
there = []
for _ in range(int(sys.argv[3])):
    there.append(socket.create_connection(("127.0.0.1", int(sys.argv[1])), 60, (sys.argv[2], 0)))
    there[-1].sendall(b"GET /healthz HTTP/1.1\r\nX: ")
print("there", flush=True)
try:
    for _ in range(600):
        there[-1].sendall(b"x")
        time.sleep(0.2)
    print("goes on")
except OSError:
    print("ended")
TEXT
slow() {
    mkfifo "$scratch/slow.$1"
    $python "$scratch/slow.py" "$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics.*|\1|p' "$scratch/log")" "$1" "$2" \
        >"$scratch/slow.$1" &
    exec {from}<"$scratch/slow.$1"
    read -r _ <&"$from"
}
slow 127.0.0.2 200
expect "GET /healthz beside slow connections" "$(status GET /healthz)" 200
expect "again" "$(status GET /healthz)" 200
expect "the trickle ends" "$(cat <&"$from")" ended
slow 127.0.0.1 200
expect "GET /healthz beside slow connections from the same address" "$(status GET /healthz)" 200
exec {from}<&-

# ---- what docs/prometheus asks for is there ----
docs=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../docs/prometheus" && pwd)
request GET /metrics | sed -nE 's/^# TYPE ([^ ]*) histogram/\1_bucket/p; t; s/^# TYPE ([^ ]*) .*/\1/p' | sort >"$scratch/there"
for file in alerts.yml dashboard.json; do
    grep -oE 'okv_[a-z0-9_]+' "$docs/$file" | sort -u >"$scratch/asked"
    expect "names of $file that there are not" "$(comm -23 "$scratch/asked" "$scratch/there" | xargs)" ""
    expect "$file asks for metrics" "$(($(wc -l <"$scratch/asked") > 10))" 1
done
expect "queries of the dashboard" \
    "$(jq '[.panels[].targets[].expr | select(contains("$instance"))] | length > 20' "$docs/dashboard.json")" true
expect "a log that works" "$(figure 'okv_log_failed{database="one"}')$(figure 'okv_disk_full{database="one"}')" 00

# ---- a restart: the clock of items goes on, and the uptime begins again ----
# since_boot_ms: as the server reads it.
since_boot_ms() { awk '{ printf "%d", $1 * 1000 }' /proc/uptime; }
until [ "$(figure 'okv_uptime_seconds{database="one"}' | cut -d . -f 1)" -ge 3 ]; do sleep 0.1; done
end_server TERM
begun=$(since_boot_ms)
start_server "$socket" --metrics 127.0.0.1:0 --data "$scratch/data" --database one:16M --database two:16M
uptime=$("$okv" -s "$socket" --database one stat | sed -n 's/^uptime_ms //p')
kill -USR1 "${servers[-1]}"
until grep -q ' up [0-9]* s, ' "$scratch/log"; do sleep 0.05; done
up=$(sed -n 's/.* up \([0-9]*\) s, .*/\1/p' "$scratch/log")
passed=$(($(since_boot_ms) - begun + 20)) # the kernel tells hundredths
expect "the uptime is that of the process" "$((uptime <= passed && up * 1000 <= passed))" 1
expect "what was put before" "$(figure 'okv_items{database="one"}')" 3

port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics.*|\1|p' "$scratch/log")
code=0
timeout 60 "$server" --listen "$socket.other" --memory 1M --metrics "127.0.0.1:$port" >/dev/null 2>"$scratch/err" || code=$?
expect "a port that is taken" "$code $(grep -c 'is in use: waiting' "$scratch/err") $(wc -l <"$scratch/err")" '3 1 2'
expect "why" "$(grep -c "^okv-server: --metrics 127.0.0.1:$port: the port is in use by another program: " "$scratch/err")" 1

# ---- a start that reads for a while: it can be scraped, and is ready when it has read all ----
end_server TERM
records=300000
start_server "$socket" --data "$scratch/other" --database one:128M --sync 1s
"$bench" --server "$socket?database=one" --records $records --load-only >/dev/null 2>"$scratch/err"
end_server TERM
: >"$scratch/ready"
: >"$scratch/log" # or the port of the last server is read from it
setpriv --pdeathsig KILL "$server" --listen "$socket" --data "$scratch/other" --database one:128M \
    --metrics 127.0.0.1:0 >"$scratch/ready" 2>"$scratch/log" &
servers+=($!)
until grep -q 'metrics: http' "$scratch/log" || ! kill -0 "${servers[-1]}"; do :; done
before=0
until [ "$(status GET /readyz)" = 200 ]; do
    expect "GET /metrics while it reads" "$(status GET /metrics)" 200
    before=$((before + 1))
done
expect "items when it is ready" "$(figure 'okv_items{database="one"}')" $records
expect "it is ready" "$(figure okv_ready)" 1
expect "its boot id" "$(request GET /metrics | grep -c '^okv_info{version="[0-9.]*",boot_id="[0-9a-f]*[1-9a-f][0-9a-f]*"} 1$')" 1
expect "its workers" "$(figure okv_workers | grep -c '^[1-9]')" 1
echo "metrics: not ready $before times"
end_server TERM
echo "metrics: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
