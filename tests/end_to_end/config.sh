#!/usr/bin/env bash
# Options from a file, the environment and the command line; --print-config; SIGUSR1.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/config.sh BUILD_DIR

Has the okv-server of BUILD_DIR print its configuration from several sources, right and wrong ones, and serve with a
file. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"

failures=0 file=$scratch/okv.conf

wrong() {
    failures=1
    echo "WRONG: $*"
}

# prints LINE [OPTION...]: --print-config has this line.
prints() {
    "$build/server/okv-server" --print-config "${@:2}" >"$scratch/printed" 2>&1 || wrong "${*:2}: exit status $?"
    grep -qxF -- "$1" "$scratch/printed" || wrong "${*:2}: '$1' is not in: $(cat "$scratch/printed")"
}

# refuses TEXT LINES [NUMBER]: a file with these lines ends the server with 2, and this sentence of line NUMBER (2).
refuses() {
    printf '# a comment\n%s\n' "$2" >"$file"
    local status=0
    "$build/server/okv-server" --config "$file" --print-config >"$scratch/printed" 2>&1 || status=$?
    [ $status -eq 2 ] || wrong "$2: exit status $status"
    grep -qF -- "okv-server: $file:${3:-2}: $1" "$scratch/printed" || wrong "$2: says $(cat "$scratch/printed")"
}

cat >"$file" <<TEXT
memory = 8M
listen = local://$scratch/a
listen = local://$scratch/b
workers = 3 ; a comment
prefault = yes
max-clients = 7
TEXT
prints "memory = 8M" --config "$file"
prints "# from $file:1" --config "$file"
prints "listen = local://$scratch/a" --config "$file"
prints "listen = local://$scratch/b" --config "$file"
prints "workers = 3" --config "$file"
prints "prefault = yes" --config "$file"
prints "; credits = 16" --config "$file"
prints "; memory = 256M"
export OKV_MEMORY=16M OKV_LISTEN="local://$scratch/c local://$scratch/d" OKV_PREFAULT=no OKV_CONFIG=$file
prints "memory = 16M"
prints "# from OKV_MEMORY"
prints "listen = local://$scratch/c"
prints "listen = local://$scratch/d"
prints "prefault = no"
prints "max-clients = 7"
! grep -q "$scratch/a" "$scratch/printed" || wrong "the file's --listen counts beside that of the environment"
prints "memory = 32M" --memory 32M
prints "# from the command line" --memory 32M
"$build/server/okv-server" --memory 32M --print-config >"$scratch/again"
unset OKV_MEMORY OKV_LISTEN OKV_PREFAULT OKV_CONFIG
"$build/server/okv-server" --config "$scratch/again" --print-config >"$scratch/printed"
diff <(grep -v '^# from' "$scratch/again") <(grep -v '^# from' "$scratch/printed") ||
    wrong "what is printed is not what a file of it gives"

# The options of a cluster, from each source; a server of none has none of them.
cat >"$file" <<TEXT
open = yes
cluster = east
etcd = http://127.0.0.1:2379,https://10.0.0.1:2379
advertise = tcp://10.0.0.1
advertise = resp://10.0.0.1
TEXT
prints "cluster = east" --config "$file"
prints "advertise = tcp://10.0.0.1" --config "$file"
prints "advertise = resp://10.0.0.1" --config "$file"
prints "; peer-user =" --config "$file"
prints "cluster = west" --config "$file" --cluster west
OKV_ADVERTISE='rdma://10.0.0.1 tcps://10.0.0.1' prints "advertise = tcps://10.0.0.1" --config "$file"
! grep -q 'resp://' "$scratch/printed" || wrong "the file's --advertise counts beside that of the environment"
refuses "--cluster a/b: give 1 to 31 letters" "cluster = a/b"
refuses "--etcd 10.0.0.1: '10.0.0.1' is not the address of a member of etcd" "etcd = 10.0.0.1"
refuses "--advertise tcp://*: name one address" "advertise = tcp://*"
refuses "no line for a file; okv-server --print-config lists those that are: shards" "shards = 2"

refuses "--memory 12Q: give a size" "memory = 12Q"
refuses "--workers 3 # three: " "workers = 3 # three"
grep -q "; a comment after a value begins with ' ;', and not with # or ;\$" "$scratch/printed" || wrong "nothing of comments"
for rest in '' $'\nworkers = 3\n' 'more'; do
    printf '# a comment\nmemory = 8M\0%s' "$rest" >"$file"
    ! "$build/server/okv-server" --config "$file" --print-config >"$scratch/printed" 2>&1 || wrong "a NUL is taken"
    grep -qF "okv-server: $file:2: it has a NUL: it is no text" "$scratch/printed" || wrong "a NUL: says $(cat "$scratch/printed")"
done
refuses "--credits 0: give a number from 1" "credits = 0"
prints "drain-ms = 9m" --drain-ms 9m
prints "idle-s = 8000h" --idle-s 8000h # a year has 8760
refuses "--idle-s 1500ms: give a number from 0 to 31536000, or a time such as 5s" "idle-s = 1500ms"
refuses "--drain-ms 11m: give a number from 0 to 600000, or a time such as 5s" "drain-ms = 11m"
refuses "--credits 5s: give a number from 1 to 1024" "credits = 5s"
for twice in "local://$scratch/a local://$scratch/a?uids=any" 'rdma://* rdma://*:7471' 'resp://[::1] resps://[::1]:6379' \
    "local://$scratch/a resp://$scratch/a"; do
    refuses "--listen ${twice#* }: another --listen has the same place" "listen = ${twice% *}"$'\n'"listen = ${twice#* }"$'\nopen = yes' 3
