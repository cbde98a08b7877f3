#!/usr/bin/env bash
# What okv(1) has for scripts: times to live, JSON, and values and items of files.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/scripts.sh BUILD_DIR

Runs the okv of BUILD_DIR against a server of its own, over shared memory. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
# shellcheck source=tests/support/expect.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/expect.sh"

# within TEXT FROM TO: whether it is a number between them.
within() {
    [[ $1 =~ ^[0-9]+$ ]] && [ "$1" -ge "$2" ] && [ "$1" -le "$3" ] && echo yes || echo "no: $1"
}

times_to_live() {
    local left
    expect 0 '' put session alice --ttl 600
    left=$("$okv" ttl session)
    same "the unit of ttl" "${left##*[0-9]}" ms
    same "a time to live" "$(within "${left%ms}" 500000 601000)" yes
    same "as JSON" "$(within "$("$okv" ttl session --json | jq 'select(.key == "session") | .ttl_ms')" 500000 601000)" yes
    expect 0 '' put stays here
    expect 0 none ttl stays
    expect 0 '{"key":"stays","ttl_ms":null}' ttl --json stays
    # touch takes what ttl prints.
    expect 0 '' touch stays "$left"
    left=$("$okv" ttl stays)
    same "a time to live that was copied" "$(within "${left%ms}" 400000 601000)" yes
    expect 0 '' touch stays none
    expect 0 '' touch session "$("$okv" ttl stays)"
    expect 0 none ttl session
    expect 1 '' ttl nobody
    same "a miss" "$(grep -c "okv: ttl 'nobody': the key is not in the table" "$scratch/err")" 1
    expect 1 '' ttl nobody --json
    expect 2 '' ttl
    expect 2 '' ttl stays 5
    same "ttl with a time" "$(grep -c 'to set its time okv touch' "$scratch/err")" 1
    expect 0 '' del session stays
}

start_server "$socket"
export OKV_SERVER=$socket
times_to_live
echo "scripts: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
