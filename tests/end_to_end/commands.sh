#!/usr/bin/env bash
# The commands of okv(1) at work, each with what it prints and how it ends, and runs of kv-bench(1).
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/commands.sh BUILD_DIR

Runs the okv and kv-bench of BUILD_DIR against a server of its own, over shared memory or, in the QEMU guest
(OKV_GUEST_ADDR is set), over RDMA. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
[ -z "${OKV_GUEST_ADDR:-}" ] || socket=rdma://$OKV_GUEST_ADDR
# shellcheck source=tests/support/expect.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/expect.sh"
tab=$(printf '\t')

help() {
    local put
    put=$("$okv" put --help)
    same "okv put -h" "$("$okv" put -h)" "$put"
    same "okv help put" "$("$okv" help put)" "$put"
    same "okv -h" "$("$okv" -h)" "$("$okv" --help)"
    same "okv alone" "$("$okv" 2>&1 | grep -c -e '^Commands:' -e 'okv COMMAND --help' -e '^  okv-server &' -e OKV_SERVER \
        -e '^  okv doctor')" 5
    same "commands whose line begins elsewhere" "$("$okv" 2>&1 | sed '1,/^Commands:/d; /^$/,$d' | grep -cv '^  .\{27\} [^ ]')" 0
    same "examples that a line break cuts" "$(for word in $("$okv" 2>&1 | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        "$okv" "$word" --help | awk '/^Examples?:/ { e = 1; next } e && /^[^ ]/'
    done)" ''
    same "okv help" "$("$okv" help)" "$("$okv" --help)"
    same "okv help nope" "$("$okv" help nope 2>&1)" "okv: 'nope': no such command: see \`okv --help' for the list"
    same "okv help gett" "$("$okv" help gett 2>&1)" "okv: 'gett': no such command: do you mean \`okv help get'?"
}

values() {
    local version
    expect 0 '' put greeting hello
    expect 0 hello get greeting
    expect 0 '' append greeting ' there'
    expect 0 'hello there' get greeting
    expect 0 '' exists greeting
    expect 1 '' exists nobody
    version=$("$okv" exists -v greeting | sed -n 's/^version //p')
    expect 0 "version $version
length 11
ttl none" exists -v greeting
    expect 0 '' put greeting hi --if-version "$version"
    expect 1 '' put greeting ho --if-version "$version"
    expect 1 '' put greeting ho --if-absent
    expect 1 '' del greeting --if-version "$version"
    expect 0 hi get greeting
    expect 0 '' del greeting --if-version "$("$okv" exists -v greeting | sed -n 's/^version //p')"
    expect 1 '' get greeting
    expect 0 '' put greeting ho --if-absent
    expect 0 '' append fresh start
    expect 0 start get fresh
}

ttl_of() { "$okv" exists -v "$1" | sed -n 's/^ttl //p'; }

# Options may be abbreviated, and a value may look like an option.
abbreviations() {
    expect 0 '' put --time 5s short x
    expect 0 'imported 1 item' import --dep 10 <<<$'short\ty'
    expect 0 '' scan --prefix --user:
    expect 0 y get -t 5s short
    expect 0 '' del short
}