done
prints "listen = rdma://*?device=a&gid=4" --open --listen 'rdma://*?device=a&gid=3' --listen 'rdma://*?device=a&gid=4'
prints "listen = ofi://127.0.0.1:7472" --listen ofi://127.0.0.1 --listen ofi://127.0.0.1:7472
refuses "--wipe maybe: give yes or no" "wipe = maybe"
for where in nonsense 127.0.0.1 ::1:9469 9469 127.0.0.1:99999; do
    refuses "--metrics $where: give HOST:PORT" "metrics = $where"
done
refuses '--metrics :9469: there is no host in front of the port: give 127.0.0.1:9469' 'metrics = :9469'
prints "metrics = [::1]:0" --metrics '[::1]:0'
refuses "memry: do you mean memory?" "memry = 8M"
# Whole: what comes after the name, too, and the option that the mistake is in.
refuses "--database a:1: SIZE 1: give a size from 1 MiB to 128 TiB" $'database = b:8M\ndatabase = a:1' 3
refuses "--database a:16M,sync=rubbish: give always, never" "database = a:16M,sync=rubbish"
refuses "--database a:16M,size=2: there are the options sync=MODE and full=MODE: not 'size=2'" "database = a:16M,size=2"
refuses "--database a:16M,full=2: give refuse, evict or evict-expiring" "database = a:16M,full=2"
refuses "--database a:4M,sync=1s: there is one called a already" $'database = a:16M\ndatabase = a:4M,sync=1s' 3
refuses "--database a b:16M: a name has 1 to 31" "database = a b:16M"
refuses "--max-value 8 MiB: the database b, of 16 MiB," $'max-value = 8M\ndatabase = b:16M' 3
refuses "the line is too long: make it shorter: database = xxx" "database = $(printf '%0300d' 0 | tr 0 x):16M"
printf '# %0300d\nmemory = 8M\n' 0 >"$file"
prints "memory = 8M" --config "$file"
refuses "no line for a file" "print-config = yes"
refuses "no line for a file" "check = /tmp"
refuses "not NAME = VALUE" "memory"
refuses "there are no sections here" $'[server]\nmemory = 8M' 3
status=0
OKV_CREDITS=x "$build/server/okv-server" --print-config >"$scratch/printed" 2>&1 || status=$?
[ $status -eq 2 ] || wrong "OKV_CREDITS=x: exit status $status"
grep -q '^okv-server: OKV_CREDITS: --credits x' "$scratch/printed" || wrong "OKV_CREDITS=x: no cause"
status=0
"$build/server/okv-server" --config "$scratch/none" >"$scratch/printed" 2>&1 || status=$?
[ $status -eq 2 ] || wrong "a file that is not there: exit status $status"
grep -q 'none cannot be opened: No such file' "$scratch/printed" || wrong "a file that is not there: no cause"

for option in --print-config --open; do
    status=0
    truncate -s 1G "$scratch/long"
    "$build/server/okv-server" --config "$scratch/long" $option >"$scratch/printed" 2>&1 || status=$?
    [ $status -eq 2 ] || wrong "a file of 1 GiB and $option: exit status $status"
    grep -q -- '--config: .*long has more than 1048576 bytes' "$scratch/printed" || wrong "a file of 1 GiB: no cause"
done

printf 'memory = 8M\nmax-clients = 5\n' >"$file"
start_server "$socket" --config "$file"
"$okv" -s "$socket" put key value
[ "$("$okv" -s "$socket" stat | awk '$1 == "max_clients" { print $2 }')" = 5 ] || wrong "it serves without its file"
kill -USR1 "${servers[-1]}"
for ((i = 0; i < 200; i++)); do
    ! grep -q 'status: database default: 1 items' "$scratch/log" || break
    sleep 0.05
done
[ $i -lt 200 ] || wrong "SIGUSR1 writes no line: $(cat "$scratch/log")"
kill -0 "${servers[-1]}" || wrong "SIGUSR1 ended it"
end_server TERM

# A log that is opened for appending and is truncated, as logrotate does.
: >"$scratch/ready" # has the line of the server before
setpriv --pdeathsig KILL env -u OKV_LOG_FORMAT "$build/server/okv-server" --listen "$socket" --memory 8M >"$scratch/ready" 2>>"$scratch/appended" &
servers+=($!)
until grep -q '^ready ' "$scratch/ready"; do sleep 0.05; done
grep -q '^ts=[^ ]* level=notice part=server msg="version ' "$scratch/appended" || wrong "its log is no logfmt"
: >"$scratch/appended"
kill -USR1 "${servers[-1]}"
until grep -q 'status: database default' "$scratch/appended"; do sleep 0.05; done
[ "$(head -c 3 "$scratch/appended")" = ts= ] || wrong "a truncated log begins with something else"
end_server TERM

start_server "$socket" --log-format json
"$okv" -s "$socket" put key value
end_server TERM
jq -es 'map(select(.level == "warning" and .part == "database" and (.msg | test("1 items are gone")))) | length == 1' \
    "$scratch/log" >/dev/null || wrong "its lines are no JSON, or lack one: $(cat "$scratch/log")"
status=0
"$build/server/okv-server" --log-format xml --print-config >"$scratch/printed" 2>&1 || status=$?
[ $status -eq 2 ] || wrong "a format that there is not: exit status $status"
grep -q 'give auto, text, logfmt or json' "$scratch/printed" || wrong "a format that there is not: $(cat "$scratch/printed")"
exit $failures
