#!/usr/bin/env bash
# What okv(1) has for scripts: times to live, JSON, values and items of files, and statuses without work.
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

imports() {
    printf 'a\t1\nb\t2\n' >"$scratch/lines"
    expect 0 'imported 2 items' import "$scratch/lines"
    expect 0 2 get b
    printf 'c\t3\n' | expect 0 'imported 1 item' import -
    printf 'c\t4\n' | expect 0 'imported 1 item' import --depth 2
    expect 0 4 get c
    (cd "$scratch" && printf 'd\t5\n' >- && "$okv" import ./- && "$okv" import --depth 3 ./-) >"$scratch/out"
    same "a file called -" "$(cat "$scratch/out")" $'imported 1 item\nimported 1 item'
    printf 'e\t6\nno tab\n' >"$scratch/lines"
    expect 3 'imported 1 item' import "$scratch/lines" --depth 1
    same "a bad line of a file" "$(grep -c '^okv: import: line 2: no tab' "$scratch/err")" 1
    expect 3 '' import "$scratch/no/such"
    same "no such file" "$(grep -c "^okv: import: cannot read '$scratch/no/such': No such file" "$scratch/err")" 1
    expect 3 '' -s "local://$scratch/nobody" import "$scratch/no/such"
    same "no such file, and no server" "$(grep -c 'No such file' "$scratch/err")" 1
    expect 3 'imported 0 items' import "$scratch"
    same "a directory" "$(grep -c "cannot read line 1 of $scratch: Is a directory" "$scratch/err")" 1
    expect 2 '' import "$scratch/lines" "$scratch/lines"
    same "two files" "$(grep -c 'give one FILE, or none for stdin' "$scratch/err")" 1
    same "what they left" "$("$okv" export 2>/dev/null | sort | xargs)" 'a 1 b 2 c 4 d 5 e 6'
    expect 0 '' flush --yes
}

export_prefix() {
    local key
    for key in user:1 user:2 user 'user;3' xuser:1 $'user:\t'; do "$okv" put "$key" "of $key"; done
    expect 0 '' export --prefix nobody
    same "what it says of none" "$(cat "$scratch/err")" 'exported 0 items'
    "$okv" export --prefix user: >"$scratch/lines" 2>"$scratch/err"
    same "export --prefix" "$(sort "$scratch/lines")" $'user:1\tof user:1\nuser:2\tof user:2\nuser:\\t\tof user:\\t'
    same "how many" "$(cat "$scratch/err")" 'exported 3 items'
    same "export --prefix --json" "$("$okv" export --json --prefix user: 2>/dev/null | jq -r .value | sort | sha256sum)" \
        "$(printf 'of user:\t\nof user:1\nof user:2\n' | sort | sha256sum)"
    same "an empty prefix" "$("$okv" export --prefix '' 2>/dev/null | wc -l)" 6
    expect 0 'removed 3 items' del --prefix user:
    expect 0 'imported 3 items' import "$scratch/lines"
    expect 0 'of user:2' get user:2
    expect 2 '' export user:
    expect 0 '' flush --yes
}

version_of() { "$okv" exists -v "$1" | sed -n 's/^version //p'; }

# one_line WHAT TEXT FILTER: the text is one line, and jq says true of it.
one_line() {
    same "$1" "$(wc -l <<<"$2") $(jq "$3" <<<"$2")" '1 true'
}