# A value that begins with a dash and a digit needs nothing before it.
dashes() {
    local word
    expect 0 '' put dash -5
    expect 0 -5 get dash
    expect 0 '' append -t 30s dash -6 -s "$socket"
    expect 0 -5-6 get dash
    expect 0 '' put --ttl 1h dash -5x --if-version "$("$okv" exists -v dash | sed -n 's/^version //p')"
    expect 0 -5x get dash
    same "the time to live that it has" $(($(ttl_of dash) > 3000000)) 1
    expect 0 '' put dash -1 --ttl=1h
    expect 0 '' put -- -7 minus
    expect 0 minus get -- -7
    expect 0 '' put dash -- --ttl
    expect 0 --ttl get dash
    expect 0 '' put -- dash -x
    expect 0 -x get dash
    for word in 'put dash -x' 'append dash --no-such' 'put -5 minus' 'get -9' 'put dash -5 -x'; do
        # shellcheck disable=SC2086 # words
        expect 2 '' $word
        same "what $word is told" "$(grep -c "^okv [a-z]*: '-.*': no such option: .* put -- before" "$scratch/err")" 1
    done
    expect 2 '' put dash -5 -6
    same "the value beyond" "$(grep -c "unexpected argument '-6'" "$scratch/err")" 1
    expect 2 '' put dash -5 --ttl
    same "an option without its argument" "$(grep -c "'--ttl' requires an argument" "$scratch/err")" 1
    expect 2 '' put dash --if-version -5
    same "a negative version" "$(grep -c "version '-5': give a whole number" "$scratch/err")" 1
    expect 0 -x get dash
    expect 0 '' del dash -- -7
}

parts() {
    seq 100000 | "$okv" put numbers -
    expect 0 "$(seq 100000 | tail -c +65537 | head -c 4096)" get numbers --offset 64K --length 4K
    same "the end of a long value" "$("$okv" get numbers --offset 500000)" "$(seq 100000 | tail -c +500001)"
    expect 0 '' get numbers --offset 1G
    expect 0 '1' get numbers --length 1
    expect 1 '' get nobody --length 1
    expect 2 '' get numbers --length 0
    expect 0 '' del numbers
}

numbers() {
    local text
    expect 0 1 incr visits
    expect 0 43 incr visits 42
    expect 0 -7 incr visits -50
    expect 0 -8 incr visits -1 -t 30s
    expect 0 -9 -t 30s incr visits -- -1
    expect 0 -5 incr --ttl 1h tries -5
    expect 0 -4 incr tries --ttl 1ms
    same "a counter keeps its time to live" $(($(ttl_of tries) > 3000000)) 1
    expect 0 '' del tries
    expect 0 -9 get visits
    for text in 007 -0 00 +1; do
        printf %s "$text" | "$okv" put visits -
        expect 3 '' incr visits
        expect 0 "$text" get visits
    done
}

times() {
    local ttl word
    expect 0 '' put session alice
    expect 0 alice get session --touch 10m
    same "the time to live after get --touch" $(($(ttl_of session) > 500000)) 1
    expect 0 alice get --touch none session
    same "the time to live after get --touch none" "$(ttl_of session)" none
    expect 1 '' get nobody --touch 10m
    head -c 100000 /dev/zero | "$okv" put long -
    expect 3 '' get long --touch 10m
    expect 2 '' get long --touch 10m --offset 1
    same "the time to live after a get --touch that was refused" "$(ttl_of long)" none
    expect 0 '' del long
    expect 0 '' put session alice --ttl 10m
    ttl=$(ttl_of session)
    # A client's idea of the server's clock may lag a little.
    same "the time to live is near what was asked for" $((ttl > 500000 && ttl < 610000)) 1
    for word in 'put session bob --ttl 600' 'touch session 600' 'get session --touch 600 -t 120'; do
        "$okv" touch session 5h
        # shellcheck disable=SC2086 # words
        "$okv" $word >/dev/null
        same "the time to live after $word" $(($(ttl_of session) > 500000 && $(ttl_of session) < 610000)) 1
    done
    expect 0 1 incr counter --ttl 600
    same "the time to live after incr --ttl 600" $(($(ttl_of counter) > 500000 && $(ttl_of counter) < 610000)) 1
    expect 0 '' del counter
    expect 0 '' put session carol --keep-ttl
    ttl=$(ttl_of session)
    same "the time to live after put --keep-ttl" $((ttl > 500000 && ttl < 610000)) 1
    expect 0 '' put session dave --keep-ttl --if-version "$("$okv" exists -v session | sed -n 's/^version //p')"
    ttl=$(ttl_of session)
    same "the time to live after a swap with --keep-ttl" $((ttl > 500000 && ttl < 610000)) 1
    expect 0 '' put stays forever --keep-ttl
    same "the time to live of a new item with --keep-ttl" "$(ttl_of stays)" none
    expect 0 '' del stays
    expect 2 '' put session erin --keep-ttl --ttl 1s
    expect 0 dave get session
    expect 0 '' touch session none
    same "the time to live after touch none" "$(ttl_of session)" none
    expect 0 '' touch session 1ms
    sleep 0.3
    expect 1 '' exists session
    expect 1 '' get session
    expect 1 '' touch session 1s
    expect 0 '' put session bob --if-absent
    expect 0 '' del session
}

