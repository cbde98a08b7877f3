#!/usr/bin/env bash
# Instructions that a get takes in the client, over local://: all that runs in the calls of the public
# header, the copy out of the table and the checksum included. Counted by callgrind, so the same on
# every machine with the same libraries, but for the CPU that these choose their code for.
set -euo pipefail

if [ $# -lt 1 ] || [ $# -gt 2 ]; then
    echo "usage: tests/figures/get_instructions.sh BUILD_DIRECTORY [DIRECTORY_FOR_CALLGRIND_FILES]" >&2
    exit 2
fi
build=$1
keep=${2:-}
items=200000
gets=10000
directory=$(mktemp -d)
server=

clean_up() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$directory"
}
trap clean_up EXIT

"$build/server/okv-server" -l "local://$directory/socket" --memory 256M >"$directory/log" 2>&1 &
server=$!
for _ in $(seq 100); do
    [ ! -S "$directory/socket" ] || break
    sleep 0.1
done

count() {
    local case=$1
    shift
    local toggles=()
    local function
    for function in "$@"; do
        toggles+=("--toggle-collect=$function")
    done
    OKV_TEST_SEED=1 valgrind --tool=callgrind --callgrind-out-file="$directory/$case.out" \
        --collect-atstart=no "${toggles[@]}" "$build/tests/get_cost" -s "local://$directory/socket" \
        --items "$items" --loaded --gets "$gets" --only "$case" >"$directory/$case" 2>"$directory/$case.log" ||
        { cat "$directory/$case.log" >&2; return 1; }
    awk -v name="$case" '/^summary:/ { sum = $2 } / gets$/ { gets = $1 }
        END { printf "%-5s %6.0f instructions for each of %d gets\n", name, sum / gets, gets }' \
        "$directory/$case.out" "$directory/$case"
    [ -z "$keep" ] || cp "$directory/$case.out" "$keep/callgrind.out.$case"
}

"$build/tests/get_cost" -s "local://$directory/socket" --items "$items" --gets 1 --only get >"$directory/load"
count get okv_get
count poll okv_submit okv_poll
count many okv_get_many
