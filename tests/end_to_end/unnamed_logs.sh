#!/usr/bin/env bash
# Databases that are in the directory of --data, and in no option.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/unnamed_logs.sh BUILD_DIR

Starts the okv-server of BUILD_DIR with all, some and none of the databases that its directory has. Exits 1 when
something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
data=$scratch/data

# refused WHAT OPTIONS ARGUMENT...: a start with these ends with 2 and prints the options.
refused() {
    local status=0 what=$1 options=$2
    shift 2
    timeout -k 5 300 "$server" --listen "$socket" --data "$data" "$@" >"$scratch/out" 2>"$scratch/err" || status=$?
    same "the status of a start $what" $status 2
    same "the options that it prints" "$(sed -n 's/^okv-server: --data .*: it has logs .*: give \(.*\)$/\1/p' "$scratch/err")" \
        "$options"
    same "its lines" "$(wc -l <"$scratch/err")" 1
    same "the directory after it" "$(ls "$data")" "$there"
}

# says TEXT COUNT: COUNT lines of the log contain TEXT.
says() { same "'$1' in the log" "$(grep -cF -- "$1" "$scratch/log")" "$2"; }

# figure NAME [DATABASE]: of `okv stat`.
figure() { "$okv" -s "$socket${2:+?database=$2}" stat | awk -v name="$1" '$1 == name { print $2 }'; }

start_server "$socket" --data "$data"
says "database default: new: there was no log of it in $data" 1
"$okv" -s "$socket" put key default
end_server TERM
start_server "$socket" --data "$data"
says ': new: ' 0
same "without a named database" "$(figure unnamed_logs) $("$okv" -s "$socket" get key)" '0 default'
end_server TERM

start_server "$socket" --data "$data" --database a:8M --database b:4M --metrics 127.0.0.1:0
says "database a: new: there was no log of it in $data" 1
says "database b: new: there was no log of it in $data" 1
says "database default: not served, though $data has its log: name it with --database default" 1
same "logs of databases that are not served" "$(figure unnamed_logs a)" 1
metrics=$(sed -n 's|.*http://\(127.0.0.1:[0-9]*\)/metrics.*|\1|p' "$scratch/log")
same "the gauge" "$("$python" -c 'import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1]).read().decode())' "http://$metrics/metrics" | grep '^okv_unnamed_logs ')" 'okv_unnamed_logs 1'
"$okv" -s "$socket?database=a" put key a
"$okv" -s "$socket?database=b" put key b
end_server TERM
there=$(ls "$data")

refused "without --database" '--database a --database b --database default'
refused "without --database, with --memory" '--database a --database b --database default' --memory 4M
"$server" --listen "$socket" --data "$data" --print-config >"$scratch/out" # shows what is given, and starts nothing

# What is no log of a database does not count.
mv "$data/default" "$scratch/default"
mkdir "$data/lost+found" "$data/empty" "$data/locked" "$data/notes"
touch "$data/file" "$data/locked/lock" "$data/notes/log.old" "$data/notes/log.txt"
there=$(ls "$data")
refused "without --database, and without the log of default" '--database a --database b'

start_server "$socket" --data "$data" --database a:8M
says "database b: not served, though $data has its log: name it with --database b, or move the log away" 1
says 'not served' 1
says ': new: ' 0
same "the others count" "$(figure unnamed_logs a) $("$okv" -s "$socket?database=a" get key)" '1 a'
end_server TERM

start_server "$socket" --data "$data" --database c --database b:4M --database a:8M
says 'not served' 0
says "database c: new: there was no log of it in $data" 1
same "all are named" "$(figure unnamed_logs a) $("$okv" -s "$socket?database=b" get key)" '0 b'
end_server TERM

# The environment names databases, too.
OKV_DATABASE='a:8M b:4M' start_server "$socket" --data "$data"
says 'not served' 1
same "a database of the environment" "$(OKV_DATABASE='' "$okv" -s "$socket?database=a" get key)" a
end_server TERM
echo "unnamed_logs: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