# A value beyond what a message takes, in and out.
large_values() {
    head -c 3000000 /dev/urandom >"$scratch/large"
    "$okv" put large - <"$scratch/large"
    expect 0 '' get large -o "$scratch/copy"
    checks=$((checks + 1))
    cmp "$scratch/large" "$scratch/copy" || failures=$((failures + 1))
    same "get -o -" "$(cd "$scratch" && "$okv" get large -o - | sha256sum)" "$(sha256sum <"$scratch/large")"
    same "a file called -" "$(ls "$scratch/-" 2>/dev/null)" ''
    same "the length in scan --long" "$("$okv" scan --prefix large --long | cut -f 2)" 3000000
    expect 0 '' del large
}

many_items() {
    local word
    seq 3000 | sed "s/.*/item:&${tab}value &/" >"$scratch/items"
    printf 'odd\\\\key\\n%s\\t\\r\\n\n' "$tab" >>"$scratch/items"
    "$okv" import <"$scratch/items" >/dev/null
    same "the keys of scan" "$("$okv" scan --prefix item: | sort | sha256sum)" \
        "$(cut -f 1 "$scratch/items" | grep ^item: | sort | sha256sum)"
    same "scan --limit" "$("$okv" scan --limit 17 | wc -l)" 17
    same "a line of scan --long" \
        "$("$okv" scan --prefix item:12 --long | cut -f 1,2,4 | grep "^item:12$tab")" "item:12${tab}8${tab}none"
    expect 0 '' put 'tmp:a b' 1
    expect 0 '' put "tmp:$tab" 2
    "$okv" put $'raw:\\b\nc' raw
    same "scan -0" "$("$okv" scan -0 --prefix raw: | xargs -0 -n 1 "$okv" get)" raw
    same "scan -0, then del -0" "$("$okv" scan -0 --prefix raw: | "$okv" del -0 -; "$okv" scan --prefix raw:)" ''
    same "scan -0, then mget -0" "$("$okv" scan -0 --prefix item:12 | "$okv" mget -0 - | sort | sha256sum)" \
        "$("$okv" export 2>/dev/null | grep '^item:12' | sort | sha256sum)"
    for word in mget del; do
        same "the line of a bad key of $word -" \
            "$(printf 'nobody\n\nno\\x\n' | "$okv" $word - 2>&1 | grep -oE "$word: line [23]" | xargs)" \
            "$word: line 2 $word: line 3"
        same "$word -0 without -" "$("$okv" $word -0 k 2>&1 | grep -c 'give - for KEY')" 1
    done
    same "scan, then del" "$("$okv" scan --prefix tmp: | "$okv" del -; "$okv" scan --prefix tmp:)" ''
    # There is no script(1) in the guest.
    [ -n "${OKV_GUEST_ADDR:-}" ] ||
        same "newlines on a terminal" "$(script -qec "$okv get item:3" /dev/null | wc -l)" 1
    same "newlines in a pipe" "$("$okv" get item:3 | wc -l)" 0
    same "a pattern" "$("$okv" scan 'item:*' 2>&1 | head -n 1)" \
        "okv scan: unexpected argument 'item:*': for keys that begin with it give --prefix item:"
    same "a pattern of export" "$("$okv" export 'item:*' 2>&1 | grep -c -- "--prefix item:, for a file of this name >item:\*\$")" 1
    same "scan, then mget" "$("$okv" scan | "$okv" mget - | sort | sha256sum)" \
        "$("$okv" export | sort | sha256sum)"
    same "mget in the order of its keys" "$("$okv" mget item:3 item:1 item:3 | cut -f 1 | tr '\n' ' ')" \
        'item:3 item:1 item:3 '
    expect 1 "item:1${tab}value 1" mget nobody item:1
    marks
    same "the figure of items after an export and an import" \
        "$("$okv" export | "$okv" import)" "imported $("$okv" scan | wc -l) items"
}

