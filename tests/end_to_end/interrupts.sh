#!/usr/bin/env bash
# What okv(1) says when it is interrupted or its import fails, and that the server then sees a client that left.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/interrupts.sh BUILD_DIR

Interrupts the okv of BUILD_DIR in the middle of what takes long, and has imports fail, over shared memory. Exits 1
when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
export OKV_SERVER=$socket
count=20000
mkfifo "$scratch/fifo"

# begin INPUT OUTPUT COMMAND...: runs beside the script, which bash keeps SIGINT from.
begin() {
    local input=$1 output=$2
    shift 2
    env --default-signal=INT "$okv" -t 120s "$@" <"$input" >"$output" 2>"$scratch/err" &
    command=$!
}

# ended: sets `status`, 130 after SIGINT.
ended() {
    status=0
    wait "$command" || status=$?
}

await_items() {
    until [ "$("$okv" -t 120s stat | sed -n 's/^items //p')" -ge "$1" ]; do sleep 0.01; done
}

# said TEXT: on standard error.
said() {
    same "says '$1'" "$(grep -cE "$1" "$scratch/err")" 1
}

imports() {
    begin "$scratch/fifo" "$scratch/out" import
    exec 3>"$scratch/fifo"
    # The last line is not whole: it is no item.
    printf 'a\t1\nb\t2\nc\t3' >&3
    await_items 2
    kill -INT $command
    ended
    exec 3>&-
    same "status of an interrupted import" $status 130
    same "what it did" "$(cat "$scratch/out")" 'imported 2 items'
    said '^okv: import: interrupted after line 2:'
}

# Input that fails in the middle of a line, as that of a terminal which is closed.
half_a_line() {
    local word status
    "$okv" put whole 1
    "$okv" put half 1
    for word in mget del; do
        status=0
        "$python" -c 'import os, pty, subprocess, sys, tty
reader, writer = pty.openpty()
tty.setraw(writer)
command = subprocess.Popen(sys.argv[1:], stdin=reader)
os.write(writer, b"whole\nhalf")
os.close(writer)
sys.exit(command.wait())' "$okv" -t 120s "$word" - >"$scratch/out" 2>"$scratch/err" || status=$?
        same "status of $word with half a line" $status 3
        said 'cannot read.* stdin'
        same "what $word writes of it" "$(grep -c '^half' "$scratch/out")" 0
        same "the key whose name it was" "$("$okv" get half)" 1
    done
}

# All of a connection's requests are under way when the server has no room.
failed_imports() {
    local status=0
    "$okv" -t 120s flush --yes
    seq 200000 | sed "s/.*/&\t$(printf '%500s' '')/" | "$okv" -t 120s import >"$scratch/out" 2>"$scratch/err" || status=$?
    same "status of an import without room" $status 3
    said '^okv: import: stopped at line [0-9]+$'
    same "what it did" "$(sed 's/^imported \([0-9]*\) items$/\1/' "$scratch/out")" \
        "$("$okv" -t 120s stat | sed -n 's/^items //p')"
    "$okv" -t 120s flush --yes
}

# interrupt_listing COMMAND...: its output stands still in a full pipe.
interrupt_listing() {
    begin /dev/null "$scratch/fifo" "$@"
    exec 3<"$scratch/fifo"
    head -c 100 <&3 >"$scratch/listed"
    kill -INT $command
    cat <&3 >>"$scratch/listed"
    exec 3<&-
    ended
    same "status of an interrupted $1" $status 130
    same "whole lines that an interrupted $1 wrote" "$(tail -c 1 "$scratch/listed" | wc -l)" 1
}

exports() {
    seq $count | sed 's/.*/&\tvalue &/' | "$okv" -t 120s import >/dev/null
    same "an export" "$("$okv" -t 120s export 2>&1 >/dev/null)" "exported $count items"
    interrupt_listing scan
    said "^okv: scan: ended after $(wc -l <"$scratch/listed") keys: not all are listed$"
    # shellcheck disable=SC2046 # words
    interrupt_listing mget $(seq $count)
    said "^okv: mget: stopped: $((count - $(wc -l <"$scratch/listed"))) of $count keys were not looked up$"
    interrupt_listing export
    said "^okv: export: ended after $(wc -l <"$scratch/listed") items: not all are written$"
}

repeated() {
    : >"$scratch/out"
    begin /dev/null "$scratch/out" watch 1
    until [ -s "$scratch/out" ]; do sleep 0.01; done
    kill -INT $command
    ended
    same "status of an interrupted watch" $status 130
    : >"$scratch/out"
    begin /dev/null "$scratch/out" top -i 1ms
    until [ -s "$scratch/out" ]; do sleep 0.01; done
    kill -INT $command
    ended
    same "status of an interrupted top" $status 130
}

# Keys that come one after the other.
lookups() {
    local word
    for word in mget del; do
        : >"$scratch/out"
        begin "$scratch/fifo" "$scratch/out" $word -
        exec 3>"$scratch/fifo"
        printf '1\n2\n3' >&3
        if [ $word = mget ]; then
            until [ "$(wc -l <"$scratch/out")" -eq 2 ]; do sleep 0.01; done
        else
            until ! "$okv" -t 120s exists 2; do sleep 0.01; done
        fi
        kill -INT $command
        ended
        exec 3>&-
        same "status of an interrupted $word -" $status 130
        said "^okv: $word: stopped: the keys that follow on standard input were not"
        same "a part of a line is no key of $word" "$("$okv" -t 120s exists 3 && echo there)" there
    done
}

deletes() { "$okv" -t 120s stat | sed -n 's/^deletes //p'; }

# It may end before it is interrupted: then again.
prefixes() {
    local before
    status=0
    while [ $status -eq 0 ]; do
        seq $count | sed 's/.*/begins:&\tx/' | "$okv" -t 120s import >/dev/null
        before=$(deletes)
        begin /dev/null "$scratch/out" del --prefix begins:
        until [ "$(deletes)" -gt "$before" ] || ! kill -0 $command 2>/dev/null; do :; done
        kill -INT $command || true
        ended
    done
    same "status of an interrupted del --prefix" $status 130
    said '^okv: del: stopped: keys that begin so may be left$'
    same "what it did" "$(cat "$scratch/out")" \
        "removed $((count - $("$okv" -t 120s scan --prefix begins: | wc -l))) items"
}

# await_sleep: until the command waits for its input.
await_sleep() {
    until grep -q ') S ' /proc/$command/stat; do sleep 0.01; done
}

# What one command does with SIGINT is none of the next one's, and the shell sees it as well.
scripts() {
    local word
    # After one that writes, whose calls go on: those that read.
    for word in shell 'mget -' import 'del -'; do
        : >"$scratch/out"
        begin "$scratch/fifo" "$scratch/out" shell
        exec 3>"$scratch/fifo"
        printf 'scan --limit 1\n%s\n' "${word#shell}" >&3
        until [ -s "$scratch/out" ]; do sleep 0.01; done
        await_sleep
        kill -INT $command
        ended
        exec 3>&-
        same "status of an interrupted $word in a script" $status 130
    done
}

start_server "$socket"
imports
failed_imports
exports
repeated
lookups
prefixes
scripts
half_a_line
same "clients that the server takes for dead" "$(grep -c GOODBYE "$scratch/log")" 0
echo "interrupts: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
