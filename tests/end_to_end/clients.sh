#!/usr/bin/env bash
# Who is connected, what clients report, and what okv stat says of the server itself.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/clients.sh BUILD_DIR

Runs the okv-server of BUILD_DIR with two databases, and clients. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"

# one ARGUMENT...: okv on database one.
one() { "$okv" -s "$socket" --database one "$@"; }
# stat_of NAME: a figure of database one.
stat_of() { one stat | sed -n "s/^$1 //p"; }

# await NAME VALUE: a figure of database one has it. A goodbye may come after the next client.
await() { until [ "$(stat_of "$1")" = "$2" ]; do sleep 0.05; done; }

# hold: a client of database one that has looked two keys up, one of which is there, and that waits for more.
hold() {
    rm -f "$scratch/keys"
    mkfifo "$scratch/keys"
    : >"$scratch/found"
    "$okv" -s "$socket" --database one mget - <"$scratch/keys" >"$scratch/found" 2>/dev/null &
    holder=$!
    exec 9>"$scratch/keys"
    printf 'none\nkey\n' >&9
    until [ -s "$scratch/found" ]; do sleep 0.05; done
}

start_server "$socket" --database one:16M --database two:16M
one put key value
hold

# ---- the list ----
list=$(one clients --json)
same "how many" "$(jq length <<<"$list")" 2
same "of which database" "$(jq -r '[.[].database] | unique[]' <<<"$list")" one
same "by which transport" "$(jq -r '[.[].transport] | unique[]' <<<"$list")" local
same "how" "$(jq -r '[.[].how] | unique[]' <<<"$list")" "shared memory, socket $scratch/okv.sock"
same "whose" "$(jq -r "[.[].address | startswith(\"pid_${holder}_uid_\")] | any" <<<"$list")" true
same "users" "$(jq -c '[.[].user] | unique' <<<"$list")" '[null]'
same "ages" "$(jq '[.[] | .age_ms >= .idle_ms and .credits > 0 and .bytes_in >= 0] | all' <<<"$list")" true
same "the request of this command" "$(jq '.[1] | .requests == 1 and .bytes_in > 0' <<<"$list")" true
same "what has not been reported" "$(jq -c '[.[] | [.gets, .hits]] | unique' <<<"$list")" '[[0,0]]'
same "the lines of the table" "$(one clients | awk 'NR > 1 { print (NF > 13), ($1 ~ /^[0-9a-f]+$/), length($1) }' | sort -u)" "1 1 16"
same "an id is the same everywhere" "$(one clients | sed -n 2p | cut -d ' ' -f 1)" "$(jq -r '.[0].session' <<<"$list")"
same "all databases" "$("$okv" -s "$socket" --database two clients --all --json | jq -c '[.[].database] | unique')" '["one","two"]'
status=0
"$okv" -s "$socket?database=one" clients --all >/dev/null 2>&1 || status=$?
same "a URI with a database" $status 2

# ---- what clients report: with their goodbye, and never twice ----
same "clients that report" "$(stat_of client_reporting)" 2
same "before the holder ends" "$(stat_of client_gets)" 0
exec 9>&-
wait $holder || true
await client_reports 1
same "gets" "$(stat_of client_gets)" 2
same "hits and misses" "$(stat_of client_hits) $(stat_of client_misses)" "1 1"
same "READs" "$(stat_of client_reads)" "$(stat_of client_gets)"
same "of another database" "$("$okv" -s "$socket" --database two stat | sed -n 's/^client_gets //p')" 0
same "of all databases" "$("$okv" -s "$socket" --database two stat --all --json | jq .total.client_gets)" 2
hold
one admin kill "$(one clients | sed -n 2p | cut -d ' ' -f 1)"
until [ "$(one clients --json | jq length)" -eq 1 ]; do sleep 0.05; done
exec 9>&-
wait $holder || true
same "after a session that was killed" "$(stat_of client_gets)" 2

# ---- the server itself ----
stat=$(one stat --json)
same "the release" "$(jq -r .server.version <<<"$stat")" "$("$server" --version | head -n 1 | cut -d ' ' -f 2)"
same "the process" "$(jq .server.pid <<<"$stat")" "${servers[-1]}"
same "the listener" "$(jq -r .server.listener_1 <<<"$stat")" "$socket shared memory, socket $scratch/okv.sock"
same "the boot id" "$(jq -r .server.boot_id <<<"$stat")" "$(jq -r .connection.boot_id <<<"$stat")"
same "the memory" "$(jq '.server | .used_bytes == .superblock_bytes + .index_bytes + .overflow_bytes + .extent_bytes and
    .resident_bytes > 0' <<<"$stat")" true

# ---- the words in front of the figures, and the hit rate of top ----
"$okv" -s "$socket" --database none -t 500ms ping 2>/dev/null || true
one stat >"$scratch/stat"
line_of() { sed -n "s/^# $1: //p" "$scratch/stat"; }
same "the first lines" "$(head -n 5 "$scratch/stat" | cut -d ' ' -f 1,2 | xargs)" '# memory: # hits: # clients: # refused: # sync:'
same "how many there are" "$(grep -c '^#' "$scratch/stat")" 5
same "the others are names and values" "$(grep -vcE '^(#|[a-z0-9_]+ .)' "$scratch/stat" || true)" 0
used=$(awk '$1 == "used_bytes" { used = $2 } $1 == "region_bytes" { printf "%.1f", 100 * used / $2 }' "$scratch/stat")
same "how full" "$(line_of memory)" "$used % of 16 MiB in use, by 1 item"
same "the hits" "$(line_of hits)" '50.0 % of 2 gets that clients reported'
same "the clients" "$(line_of clients | sed 's/^[0-9]* //')" 'of 1024 connected'
turned_away=$(awk '/^rejected_/ { sum += $2 } END { print sum }' "$scratch/stat")
same "a client was turned away" "$((turned_away > 0))" 1
same "refusals" "$(line_of refused)" "0 puts without room, 0 requests without a right, $turned_away connections"
[ -n "${OKV_TEST_DATA:-}" ] || same "syncs without a log" "$(line_of sync)" 'none, the items are in memory only'
one top --json -i 100ms >"$scratch/top" 2>/dev/null &
top=$!
until [ -s "$scratch/top" ]; do sleep 0.05; done
same "the hit rate without gets" "$(head -n 1 "$scratch/top" | jq .hit_percent)" null
"$okv" -s "$socket" --database one mget none key key none none >/dev/null || true
until grep -q '"hit_percent": [0-9]' "$scratch/top"; do sleep 0.05; done
same "the hit rate" "$(jq '.hit_percent | select(.)' "$scratch/top" | head -n 1 | cut -d . -f 1)" 40
kill $top
wait $top 2>/dev/null || true
same "the syncs that a server without a log has" "$(one top --json -n 1 -i 1ms | jq .log_syncs_per_s)" \
    "$([ -n "${OKV_TEST_DATA:-}" ] && echo 0 || echo null)"
end_server TERM
start_server "$socket" --data "$scratch/data" --database one:16M --sync always
same "no gets" "$(one stat | sed -n 's/^# hits: //p')" 'no gets yet'
[ "$(one stat | awk '$1 == "log_syncs" { print $2 }')" != 0 ] || same "syncs of none" "$(one stat | sed -n 's/^# sync: //p')" \
    'no syncs yet; 0 bytes wait for one'
one put key value
one stat >"$scratch/stat"
same "syncs of a log" "$(line_of sync | grep -cE '^[1-9][0-9]* syncs, 99 % of them within [0-9.]+ ms; 0 bytes wait for one$')" 1

end_server TERM
echo "clients: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