json() {
    local line status=0
    expect 0 '' put greeting hello
    expect 0 "{\"key\":\"greeting\",\"value\":\"hello\",\"version\":$(version_of greeting)}" get greeting --json
    printf 'a"\\\tä\n\0z' | "$okv" put "k\"ü" -
    line=$("$okv" get "k\"ü" --json)
    one_line "text with controls" "$line" '.key == "k\"ü" and .value == "a\"\\\tä\n\u0000z"'
    printf '\377\0\1' | "$okv" put $'\xfe' -
    expect 0 "{\"key_base64\":\"/g==\",\"value_base64\":\"/wAB\",\"version\":$(version_of $'\xfe')}" get --json $'\xfe'
    expect 0 '' put empty ''
    one_line "an empty value" "$("$okv" get empty --json)" '.value == ""'
    expect 0 '' put part 'xäy'
    one_line "a part" "$("$okv" get part --json --length 3)" '.value == "xä"'
    one_line "a part of a character" "$("$okv" get part --json --length 2)" '.value_base64 == "eMM=" and (has("value") | not)'
    one_line "get --touch" "$("$okv" get part --json --touch 60)" '.value == "xäy"'
    expect 1 '' get nobody --json
    expect 2 '' get greeting --json -o "$scratch/value"
    same "two outputs" "$(grep -c 'leave out --output' "$scratch/err")" 1
    seq 5000 | "$okv" put long -
    "$okv" mget nobody greeting long greeting --json >"$scratch/lines" || status=$?
    same "the status of mget" $status 1
    same "keys of mget" "$(jq -r .key <"$scratch/lines" | xargs)" 'greeting long greeting'
    same "a long value of mget" "$(jq -r 'select(.key == "long") | .value' <"$scratch/lines" | sed '$d' | sha256sum)" \
        "$(seq 5000 | sha256sum)"
    same "its version" "$(jq 'select(.key == "long") | .version' <"$scratch/lines")" "$(version_of long)"
    same "mget - of scan" "$("$okv" scan | "$okv" mget - --json | wc -l)" 6
    one_line "an item of scan" "$("$okv" scan --json --prefix gree)" \
        ". == {key: \"greeting\", length: 5, version: $(version_of greeting), ttl_ms: null}"
    one_line "one that expires" "$("$okv" scan --json --prefix part)" '.ttl_ms > 30000 and .ttl_ms < 61000'
    same "scan --json --limit" "$("$okv" scan --json --limit 4 | jq -c 'has("version")' | xargs)" 'true true true true'
    expect 2 '' scan --json --long
    expect 2 '' scan --json -0
    "$okv" export --json >"$scratch/lines" 2>/dev/null
    same "members of export" "$(jq -c 'keys_unsorted' <"$scratch/lines" | sort -u | xargs)" \
        '[key,value,version,expires_at_ms] [key_base64,value_base64,version,expires_at_ms]'
    same "lines of export" "$(wc -l <"$scratch/lines")" 6
    # What import reads, made of it.
    jq -r 'select(.value) | "\([.key, .value] | @tsv)\(if .expires_at_ms then "\t\(.expires_at_ms)" else "" end)"' \
        <"$scratch/lines" | grep -v '^k"' | cut -f 1,2 | sort >"$scratch/made"
    same "items of export" "$("$okv" export 2>/dev/null | grep -av '^k"' | grep -av $'^\xfe' | cut -f 1,2 | sort | sha256sum)" \
        "$(sha256sum <"$scratch/made")"
    line=$(jq 'select(.key == "part") | .expires_at_ms' <"$scratch/lines")
    same "when one expires" "$(within "$line" $(($(date +%s%3N) + 30000)) $(($(date +%s%3N) + 61000)))" yes
    same "one that stays" "$(jq 'select(.key == "long") | .expires_at_ms' <"$scratch/lines")" null
    one_line "ping" "$("$okv" ping -c 3 --json)" ".uri == \"$socket\" and .count == 3 and .min_us > 0 and
        .min_us <= .p50_us and .p50_us <= .p99_us and .p99_us <= .max_us"
    same "the shell" "$(printf '%s\n' 'get part --json' 'ttl greeting --json' 'ping --json -c 1' 'scan --json --limit 1' \
        'mget part --json' | "$okv" shell | jq -c '.value // .count // .length? // "other"' | wc -l)" 5
    for line in scan export 'get part' 'mget part' 'ttl part' ping; do
        status=0
        # shellcheck disable=SC2086 # words
        "$okv" $line --json >/dev/full 2>"$scratch/err" || status=$?
        same "the status of $line without room" $status 3
        same "what $line says without room" "$(grep -c 'cannot write the output: No space left' "$scratch/err")" 1
    done
    expect 0 '' flush --yes
}

