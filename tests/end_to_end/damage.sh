#!/usr/bin/env bash
# okv-server --check and --salvage, on files that are whole and on damaged ones.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/damage.sh BUILD_DIR

Has the okv-server of BUILD_DIR fill two databases, damages files of one, and looks at what --check, a start and --salvage
say of that and do, and at what a start on the salvaged directory serves. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
failures=0 data=$scratch/data

expect() {
    [ "$2" = "$3" ] && return
    failures=$((failures + 1))
    echo "WRONG $1: $2, not $3"
    sed 's/^/      | /' "$scratch/out" "$scratch/log"
}

# says PATTERN TEXT: the last output has one line with it.
says() {
    expect "$2" "$(grep -c -- "$1" "$scratch/out")" 1
}

# offline STATUS ARGUMENT...: runs the server, which does not serve.
offline() {
    local status=0 wanted=$1
    shift
    timeout 60 "$server" "$@" >"$scratch/out" 2>&1 || status=$?
    expect "the status of $*" "$status" "$wanted"
}

# flip FILE OFFSET: changes a byte.
flip() {
    local byte
    byte=$(od -An -tu1 -j "$2" -N 1 "$1")
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\x$(printf %x $((byte ^ 4)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

sums() {
    (cd "$data" && find . -type f -exec sha256sum {} + | sort)
}

databases=(--database one --database two)
one="$socket?database=one" two="$socket?database=two"
start_server "$socket" --data "$data" "${databases[@]}"
"$okv" -s "$one" put kept 1
"$okv" -s "$one" put changed 1
"$okv" -s "$one" put gone 1
"$okv" -s "$one" admin snapshot
"$okv" -s "$two" put other 1
until [ -n "$(find "$data/one" -name 'snapshot.0*')" ]; do sleep 0.05; done
"$okv" -s "$one" put changed 2
"$okv" -s "$one" del gone
"$okv" -s "$one" put last 1
offline 3 --check "$data"
expect "databases that a server has" "$(grep -c 'a server has it' "$scratch/out")" 2
end_server KILL

before=$(sums)
offline 0 --check "$data"
says '^one: whole: 3 items in snapshot.0000000000000002 and 3 records in 3 batches in 1 segments' "a whole database"
says '^two: whole: 1 records' "another one"
says '^one: .*; ends at position [0-9]*, written 2[0-9-]*T' "where and when it ends"
offline 0 --check "$data/two"
expect "the lines of one database" "$(wc -l <"$scratch/out")" 1
says '^two: whole' "one database"
(cd "$data/two" && offline 0 --check .)
cp -r "$data/two" "$data/.two"
offline 0 --check "$data"
says '^.two: whole' "a database whose name begins with a dot"
rm -r "$data/.two"
expect "files after a check" "$(sums)" "$before"

log=$data/one/log.0000000000000002
offset=$((4096 + 56 + 24 + 4))
flip "$log" $offset
before=$(sums)
offline 4 --check "$data"
says '^one: log.0000000000000002 is damaged at byte 4096: a batch is not whole, and later ones are: bytes 4096 to' "damage"
says '^one: damaged in 1 places; whole are 3 items in snapshot.0000000000000002 and 2 records' "what is whole"
says '^two: whole' "the whole one beside it"
if try_server "$socket" --data "$data" "${databases[@]}"; then
    expect "a start on damage" started refused
fi
wait "${servers[-1]}" || true
unset 'servers[-1]'
expect "why it does not start" \
    "$(grep -c 'log.0000000000000002 is damaged at byte 4096: .*--check and --salvage' "$scratch/log")" 1

mkdir "$scratch/full"
touch "$scratch/full/file"
offline 3 --salvage "$data" --to "$scratch/full"
says 'it is not empty' "a directory in use"
offline 2 --salvage "$data"
offline 2 --check "$data" --to "$scratch/saved"
offline 4 --salvage "$data" --to "$scratch/saved"
says '^one: .*bytes 4096 to' "what is lost"
says '^one: brought out 3 items of a snapshot and 2 records of 2 batches' "what came out"
says '^two: brought out 1 records of 1 batches' "what came out of the other"
expect "files after a salvage" "$(sums)" "$before"
offline 0 --check "$scratch/saved"

start_server "$socket" --data "$scratch/saved" "${databases[@]}"
expect "an item of the snapshot" "$("$okv" -s "$one" get kept)" 1
expect "an item whose change is lost" "$("$okv" -s "$one" get changed)" 1
expect "an item of the log" "$("$okv" -s "$one" get last)" 1
expect "an item that was deleted" "$("$okv" -s "$one" get gone 2>/dev/null || echo "status $?")" "status 1"
expect "an item of the other database" "$("$okv" -s "$two" get other)" 1
end_server TERM
offline 0 --check "$scratch/saved"

# of_another_version FILE: a start and a check refuse the directory, and change nothing.
of_another_version() {
    flip "$1" 8
    before=$(sums)
    offline 3 --listen "$socket" --data "$data" "${databases[@]}"
    says 'was written by another version of okv-server: nothing was changed; start that okv-server' "another version"
    offline 3 --check "$data"
    says 'was written by another version' "another version"
    expect "files of another version" "$(sums)" "$before"
    flip "$1" 8
}

data=$scratch/saved
for file in "$data"/one/log.0* "$data"/one/snapshot.0*; do
    of_another_version "$file"
done

# A FIFO in the place of a file: nothing waits for its other end.
for file in lock log.0000000000000001 snapshot.0000000000000002; do
    data=$scratch/$file
    mkdir -p "$data/one"
    touch "$data/one/lock" "$data/one/log.000000000000000"{1,2}
    rm -f "$data/one/$file"
    mkfifo "$data/one/$file"
    for use in "--check $data" "--salvage $data --to $data.saved" "--listen $socket --memory 16M --data $data --database one"; do
        # shellcheck disable=SC2086 # words
        offline 3 $use
        says 'it is not a regular file' "a FIFO as $file, ${use%% *}"
    done
done

offline 3 --check "$scratch/full"
says 'there is no database in it' "a directory of something else"
offline 3 --check "$scratch/none"
says 'none: No such file' "no directory"
[ $failures -eq 0 ]
