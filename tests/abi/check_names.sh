#!/usr/bin/env bash
# Scripts and dashboards work with the programs of this tree: their names are compared with recorded ones.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
baseline=$here/okv-0.3.names

usage() {
    cat <<'TEXT'
usage: tests/abi/check_names.sh BUILD_DIR [--record]

Compares the options of the programs in BUILD_DIR, the commands of okv, the metrics of a server, and the members of JSON
with tests/abi/okv-0.3.names. New ones are no difference.

  --record   writes the file. For names that a release adds. One that goes breaks scripts: docs/compatibility.md.

Exit status: 0 no name is gone, 1 one is.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$here/../support/programs.sh"
record=${2:-}

# options PROGRAM [COMMAND]
options() {
    "$@" --help | sed -nE "s/^ {2,6}(-., )?(--[a-z-]+).*/option $(basename "$1")${2:+ $2} \2/p"
}

# members NAME: the paths in a JSON, those of an array as [].
members() {
    jq -r 'paths | map(if type == "number" then "[]" else . end) | join(".")' | sort -u | sed "s,^,json $1 ,"
}

measure() {
    "$bench" -t 120s --records 100 --operations 1000 --warmup 0 --rounds 1 --json - 2>"$scratch/err" && return
    cat "$scratch/err" >&2
    return 1
}

names() {
    local command port
    options "$server"
    options "$bench"
    for command in $("$okv" --help | sed -n '/^Commands:$/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        echo "command okv $command"
        options "$okv" "$command"
    done
    port=$(sed -n 's|.*http://127.0.0.1:\([0-9]*\)/metrics.*|\1|p' "$scratch/log")
    exec 3<>"/dev/tcp/127.0.0.1/$port"
    printf 'GET /metrics HTTP/1.1\r\nHost: okv\r\nConnection: close\r\n\r\n' >&3
    tr -d '\r' <&3 | sed -n 's/^# TYPE /metric /p'
    exec 3>&-
    "$okv" stat --json | members "okv stat"
    "$okv" stat --all --json | members "okv stat --all"
    "$okv" put name value
    printf '\377' | "$okv" put $'\377' -
    "$okv" mget name $'\377' --json | members "okv mget"
    "$okv" get name --json | members "okv get"
    "$okv" ttl name --json | members "okv ttl"
    "$okv" scan --json | members "okv scan"
    "$okv" export --json 2>/dev/null | members "okv export"
    "$okv" ping --json | members "okv ping"
    "$okv" top -n 1 -i 1ms --json | members "okv top"
    "$okv" clients --json | members "okv clients"
    "$okv" doctor --json | members "okv doctor"
    measure | members kv-bench
}

start_server "$socket" --data "$scratch/data" --metrics 127.0.0.1:0
export OKV_SERVER=$socket
names | sort -u >"$scratch/names"
[ "$record" != --record ] || cp "$scratch/names" "$baseline"
if comm -23 "$baseline" "$scratch/names" | grep .; then
    echo "check_names: these are gone, or mean something else: see --help"
    exit 1
fi
