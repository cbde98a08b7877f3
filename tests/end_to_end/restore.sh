#!/usr/bin/env bash
# okv-server --restore: a database that begins with a copy of a snapshot, and what it refuses.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/restore.sh BUILD_DIR

Starts the okv-server of BUILD_DIR with a log, copies a snapshot, restores it elsewhere, and compares what is there. Tries
copies that are damaged or something else, and directories that are in use. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
failures=0 checks=0
tab=$(printf '\t')
copy=$scratch/copy

expect() {
    checks=$((checks + 1))
    [ "$2" = "$3" ] && return
    failures=$((failures + 1))
    echo "WRONG $1: $2, not $3"
    sed 's/^/      | /' "$scratch/log"
}

# Keys, values' lengths and versions; and values with whether they expire. All but of `brief', which does soon.
items() {
    OKV_SERVER=$socket "$okv" scan --long | cut -f 1-3 | grep -av '^brief' | LC_ALL=C sort
    OKV_SERVER=$socket "$okv" export | grep -av '^brief' | sed "s/${tab}[0-9]\\{13,\\}\$/$tab/" | LC_ALL=C sort
}

# refused WHAT SENTENCE ARGUMENT...: the server does not start like this, and says so, and leaves no file.
refused() {
    local what=$1 sentence=$2
    shift 2
    if try_server "$socket" --data "$scratch/refused" "$@"; then
        expect "$what is refused" no yes
        end_server KILL
    else
        wait "${servers[-1]}" || true
        unset 'servers[-1]'
    fi
    expect "the sentence on $what" "$(grep -c -- "$sentence" "$scratch/log")" 1
    expect "files after $what" "$(find "$scratch/refused" -type f ! -name lock | wc -l)" 0
}

start_server "$socket" --data "$scratch/old"
seq 3000 | sed "s/.*/item:&${tab}value &/" | "$okv" -s "$socket" import >/dev/null
head -c 2500000 /dev/zero | "$okv" -s "$socket" put large -
"$okv" -s "$socket" put session alice --ttl 1h
"$okv" -s "$socket" put brief gone --ttl 1s
began=$EPOCHSECONDS
"$okv" -s "$socket" incr counter 41 >/dev/null
"$okv" -s "$socket" incr counter >/dev/null
cp "$("$okv" -s "$socket" admin snapshot)" "$copy"
items >"$scratch/before"
"$okv" -s "$socket" put later two
"$okv" -s "$socket" del item:7
end_server KILL
while [ $((EPOCHSECONDS - began)) -lt 3 ]; do sleep 0.1; done

start_server "$socket" --data "$scratch/new" --restore "$copy"
items >"$scratch/after"
expect "what was restored" "$(cmp "$scratch/before" "$scratch/after")" ''
expect "the rest of a time to live" \
    "$("$okv" -s "$socket" exists -v session | awk '$1 == "ttl" { print ($2 > 0 && $2 < 3600000 - 900) }')" 1
status=0
"$okv" -s "$socket" get brief >/dev/null || status=$?
expect "an item whose time passed in the copy" $status 1
"$okv" -s "$socket" put more three
end_server KILL

start_server "$socket" --data "$scratch/new"
"$okv" -s "$socket" del more
items >"$scratch/after"
expect "the start after the restore" "$(cmp "$scratch/before" "$scratch/after")" ''
end_server TERM
try_server "$socket" --data "$scratch/new" --restore "$copy" && expect "a second restore is refused" no yes
unset 'servers[-1]'
expect "its sentence" "$(grep -c 'it has a log or a snapshot.*start without --restore' "$scratch/log")" 1

size=$(stat -c %s "$copy")
cp "$copy" "$scratch/wrong"
printf '\xff' | dd of="$scratch/wrong" bs=1 seek=$((size / 2)) conv=notrunc status=none
refused "a copy with a damaged byte" "$scratch/wrong is damaged at byte [0-9]*: .*nothing was changed" --restore "$scratch/wrong"
head -c $((size - 8)) "$copy" >"$scratch/wrong"
refused "a copy that is cut off" "$scratch/wrong is damaged at byte .*not whole" --restore "$scratch/wrong"
{ cat "$copy"; printf more; } >"$scratch/wrong"
refused "a copy that goes on" "$scratch/wrong is damaged at byte .*not whole" --restore "$scratch/wrong"
seq 3000 >"$scratch/wrong"
refused "another kind of file" "$scratch/wrong is damaged at byte 0: it has no header" --restore "$scratch/wrong"
truncate -s 256M "$scratch/zeros"
ulimit -S -f 65536 # KiB: nothing of it is copied before it is known to be a snapshot
refused "a long file of zeros" "$scratch/zeros is damaged at byte 0: it has no header" --restore "$scratch/zeros"
ulimit -S -f unlimited
refused "a segment of a log" "damaged at byte 0: it is another file" --restore "$(find "$scratch/old" -name 'log.*' | head -n 1)"
refused "a file that is not there" "cannot open $scratch/nothing: No such file" --restore "$scratch/nothing"
refused "a directory" "cannot open $scratch: it is not a regular file" --restore "$scratch"
mkfifo "$scratch/fifo"
refused "a FIFO" "cannot open $scratch/fifo: it is not a regular file" --restore "$scratch/fifo"
refused "a device" "cannot open /dev/zero: it is not a regular file" --restore /dev/zero
refused "a database with less memory" 'the items do not fit' --restore "$copy" --memory 1M
refused "a lower --max-value" 'the items do not fit (the value is larger' --restore "$copy" --max-value 64K
refused "buckets of another size" 'start with --bucket-size 512' --restore "$copy" --bucket-size 1K
start_server "$socket" --data "$scratch/refused" --restore "$copy"
items >"$scratch/after"
expect "a restore after those that were refused" "$(cmp "$scratch/before" "$scratch/after")" ''
end_server TERM

for arguments in "" "--data $scratch/two --database one:4M --database two:4M"; do
    status=0
    # shellcheck disable=SC2086 # words
    "$server" --listen "$socket" $arguments --restore "$copy" 2>"$scratch/log" || status=$?
    expect "the status of --restore with '$arguments'" $status 2
    expect "its sentence" "$(grep -c 'give --data DIR, too, and one database' "$scratch/log")" 1
done
echo "restore: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