files() {
    local word
    head -c 100000 /dev/urandom >"$scratch/bytes"
    expect 0 '' put bytes -f "$scratch/bytes"
    same "a value of a file" "$("$okv" get bytes | sha256sum)" "$(sha256sum <"$scratch/bytes")"
    expect 0 '' put --file="$scratch/bytes" other --ttl 600
    same "the same with a time to live" "$("$okv" get other | sha256sum) $("$okv" ttl other | wc -l)" "$(sha256sum <"$scratch/bytes") 1"
    printf '%s\n' -5 | expect 0 '' put bytes -f -
    expect 0 -5 get bytes
    : >"$scratch/empty"
    expect 0 '' put bytes -f "$scratch/empty"
    expect 0 '' get bytes
    expect 0 '' put -f "$scratch/empty" -- -x
    for word in "put bytes value -f $scratch/bytes" "put bytes - -f $scratch/bytes" "put bytes -1 -f $scratch/bytes"; do
        # shellcheck disable=SC2086 # words
        expect 2 '' $word
        same "two values" "$(grep -c 'VALUE and --file exclude each other: give one' "$scratch/err")" 1
    done
    expect 2 '' put -f "$scratch/bytes"
    expect 2 '' append bytes -f "$scratch/bytes"
    expect 3 '' put bytes -f "$scratch/no/such"
    same "an empty name" "$("$okv" put bytes -f '' 2>&1; "$okv" import '' 2>&1)" "okv: put 'bytes': cannot read '': No such file or directory
okv: import: cannot read '': No such file or directory"
    same "no such file" "$(grep -c "okv: put 'bytes': cannot read '$scratch/no/such': No such file" "$scratch/err")" 1
    expect 3 '' -s "local://$scratch/nobody" put bytes -f "$scratch/no/such"
    same "no such file, and no server" "$(grep -c 'No such file' "$scratch/err")" 1
    expect 3 '' put bytes -f "$scratch"
    same "a directory" "$(grep -c 'cannot read .*: Is a directory' "$scratch/err")" 1
    truncate -s 100M "$scratch/huge"
    expect 3 '' put bytes -f "$scratch/huge"
    same "too large a file" "$(grep -c 'larger than the server' "$scratch/err")" 1
    same "what they left" "$("$okv" scan --long | sort | cut -f 1,2 | xargs)" '-x 0 bytes 0 other 100000'
    expect 0 '' flush --yes
}

# Which does nothing, and would have status 0.
help_beside_arguments() {
    local word
    for word in 'put dash -hello' 'put dash -Version' 'put dash --help' 'put --help dash' 'put dash -?' 'put dash --vers' \
        'exists -hdash' 'exists -vh dash' 'del dash -h' 'append dash -hx' 'mget dash -V' \
        'incr dash -hx' 'put -f -h dash -h'; do
        # shellcheck disable=SC2086 # words
        expect 2 '' $word
        same "what $word is told" "$(grep -c "^okv [a-z]*: '-.*': an option for help stands alone: .* put -- before" "$scratch/err")" 1
    done
    expect 2 '' stat -hx
    same "what stat -hx is told" "$(cat "$scratch/err")" "okv stat: '-hx': an option for help stands alone: see \`okv stat --help'"
    for word in 'put --help' 'put -h' 'put -?' 'put -V' 'put --vers' 'get --json --usage' 'help put'; do
        # shellcheck disable=SC2086 # words
        "$okv" $word >/dev/null 2>"$scratch/err" || same "$word" $? 0
    done
}

json_on_terminal() {
    printf 'a\x7f\xe2\x80\xae\xc2\x85\xc3\xa9"\x1b' | "$okv" put odd -
    "$okv" get odd --json >"$scratch/item"
    same "JSON on a terminal" "$(script -qec "$okv get odd --json" /dev/null | tr -d '\r' | jq -S .)" "$(jq -S . "$scratch/item")"
    same "what it looks like" "$(script -qec "$okv get odd --json" /dev/null | grep -c '"value":"a\\u007f\\u202E\\u0085\\u00E9\\"\\u001B"')" 1
    "$okv" del odd
}

start_server "$socket"
export OKV_SERVER=$socket
times_to_live
json
files
imports
export_prefix
help_beside_arguments
json_on_terminal
echo "scripts: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
