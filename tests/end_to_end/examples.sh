#!/usr/bin/env bash
# The programs of client/examples do what their source says.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/examples.sh BUILD_DIR

Runs the examples of BUILD_DIR twice against a server of its own, over shared memory or, in the QEMU guest
(OKV_GUEST_ADDR is set), over RDMA, and compares what they print. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
[ -z "${OKV_GUEST_ADDR:-}" ] || socket=rdma://$OKV_GUEST_ADDR
failures=0

# expect NAME [PROGRAM]: runs the example; its output is what standard input has. The examples have the default
# deadlines: where one took as long, it says nothing and runs again.
expect() {
    local status begun guard=$((SECONDS + 120)) program=${2:-$build/client/examples/example_$1}
    cat >"$scratch/expected"
    while :; do
        status=0 begun=$SECONDS
        "$program" "$socket" >"$scratch/out" 2>&1 || status=$?
        [ $status -ne 0 ] || ! cmp -s "$scratch/expected" "$scratch/out" || return 0
        if [ $((SECONDS - begun)) -lt 3 ] || [ $SECONDS -ge $guard ]; then break; fi
    done
    echo "WRONG $1: exit status $status and this output"
    diff -u "$scratch/expected" "$scratch/out" || true
    failures=$((failures + 1))
}

# In an almost empty table: an item beyond the first part of its bucket gets no hint.
example_of_hints() {
    expect registered <<'TEXT'
get 1: the value
get 2: the value
values that the server READ by rendezvous: 1, extents found at once: 1
TEXT
}

# A second time they meet what the first has left.
examples() {
    expect sync <<'TEXT'
get: hello
put with the old version: OKV_ECONFLICT, it has the newer one
put for a minute: stored
put for a minute: it is there
session: 5 bytes, expires: by itself
visits: 42
get after the delete: a miss
TEXT
    expect async <<'TEXT'
stored 1000 of 1000
TEXT
    expect call_many <<'TEXT'
100 hits, 100 misses, 0 wrong
messages to the server for the gets: 0
TEXT
    expect feature_store <<'TEXT'
ticks: all, then a signal
vectors: half there, half absent, 0 failed
TEXT
    expect blobs <<'TEXT'
blob:0: 3145728 bytes, the right ones
blob:1: 3145728 bytes, the right ones
blob:2: 3145728 bytes, the right ones
blob:none: a miss
values that the server READ: 3
TEXT
}

# unknowing FOLDER SUFFIX: those that say what to do without an answer. They print the same where answers are lost.
unknowing() {
    expect "session_cache$2" "$1/example_session_cache$2" <<'TEXT'
session of alice
renewed: it has an hour
logged out: OKV_ENOTFOUND
not renewed: OKV_ENOTFOUND
TEXT
    expect "lease$2" "$1/example_lease$2" <<'TEXT'
b tries: OKV_EEXISTS
b took over, its token is higher
a goes on, and sees that its time is over
a had not looked: fenced
a renews: it is another's
two numbers: each once
TEXT
}

start_server "$socket" --memory 64M
example_of_hints
example_of_hints
for _ in 1 2; do
    examples
    unknowing "$build/client/examples" ''
    unknowing "$build/tests" _unanswered
done
echo "examples: $failures wrong"
[ $failures -eq 0 ]