# A byte order mark in front of a text is no part of its first key; that of a key stays.
marks() {
    local mark=$'\xef\xbb\xbf' before word
    before=$("$okv" export 2>/dev/null | sort)
    printf '%smarked\tvalue\n%sagain\t2\n' "$mark" "$mark" | "$okv" import >/dev/null
    expect 0 value get marked
    expect 0 2 get "${mark}again"
    expect 1 '' get "${mark}marked"
    same "mget of keys behind a mark" "$(printf '%smarked\n%sagain\n' "$mark" "$mark" | "$okv" mget -)" \
        "$(printf 'marked\tvalue\n\\xef\xbb\xbfagain\t2')"
    same "raw keys of mget -0 have their marks" "$(printf '%sagain\0' "$mark" | "$okv" mget -0 - | cut -f 2)" 2
    "$okv" export 2>/dev/null | grep -a again >"$scratch/items"
    expect 0 '' del "${mark}again"
    "$okv" import <"$scratch/items" >/dev/null
    expect 0 2 get "${mark}again"
    same "a script behind a mark" "$(printf '%sget marked\n' "$mark" | "$okv" shell)" value
    for word in "${mark}marked" "$("$okv" scan --prefix "$mark")"; do printf '%s\n' "$word" | "$okv" del -; done
    same "what del of keys behind a mark leaves" "$("$okv" export 2>/dev/null | sort)" "$before"
}

# More than one portion of a scan, keys of any bytes, and neighbours that stay.
prefixes() {
    local key stay
    expect 0 '' flush --yes
    seq 1000 | sed "s/.*/gone:&${tab}x/" | "$okv" import >/dev/null
    printf 'gone:\\t\\n\\\\\0\xff%s\n' "${tab}x" | "$okv" import >/dev/null
    for key in gone: 'gone:*' $'gone:\t' "gone:$(printf '%1019s' x)"; do "$okv" put "$key" x; done
    for key in gone Gone: 'gone;' xgone: $'\xffgone:' 'gon'; do "$okv" put "$key" "$key"; done
    stay=$("$okv" scan | grep -av ^gone: | sort | sha256sum)
    same "what del --prefix --dry-run lists" "$("$okv" del --prefix gone: --dry-run | sort | sha256sum)" \
        "$("$okv" scan --prefix gone: | sort | sha256sum)"
    same "what it leaves" "$("$okv" scan | wc -l)" 1011
    expect 0 'removed 1005 items' del --prefix gone:
    same "what del --prefix leaves" "$("$okv" scan | sort | sha256sum)" "$stay"
    expect 0 'removed 0 items' del --prefix gone:
    expect 0 'removed 1 item' del --prefix $'\xff'
    expect 2 '' del --prefix ''
    expect 2 '' del --prefix go gone
    expect 2 '' del --prefix go --if-version 1
    expect 2 '' del --prefix go -0
    expect 2 '' del --dry-run gone
    expect 2 '' del
    same "what they left" "$("$okv" scan | wc -l)" 5
}

