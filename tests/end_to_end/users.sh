#!/usr/bin/env bash
# Users as an operator sees them: keygen, --user and --key-file, clients, admin.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/users.sh BUILD_DIR

Runs the okv of BUILD_DIR against a server with users. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
users=$scratch/users
failures=0 checks=0

# is WHAT EXPECTED COMMAND...: the command prints and exits so: "STATUS:OUTPUT".
is() {
    local what=$1 expected=$2 status=0 printed
    shift 2
    checks=$((checks + 1))
    printed=$("$@" 2>"$scratch/err") || status=$?
    [ "$status:$printed" = "$expected" ] && return
    failures=$((failures + 1))
    printf 'WRONG %s: %s and not %s\n' "$what" "$status:$printed" "$expected"
    cat "$scratch/err"
}

# as NAME [ARGUMENT...]: okv as this user.
as() {
    local name=$1
    shift
    "$okv" -s "$socket" -t 120s --user "$name" --key-file "$scratch/$name.key" "$@"
}

# says TEXT: what the command before printed on standard error has it.
says() {
    checks=$((checks + 1))
    grep -q -- "$1" "$scratch/err" && return
    failures=$((failures + 1))
    printf 'WRONG: no "%s" in: %s\n' "$1" "$(cat "$scratch/err")"
}

write_users() {
    (umask 077; cat >"$users.new")
    mv "$users.new" "$users"
}

section() {
    printf '[%s]\nkey = %s\n%s\n' "$1" "$(cat "$scratch/$1.key")" "$2"
}

umask 022
for name in root reader nobody; do
    "$okv" keygen "$scratch/$name.key"
done
{ section root 'default = read, write, admin'; section reader 'default = read'; } | write_users
start_server "$socket" --users "$users"

is 'a user puts' '0:' as root put k v
is 'a reader gets' '0:v' as reader get k
is 'a reader does not put' '3:' as reader put k w
says "put 'k': user reader lacks the right write in database default: ask "
is 'a reader does not delete' '3:removed 0 items' as reader del --prefix k
says 'lacks the right write in database default'
is 'a reader does not flush' '3:' as reader flush --yes
says 'lacks the right admin in database default: '
same "what figures of the server are without admin" "$(as reader stat | sed -n 's/^# clients: //p')" 'shown to users with the right admin'
same "refusals without admin" "$(as reader stat | sed -n 's/^# refused: .*, \(.*without a right\)/\1/p' | sed 's/^[0-9]*//')" ' requests without a right'
is 'what a reader sees of the server' '0:[0,null,null,null]' bash -c "$(printf '%q ' "$okv" -s "$socket" --user reader \
    --key-file "$scratch/reader.key" top --json -n 1 -i 1ms) | jq -c '[.puts_per_s, .bytes_in_per_s, .requests_waiting, .cpu_percent]'"
same 'dashes on the screen' "$(as reader top -n 1 -i 1ms | awk 'NR == 2 && $8 == "-" && $18 == "-"' | wc -l)" 1
is 'a reader does not list clients' '3:' as reader clients
says 'lacks the right admin'
is 'a reader does not reload' '3:' as reader admin reload
says 'lacks the right admin'
is 'a user without a right there' '3:' as reader --database other get k
says 'in which the user has a right'
is 'an unknown user' '3:' as nobody get k
says 'knows no such user'
is 'no user' '3:' "$okv" -s "$socket" get k
says '--key-file'
is 'a user without a key file' '2:' "$okv" -s "$socket" --user root get k
says 'okv: --user needs --key-file, or OKV_KEY_FILE$'
is 'a key file without a user' '2:' "$okv" -s "$socket" --key-file "$scratch/root.key" get k
says 'okv: --key-file needs --user, or OKV_USER$'
is 'the doctor of nobody' '1:' bash -c "$(printf '%q ' "$okv" doctor -s "$socket") >'$scratch/doctor'"
same 'its remedy' "$(grep -c -- '-> give --user and --key-file, or set OKV_USER and OKV_KEY_FILE$' "$scratch/doctor")" 1
is 'the environment' '0:v' env OKV_SERVER="$socket" OKV_USER=reader OKV_KEY_FILE="$scratch/reader.key" "$okv" get k
chmod 644 "$scratch/reader.key"
is 'a key file that others may read' '3:' as reader get k
says 'chmod'
chmod 600 "$scratch/reader.key"

