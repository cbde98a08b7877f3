#!/usr/bin/env bash
# okv admin snapshot, and what a start finds after it, after a kill and after a stop.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/snapshots.sh BUILD_DIR

Starts the okv-server of BUILD_DIR with a log, has it make snapshots, kills it and stops it, and looks at the files and at
what each start finds; and without a log at what it says of that. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
failures=0 data=$scratch/data

expect() {
    [ "$2" = "$3" ] && return
    failures=$((failures + 1))
    echo "WRONG $1: $2, not $3"
    sed 's/^/      | /' "$scratch/log"
}

figure() {
    "$okv" -s "$socket" stat | awk -v name="$1" '$1 == name { print $2 }'
}

count() {
    find "$data/default" -name "$1*" | wc -l
}

start_server "$socket" --data "$data"
"$okv" -s "$socket" put before one
"$okv" -s "$socket" put gone two
made=$("$okv" -s "$socket" admin snapshot)
expect "the path of a snapshot" "$made" "$(echo "$data"/default/snapshot.*)"
"$okv" -s "$socket" del gone
"$okv" -s "$socket" put after three
expect "the figure snapshots" "$(figure snapshots)" 1
expect "the figure log_bytes" "$(($(figure log_bytes) > 0))" 1
for name in log_records log_batches log_syncs; do # one client, one write at a time
    expect "the figure $name" "$(figure "$name")" 4
done
expect "the figure batch_records_p50" "$(figure batch_records_p50)" 1
expect "the figure batch_records_max" "$(figure batch_records_max)" 1
expect "the latencies of a sync in order" "$(("$(figure sync_p50_us)" <= "$(figure sync_p99_us)" &&
    "$(figure sync_p99_us)" <= "$(figure sync_max_us)"))" 1
expect "the figure recovery_items of a new database" "$(figure recovery_items)" 0
expect "a figure in JSON" "$("$okv" -s "$socket" stat --json | jq .server.log_records)" 4
expect "the figure snapshot_bytes" "$(figure snapshot_bytes)" "$(stat -c %s "$data"/default/snapshot.*)"
expect "snapshots" "$(count snapshot)" 1
expect "segments" "$(count log.0)" 1
expect "spares" "$(count log.spare)" 1
end_server KILL

start_server "$socket" --data "$data"
expect "a start after a kill" "$(grep -c '2 items: 2 of a snapshot, and 2 records in 1 segments' "$scratch/log")" 1
expect "the figure recovery_items" "$(figure recovery_items)" 2
expect "the figure recovery_ms" "$(figure recovery_ms | grep -cx '[0-9]*')" 1
expect "the age of an earlier server's snapshot" "$(figure snapshot_age_ms | grep -cx '[0-9]*')" 1
expect "the figure log_records after a start" "$(figure log_records)" 0
expect "an item of the snapshot" "$("$okv" -s "$socket" get before)" one
expect "an item of the log" "$("$okv" -s "$socket" get after)" three
"$okv" -s "$socket" put last four
end_server TERM

start_server "$socket" --data "$data"
expect "a start after a stop" "$(grep -c '3 items: 3 of a snapshot, and 0 records' "$scratch/log")" 1
expect "an item after a stop" "$("$okv" -s "$socket" get last)" four
expect "the log after a stop" "$(figure log_bytes)" 0
end_server TERM

start_server "$socket" --data "$data" --snapshot-ratio 0
"$okv" -s "$socket" put unsaved five
end_server TERM
start_server "$socket" --data "$data"
expect "a start without a snapshot at the stop" "$(grep -c '4 items: 3 of a snapshot, and 1 records' "$scratch/log")" 1
end_server TERM

start_server "$socket" --data "$data" --memory 32M
head -c 3000000 /dev/urandom >"$scratch/long"
"$okv" -s "$socket" put long - <"$scratch/long"
"$okv" -s "$socket" append long tail
printf tail >>"$scratch/long"
expect "files of long values" "$(count value)" 2
expect "the figure value_file_bytes" "$(figure value_file_bytes)" 6000004
end_server KILL
start_server "$socket" --data "$data" --memory 32M
"$okv" -s "$socket" get long -o "$scratch/got"
expect "a long value after a kill" "$(cmp "$scratch/got" "$scratch/long" 2>&1)" ""
end_server TERM
start_server "$socket" --data "$data" --memory 32M
"$okv" -s "$socket" get long -o "$scratch/got"
expect "a long value after a stop" "$(cmp "$scratch/got" "$scratch/long" 2>&1)" ""
expect "files of long values that the snapshot of a stop refers to" "$(count value)" 1
made=$("$okv" -s "$socket" admin snapshot)
cp "$made" "$scratch/whole"
"$okv" -s "$socket" put after a-whole-one
end_server TERM
expect "files of long values that a whole snapshot left to the next one" "$(count value)" 1
cp "$data"/default/snapshot.* "$scratch/referring"

restored=$scratch/restored
status=0
"$server" --listen "$socket" --data "$restored" --memory 32M --restore "$scratch/referring" 2>"$scratch/log" || status=$?
expect "a restore of one that was not asked for" "$status $(grep -c 'refers to values in other files' "$scratch/log")" "3 1"
start_server "$socket" --data "$restored" --memory 32M --restore "$scratch/whole"
"$okv" -s "$socket" get long -o "$scratch/got"
expect "a long value after a restore" "$(cmp "$scratch/got" "$scratch/long" 2>&1)" ""
end_server TERM

# An import over a restart cannot know whether all is there, and does not say that it is lost.
start_server "$socket" --data "$data" --memory 32M --drain-ms 0
mkfifo "$scratch/feed"
"$okv" -s "$socket" -t 120s import <"$scratch/feed" >"$scratch/out" 2>"$scratch/err" &
import=$!
exec 9>"$scratch/feed"
printf 'imported\tone\n' >&9
until "$okv" -s "$socket" exists imported; do sleep 0.05; done
end_server TERM
start_server "$socket" --data "$data" --memory 32M 9>&-
printf 'second\ttwo\n' >&9
exec 9>&-
status=0
wait $import || status=$?
expect "an import over a restart" "$status" 3
expect "its sentence" "$(grep -c 'was restarted.*without --data it has lost.*again from the beginning' "$scratch/err")" 1
expect "what was imported before" "$("$okv" -s "$socket" get imported)" one
end_server TERM

start_server "$socket"
status=0
"$okv" -s "$socket" admin snapshot 2>"$scratch/out" || status=$?
expect "a snapshot without a log" "$((status != 0))" 1
expect "its sentence" "$(grep -c 'without --data' "$scratch/out")" 1
expect "a warning at the start" "$(grep -c 'in memory only: its items will be gone' "$scratch/log")" 1
"$okv" -s "$socket" put lost six
end_server TERM
expect "what is lost at the end" "$(grep -c 'was in memory only; 1 items are gone' "$scratch/log")" 1
[ $failures -eq 0 ]