# What expires is written with its time, which an import goes by: not with what it had left.
expiring_items() {
    local before after line time
    before=$(date +%s%3N)
    expect 0 '' put "tab${tab}here" "gone${tab}soon" --ttl 1h
    expect 0 '' put stays alive
    line=$("$okv" export | grep '^tab')
    after=$(date +%s%3N)
    time=${line##*"$tab"}
    same "a line of export" "${line%"$tab"*}" "tab\\there${tab}gone\\tsoon"
    same "its time" $((time >= before + 3600000 && time <= after + 3610000)) 1
    same "an item that stays" "$("$okv" export | grep '^stays')" "stays${tab}alive"
    "$okv" export >"$scratch/items"
    printf 'past\tbygone\t%s\nstays\tpast\t1\n' "$before" >>"$scratch/items"
    expect 0 '' flush --yes
    same "an import of what expires" "$("$okv" import <"$scratch/items")" \
        'imported 2 items, and left out 2 whose time has passed'
    expect 1 '' get past
    expect 0 alive get stays
    same "the time to live of what stays" "$("$okv" exists -v stays | sed -n 's/^ttl //p')" none
    line=$("$okv" exists -v "tab${tab}here" | sed -n 's/^ttl //p')
    same "the time to live after an import" $((line > 0 && line <= 3610000)) 1
    expect 0 '' put longest life --ttl 140737488355327ms
    same "the longest time to live" "$("$okv" export | grep ^longest | "$okv" import)" 'imported 1 item'
    printf 'ok\t1\t%s\nfar\t2\t999999999999999999\n' $((after + 3600000)) >"$scratch/items"
    expect 3 'imported 1 item' import <"$scratch/items"
    same "the sentence on a time too far" "$(grep -c 'line 2: .*time to live' "$scratch/err")" 1
    expect 0 '' flush --yes
}

# resp COMMAND: the number that a server replies to a client of Redis, on descriptor 3.
resp() {
    local line
    printf '%s\r\n' "$1" >&3
    read -r line <&3
    tr -d ':\r' <<<"$line"
}

# A time 73 years from now is the same at every door: a client of Redis sets it, export and import carry it.
far_times() {
    local far=4102444800 port time socket=local://$scratch/far.sock
    start_resp_server --memory 16M
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    same "a SET until a far time" "$(resp "SET far v EXAT $far")" +OK
    same "the far time in RESP" "$(resp 'EXPIRETIME far')" $far
    "$okv" -s "$socket" export >"$scratch/items"
    time=$(cut -f 3 "$scratch/items")
    same "the far time in export" $((time >= far * 1000 - 1000 && time <= far * 1000 + 60000)) 1
    expect 0 '' -s "$socket" flush --yes
    same "an import of a far time" "$("$okv" -s "$socket" import <"$scratch/items")" 'imported 1 item'
    time=$(resp 'EXPIRETIME far')
    same "the far time after an import" $((time >= far - 1 && time <= far + 60)) 1
    exec 3>&-
    end_server TERM
}

# measure ARGUMENT...: kv-bench finds every value right.
measure() {
    checks=$((checks + 1))
    "$bench" -t 120s --records 500 --warmup 0 --operations 2000 "$@" >"$scratch/out" 2>&1 && return
    failures=$((failures + 1))
    printf 'WRONG kv-bench %s\n' "$*"
    cat "$scratch/out"
}

measurements() {
    local workload
    for workload in a b c d f; do
        measure --workload "$workload" --threads 2 --depth 8
    done
    measure --mix get=40,put=10,insert=10,delete=10,rmw=10,cas=10,incr=10 --connections 3 --threads 2 --depth 4
    measure --hotspot 0.1,0.9 --value-size 16-2K
    measure --distribution latest --value-size trace --theta 0.5
    measure --rate 20K --threads 2
    measure --rate 20K --even --connections 2 --depth 1
    measure --value-size 16-100 --load-only
    measure --value-size 16-100 --no-load --workload c
    measure -s one="$socket" -s two="$socket" --rounds 2 --json "$scratch/run.json"
    same "the targets in the JSON of a run" "$(sed -n 's/^ *"name": "\(.*\)",$/\1/p' "$scratch/run.json" | tr '\n' ' ')" \
        'one two '
    measure --get-many 100
    measure --get-many 100 --depth 16 --value-size 3000 --registered
    measure --value-size 20000 --mix get=80,put=20 --json "$scratch/run.json"
    same "the JSON of a run says that it was good" "$(grep -c '"good": true' "$scratch/run.json")" 1
    measure --value-size 1M --records 5 --operations 50 --registered
    measure --value-size 3000 --rounds 1 --floor --registered
    same "what a READ is compared with" "$(sed -n 's/^ *a raw READ is of \([0-9]*\) bytes.*/\1/p' "$scratch/out")" 3000
}

# What a run leaves on the server: what was there before.
interrupted_bench() {
    local status=0 bench_pid puts
    puts=$("$okv" stat | sed -n 's/^puts //p')
    "$bench" -t 120s --records 500 --warmup 0 --operations 100K --rounds 1000 --json "$scratch/report" >"$scratch/out" 2>/dev/null &
    bench_pid=$!
    until [ "$("$okv" stat | sed -n 's/^puts //p')" -ge $((puts + 15000)) ] || ! kill -0 "$bench_pid"; do sleep 0.1; done
    kill "$bench_pid"
    wait "$bench_pid" || status=$?
    same "status of a run that was ended" $status 143
    same "it prints the rounds before" "$(($(wc -l <"$scratch/out") > 0))" 1
    same "its report has the rounds before" "$(($(jq '.targets[0].rounds | length' "$scratch/report") > 0))" 1
    same "what it leaves" "$("$okv" scan)" bystander
}

# records_that_cannot_fit RECORDS: refused before any is stored; with what the refusal says they fit.
records_that_cannot_fit() {
    local status=0 puts fewer
    puts=$("$okv" stat | sed -n 's/^puts //p')
    "$bench" -t 120s --records "$1" --value-size 3000 >"$scratch/out" 2>&1 || status=$?
    same "status of records that cannot fit" $status 3
    same "puts of records that cannot fit" "$("$okv" stat | sed -n 's/^puts //p')" "$puts"
    fewer=$(sed -nE "s/^kv-bench: .*: $1 records of 3016 bytes, key and value, need --memory [0-9]+M at least, and the table has .* MiB: start okv-server with --memory [0-9]+M, for quick gets, or give --records ([0-9]+) or a smaller --value-size\$/\1/p" "$scratch/out")
    measure --value-size 3000 --records "${fewer:-missing}"
    measure --value-size 3000 --records "$1" --no-load --workload c
}

removal() {
    local status=0 records key
    expect 0 '' flush --yes
    expect 0 '' put bystander there
    measure --mix get=30,put=10,insert=20,delete=10,rmw=10,incr=20 --threads 2 --depth 4
    measure -s one="$socket" -s two="$socket" --mix incr=50,insert=50
    same "what a run leaves" "$("$okv" scan)" bystander
    # More than there is room for: it never comes to the last record, which is somebody else's.
    records=$(($("$okv" stat | sed -n 's/^region_bytes //p') / 3016))
    key=$(printf '%016x' $((records - 1)))
    "$okv" put "$key" mine
    "$bench" -t 120s --records $records --value-size 3000 >"$scratch/out" 2>&1 || status=$?
    same "status of a load without room" "$status $(grep -c ': load: .*start okv-server with a larger --memory' "$scratch/out")" '3 1'
    same "what it leaves" "$("$okv" scan | sort)" "$key
bystander"
    "$okv" del "$key"
    records_that_cannot_fit $((records + 1))
    interrupted_bench
    measure --keep
    same "what a run with --keep leaves" "$("$okv" scan | wc -l)" 501
    measure --workload d
    same "a run finds what another one left" "$(grep -c 'has items of another run' "$scratch/out")" 1
    same "it leaves that" "$(($("$okv" scan | wc -l) >= 501))" 1
    "$okv" scan -0 --prefix 0 | "$okv" del -0 -
    measure --keep
    measure --no-load --workload c
    same "what a run with --no-load leaves" "$("$okv" scan | wc -l)" 501
}

# completes LINE WORDS: what bash offers for the last word of a line, of which it has cut off what is before a = or :.
completes() {
    same "completion of '$1'" "$(
        PATH=$build/client/cli:$build/server:$build/bench:$PATH
        # shellcheck source=client/cli/okv.bash
        . "$(dirname "${BASH_SOURCE[0]}")/../../client/cli/okv.bash"
        COMP_LINE=$1 COMP_POINT=${#1}
        apart=${1//=/ = }
        read -ra COMP_WORDS <<<"${apart//:/ : }"
        [ "${1% }" = "$1" ] || COMP_WORDS+=('')
        COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        _okv "${COMP_WORDS[0]}"
        echo "${COMPREPLY[*]}"
    )" "$2"
}

completion() {
    completes 'okv pu' put
    completes 'okv -s local:///x --counters sc' scan
    completes 'okv --server=local:///x sc' scan
    completes 'okv help to' 'touch top'
    completes 'okv tt' ttl
    completes 'okv ttl key --js' --json
    completes "okv import $scratch/rea" "$scratch/ready"
    completes "okv put key -f $scratch/rea" "$scratch/ready"
    completes "okv put key --file=$scratch/rea" "$scratch/ready"
    completes 'okv shell --no' --no-history
    completes 'okv put key value --if-' '--if-absent --if-version='
    completes 'okv del --pre' --prefix=
    completes 'okv --ser' --server=
    completes 'okv get -s ' 'local:// ofi:// okv:// rdma:// tcp:// tcps://'
    completes 'okv-server --wo' '--worker-cpus= --workers='
    completes 'okv-server --listen=lo' local://
    completes 'okv-server --listen=' 'local:// ofi:// rdma:// resp:// resps:// tcp:// tcps://'
    completes 'okv-server -l rd' rdma://
    completes "okv-server -l local://$scratch/rea" "//$scratch/ready"
    completes "okv-server --data=$scratch/rea" "$scratch/ready"
    completes "okv-server --users $scratch/rea" "$scratch/ready"
    completes 'kv-bench --get-' --get-many=
    completes 'kv-bench -s lm' 'lmdb+batch:// lmdb+sync:// lmdb://'
    completes 'kv-bench -s name=redis' redis://
    completes 'kv-bench --server=name=redis' redis://
    completes "kv-bench -s lmdb://$scratch/rea" "//$scratch/ready"
}

# await_lines FILE N PROCESS: until it has so many, or the process that writes them has ended.
await_lines() {
    while [ "$(wc -l <"$1")" -lt "$2" ] && kill -0 "$3" 2>/dev/null; do sleep 0.01; done
}

changes() {
    local seen=$scratch/watched watcher
    : >"$seen" # is there before the watcher has begun
    "$okv" put watched one >/dev/null
    "$okv" watch watched -n 4 -i 1ms >"$seen" &
    watcher=$!
    await_lines "$seen" 1 $watcher
    "$okv" put watched $'t\two' >/dev/null
    await_lines "$seen" 2 $watcher
    "$okv" del watched
    await_lines "$seen" 3 $watcher
    "$okv" put watched "$(printf '%5000s' three)" >/dev/null # more than the first buffer has
    wait $watcher
    same "what watch saw" "$(cut -f 2 "$seen" | tr -d ' ' | tr '\n' ,)" 'one,t\two,,three,'
    same "its versions" "$(awk '{ print ($1 > last) ? "later" : $1; last = $1 }' "$seen" | xargs)" 'later later 0 later'
    expect 2 '' watch
    expect 2 '' watch a b
}

# Beside a client that puts, so that two samples differ.
live() {
    "$bench" -s "$socket" --mix put=100 --seconds 100 >/dev/null 2>&1 &
    local bench_pid=$! line
    for _ in $(seq 1200); do
        line=$("$okv" top --json -n 1 -i 100ms)
        [ "$(jq '.puts_per_s > 0' <<<"$line")" = false ] || break
    done
    local rates={}
    until [ "$(jq '.per_second | .puts > 0 and .cpu_ms > 0' <<<"$rates")" = true ] &&
        [ "$(jq '.server.writes_timed > 0' <<<"$rates")" = true ] || ! kill -0 $bench_pid 2>/dev/null; do
        rates=$("$okv" stat -i 100ms --json)
    done
    same "rates of stat" "$(jq '.per_second | has("uptime_ms"), has("buckets_max"), .puts > 0' <<<"$rates" | xargs)" 'false false true'
    same "the times of writes" "$(jq '.server | .write_p50_ns > 0 and .write_p99_ns >= .write_p50_ns and
        .writes_timed_ns > 0' <<<"$rates")" true
    local lines=0
    until [ "$lines" -gt 0 ] || ! kill -0 $bench_pid 2>/dev/null; do
        lines=$("$okv" stat -i 100ms | grep -cE '^puts_per_s [0-9]+[.][0-9]+$' || true)
    done
    same "lines of rates" "$lines" 1
    kill $bench_pid
    wait $bench_pid 2>/dev/null || true
    same "stat alone has no rates" "$("$okv" stat | grep -c _per_s || true)" 0
    expect 2 '' stat --all -i 1s
    expect 2 '' stat -i 0
    same "puts of a second" "$(jq '.puts_per_s > 0' <<<"$line")" true
    same "what top counts of now" "$(jq '.items > 0 and .index_and_heap_bytes > 0 and .sessions >= 1' <<<"$line")" true
    same "the lines of top" "$("$okv" top -n 21 -i 1ms | wc -l)" 23
    same "its columns" "$("$okv" top -n 1 -i 1ms | awk '{ print NF }' | sort -u | tr '\n' ' ')" '18 20 '
    expect 2 '' top -n 0
    expect 2 '' top -i 0
}

# Keys, which need no server.
keys() {
    local one other
    one=$(OKV_SERVER=rdma://192.0.2.1 "$okv" keygen)
    other=$("$okv" keygen)
    same "the bytes of a key" "$(printf %s "$one" | base64 -d | wc -c)" 32
    same "the letters of a key" "${#one}" 44
    same "the letters of a key that goes to -" "$(cd "$scratch" && "$okv" keygen - | wc -c; ls - 2>/dev/null)" 45
    same "two keys are the same" "$([ "$one" = "$other" ] && echo yes || echo no)" no
    (umask 0 && "$okv" keygen "$scratch/key")
    same "what others may do with a key file" "$(stat -c %a "$scratch/key")" 600
    same "the lines and bytes of a key file" "$(wc -lc <"$scratch/key" | tr -s ' ')" ' 1 45'
    one=$(cat "$scratch/key")
    expect 3 '' keygen "$scratch/key"
    same "the key in a file that was there" "$(cat "$scratch/key")" "$one"
    expect 3 '' keygen "$scratch/no/such/key"
    (umask 077 && echo AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8= >"$scratch/known.key")
    expect 0 'xUf3HfZmLhB/a6e51deqqQ==' keygen --password "$scratch/known.key"
    expect 2 '' keygen --password "$scratch/known.key" "$scratch/another.key"
}

# Two databases: which one a command means.
databases() {
    expect 0 '' put k in-default
    expect 0 '' --database other put k in-other
    expect 0 in-default get k
    expect 0 in-other --database other get k
    OKV_DATABASE=other expect 0 in-other get k
    OKV_DATABASE=other expect 0 in-default --database default get k
    OKV_DATABASE=none OKV_SERVER="$socket?database=other" expect 0 in-other get k
    expect 3 '' --database none get k
    expect 0 '' del k
}

start_server "$socket" --database default:64M --database other:4M
export OKV_SERVER=$socket
databases
keys
help
[ -n "${OKV_GUEST_ADDR:-}" ] || completion # of the tree
values
dashes
parts
abbreviations
numbers
times
large_values
many_items
prefixes
expect 0 '' flush --yes
expiring_items
[ -n "${OKV_GUEST_ADDR:-}" ] || far_times
expect 0 '' scan
expect 1 '' get item:1
measurements
removal
changes
live
echo "commands: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