# kv-bench: who it is comes from the same options and variables.
runs() { "$@" --records 100000 --operations 100 --warmup 0 >"$scratch/report"; }
is 'a run of a user' '0:' runs "$bench" -s "$socket" --user root --key-file "$scratch/root.key"
is 'a run by the environment' '0:' runs env OKV_SERVER="$socket" OKV_USER=root OKV_KEY_FILE="$scratch/root.key" OKV_DATABASE=default \
    "$bench"
is 'a run in another database' '3:' runs "$bench" -s "$socket" --user root --key-file "$scratch/root.key" --database other
says 'in which the user has a right'
is 'a run without a key file' '2:' runs "$bench" -s "$socket" --user root
says '^kv-bench: --user needs --key-file, or OKV_KEY_FILE$'
is 'a run of nobody' '3:' runs "$bench" -s "$socket"
says '--key-file'
refused=$(as root stat | awk '$1 == "denied" { print $2 }')
is 'a load without the right' '3:' runs "$bench" -s "$socket" --user reader --key-file "$scratch/reader.key"
same 'what it says' "$(cat "$scratch/err")" 'kv-bench: load: user reader lacks the right write in database default'
same 'puts that it tries' $(($(as root stat | awk '$1 == "denied" { print $2 }') - refused <= 32)) 1

# A session that stays: it reads what comes slowly.
mkfifo "$scratch/feed"
as reader mget - <"$scratch/feed" >"$scratch/fed" 2>/dev/null &
fed=$!
exec 9>"$scratch/feed"
until as root clients | grep -q ' reader '; do sleep 0.1; done
is 'the sessions' '0:reader root' bash -c "$(printf '%q ' "$okv" -s "$socket" --user root --key-file "$scratch/root.key" \
    clients --json) | jq -r '[.[].user] | sort | join(\" \")'"
id=$(as root clients | awk '$2 == "reader" { print $1 }')
is 'a reader does not kill' '3:' as reader admin kill "$id"
is 'a session that is not there' '1:' as root admin kill ffffffff
is 'a kill' '0:' as root admin kill "$id"
until as root stat | grep -q '^closed_killed 1$'; do sleep 0.1; done
is 'a word that is no session' '2:' as root admin kill xyz
is 'a word that is no command' '2:' as root admin explode
exec 9>&-
wait $fed || true

{ section root 'default = read, write, admin'; section reader 'default = read, write'; } | write_users
is 'a reload' '0:' as root admin reload
is 'a writer puts' '0:' as reader put k w

# Each tells the outcome, and one reload serves many.
loaded() { as root stat | awk '$1 == "users_loaded" { print $2 }'; }
before=$(loaded) begun=$SECONDS waiting=()
for _ in {1..20}; do
    as root admin reload &
    waiting+=($!)
done
answered=0
for id in "${waiting[@]}"; do
    if wait "$id"; then answered=$((answered + 1)); fi
done
is 'reloads beside one another' '0:' test $answered -eq 20
is 'at most one reload a second' '0:' test $(($(loaded) - before)) -le $((SECONDS - begun + 2))
# A reload that takes the right admin from who asks for it.
{ section root 'default = read'; section reader 'default = read, write, admin'; } | write_users
is 'the last reload of an admin' '0:' as root admin reload
{ section root 'default = read, write, admin'; section reader 'default = read, write'; } | write_users
is 'the other way round' '0:' as reader admin reload
# What is wrong is in the log whole, with file and line.
for mistake in "$(printf '%031d' 0) = read|the server has no database $(printf '%031d' 0): correct the name, or start it with --database" \
    'default = admin|rights without read, which is not possible, because any connected client can read over RDMA: add read, or remove the line'; do
    { section root 'default = read, write, admin'; section reader "${mistake%%|*}"; } | write_users
    is "a reload with the line ${mistake%%|*}" '3:' as root admin reload
    same "its line in the log" "$(grep -cF "users stay as they were: $users:6: ${mistake#*|}" "$scratch/log")" 1
done
{ section root 'default = read, write, admin'; section reader 'default = read, write'; } | write_users
is 'a reload of a right file' '0:' as root admin reload
echo nonsense >>"$users"
is 'a reload of a file with a mistake' '3:' as root admin reload
says 'mistake'
is 'nothing has changed' '0:w' as reader get k
is 'who asks' '0:' as root flush --yes

socket=local://$scratch/two.sock
{ section root $'one = read, write, admin\ntwo = read'; section reader 'one = read, admin'; } | write_users
start_server "$socket" --users "$users" --database one:2M --database two:3M
export OKV_DATABASE=one
figures() {
    as "$1" stat --all | grep -E '(^| )(items|region_bytes|users_loaded) ' | paste -sd,
}
is 'a put into one of two' '0:' as root put k v
one='one items 1,one region_bytes 2097152' two='two items 0,two region_bytes 3145728'
is 'figures of all databases' "0:$one,$two,items 1,region_bytes 5242880,users_loaded 0" figures root
is 'as JSON' '0:[1,0,1,null,0,false]' bash -c "$(printf '%q ' "$okv" -s "$socket" --user root \
    --key-file "$scratch/root.key" stat --all --json) | jq -c '[.databases.one.items, .databases.two.items,
    .total.items, .total.boot_id, .server.users_loaded, (.databases.one | has(\"users_loaded\"))]'"
is 'figures without those of a closed database' "3:$one,items 1,region_bytes 2097152,users_loaded 0" figures reader
is 'who is no admin of the database asked' '3:' env OKV_DATABASE=two "$okv" -s "$socket" --user root \
    --key-file "$scratch/root.key" stat --all
is 'a URI with a database' '2:' "$okv" -s "$socket?database=one" stat --all
unset OKV_DATABASE

# On a terminal keygen says what a users file has to have; in a file or a pipe it says nothing.
on_terminal() {
    python3 -c 'import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)' "$@" </dev/null | tr -d '\r'
}
cd "$scratch"
is 'a key without a terminal' '0:' "$okv" keygen quiet.key
same "what it says then" "$(cat err)" ''
for file in hinted.key 'a name.key' other; do
    on_terminal "$okv" keygen "$file" >"hint of $file"
    same "the hint has the file's name" "$(grep -cF "(the line in $file)" "hint of $file")" 1
    same "the hint has no key" "$(grep -cF "$(cat "$file")" "hint of $file")" 0
done
same "the users that it names" "$(sed -n 's/^  \[\(.*\)]$/\1/p' 'hint of '* | LC_ALL=C sort | paste -sd,)" NAME,NAME,hinted
sed -n "s|(the line in .*)|$(cat hinted.key)|; s/^  //p" 'hint of hinted.key' | write_users
cd "$OLDPWD"
start_server "local://$scratch/hinted.sock" --users "$users"
is 'a user as the hint has it' '0:' "$okv" -s "local://$scratch/hinted.sock" --user hinted --key-file "$scratch/hinted.key" put k v

# The examples of its help, and of the manual, as they are there.
paste() {
    mkdir "$scratch/pasted" && cd "$scratch/pasted"
    PATH=$build/client/cli:$PATH bash -e "$scratch/example" >/dev/null
    cd "$OLDPWD"
    start_server "local://$scratch/pasted.sock" --users "$scratch/pasted/users"
    is "a user of $1" '0:' "$okv" -s "local://$scratch/pasted.sock" --user alice --key-file "$scratch/pasted/alice.key" put k v
    end_server TERM
    rm -r "$scratch/pasted"
}
"$okv" keygen --help | sed -n '/^Examples:/,$s/^  //p' >"$scratch/example"
paste 'the help of keygen'
if command -v groff >/dev/null; then
    groff -man -Tascii -P -cbou -rLL=200n "$(dirname "${BASH_SOURCE[0]}")/../../docs/man/okv.1" |
        sed -n '/^ *okv keygen alice.key/,/^$/s/^ *//p' >"$scratch/example"
    paste 'the manual'
fi

start_server "local://$scratch/open.sock"
is 'a server without users' '3:' "$okv" -s "local://$scratch/open.sock" --user root --key-file "$scratch/root.key" get k
says 'does not know the key'
is 'no file to reload' '3:' "$okv" -s "local://$scratch/open.sock" admin reload
same 'what it says' "$(cat "$scratch/err")" 'okv: admin reload: the server was started without --users'
if try_server "local://$scratch/third.sock" --users "$scratch/missing"; then
    echo "WRONG: a server without its users file runs"
    failures=$((failures + 1))
fi

# Strangers have a line in the log at once, and then one a minute, or at the end; a Redis client with its user.
strangers=$socket
socket=$socket.strangers
section reader 'default = read' | write_users
start_resp_server --users "$users"
is 'a stranger' '3:' as nobody -t 1s ping
is 'the key of another' '3:' "$okv" -s "$socket" -t 1s --user reader --key-file "$scratch/nobody.key" ping
is 'who names no user' '3:' "$okv" -s "$socket" -t 1s ping
exec 3<>"/dev/tcp/127.0.0.1/$port"
printf 'AUTH reader wrong\r\n' >&3
read -r answer <&3
exec 3>&-
same "the answer to a wrong password" "${answer:0:10}" -WRONGPASS
same "lines on strangers" "$(grep -c ': refused: ' "$scratch/log")" 1
end_server TERM
why='refused: the server knows no such user with this key: '
same "the line on the first" "$(grep -cE "pid [0-9]+ uid [0-9]+: $why" "$scratch/log")" 1
same "lines on strangers at the end" \
    "$(grep -cE "[3-9] more clients were refused; the last was 127.0.0.1:[0-9]+ \(user reader\): ${why%key: }password: .okv keygen --password KEYFILE" \
    "$scratch/log")" 1
socket=$strangers

# Who puts a socket where anybody may could pass on what client and server say.
if [ "$(id -u)" -eq 0 ]; then
    squat=/tmp/okv-squat.$$.sock clean=/run/okv-test.$$ closed=/tmp/okv-closed.$$
    install -d -o nobody "$clean" "$closed"
    trap 'rm -rf "$squat" "$squat.lock" "$clean" "$closed"; programs_end' EXIT
    run_as=(setpriv --reuid nobody --clear-groups)
    serve() {
        : >"$scratch/ready"
        "${run_as[@]}" --pdeathsig KILL "$server" --listen "$1" --memory 16M >"$scratch/ready" 2>"$scratch/log" &
        servers+=($!)
        until grep -q '^ready ' "$scratch/ready"; do sleep 0.1; done
    }
    serve "local://$squat"
    is 'a server of another user in /tmp' '3:' "$okv" -s "local://$squat" get k
    says 'another user'
    ln -s "$squat" "$clean/link.sock"
    is 'the same by a link elsewhere' '3:' "$okv" -s "local://$clean/link.sock" get k
    says '/tmp is open to all'
    is 'the same for its own user' '1:' "${run_as[@]}" "$okv" -s "local://$squat" get k
    start_server "local://$clean/root.sock"
    chmod 777 "$clean/root.sock"
    is 'who may connect by the permissions alone' '3:' "${run_as[@]}" "$okv" -s "local://$clean/root.sock" get k
    says "local://$clean/root.sock: .*its own user and root alone.*uids=any.*rdma://"
    is 'the same with the URI of a server that lets all in' '2:' "${run_as[@]}" "$okv" \
        -s "local://$clean/root.sock?uids=any" get k
    says 'uids is for the --listen'
    is 'its server counts it' "0:1" bash -c \
        "'$okv' -s 'local://$clean/root.sock' stat | sed -n 's/^rejected_uid *//p'"
    start_server "local://$clean/all.sock?uids=any&mode=0777"
    is 'another user of a server that lets all in' '1:' "${run_as[@]}" "$okv" -s "local://$clean/all.sock" get k
    start_server "local://$clean/group.sock?uids=any&mode=0660"
    is 'another user, not of the group' '3:' setpriv --reuid nobody --regid nogroup --clear-groups "$okv" \
        -s "local://$clean/group.sock" get k
    says "no permission to connect to local://$clean/group.sock: .*group.*mode=0660"
    is 'another user, of the group' '1:' setpriv --reuid nobody --regid nogroup --groups "$(id -g)" "$okv" \
        -s "local://$clean/group.sock" get k
    serve "local://$clean/okv.sock"
    chmod 777 "$clean/okv.sock"
    is 'another user that is not root either' '3:' setpriv --reuid daemon --clear-groups "$okv" \
        -s "local://$clean/okv.sock" get k
    says 'its own user and root alone'
    is 'one in a directory of its own' '1:' "$okv" -s "local://$clean/okv.sock" get k
    ln -s "$clean" "$clean/self"
    is 'the same by a link' '1:' "$okv" -s "local://$clean/self/okv.sock" get k
    serve "local://$closed/okv.sock"
    ln -s "$closed" "$clean/link"
    is 'one in /tmp by a link elsewhere' '3:' "$okv" -s "local://$clean/link/okv.sock" get k
    says '/tmp is open to all'
else
    echo 'users: sockets of other users are not tried: only root can make them'
fi
echo "users: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
