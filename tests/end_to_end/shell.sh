#!/usr/bin/env bash
# okv shell at work: scripts, and a terminal.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/shell.sh BUILD_DIR

Gives scripts and a terminal to the okv shell of BUILD_DIR, over shared memory. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$here/../support/programs.sh"
export OKV_SERVER=$socket

# script STATUS OUTPUT [OPTION...]: a shell with standard input ends so and prints this.
script() {
    local status=0 printed expected=$1 output=$2
    shift 2
    printed=$("$okv" -t 120s shell "$@" 2>"$scratch/err") || status=$?
    same "the status of a script" $status "$expected"
    same "what a script prints" "$printed" "$output"
}

# says TEXT: on standard error, once.
says() {
    same "says '$1'" "$(grep -c -- "$1" "$scratch/err")" 1
}

words() {
    # shellcheck disable=SC1003,SC2016 # as they are
    script 0 "$(printf '%s\t%s\n' a 'x  y' 'b c' 'd"e' "f'" '\\g' h '' 'two\nlines' 1)" <<'TEXT'
# a comment
put a 'x  y'

  put "b c" d\"e
put 'f'\' '\g'
put h ""
put 'two
lines' 1
okv mget a 'b c' f\' h "two
lines"
TEXT
    script 2 '' <<<"put a 'open"
    says '^okv: shell: line 1: a quote or a backslash'
    # shellcheck disable=SC1003 # as it is
    script 2 '' < <(printf '%s' 'put a \')
    says '^okv: shell: line 1: a quote or a backslash'
    script 2 1 <<<$'put line 1\nget line\nput line \'2\nget line'
    says '^okv: shell: line 3: a quote or a backslash'
    # Lines that end as on other systems.
    script 0 $'1\nx\ny' < <(printf 'put line 1\r\nget line\r\nput line "x\r\ny"\r\nget line')
    script 2 '' < <(printf 'put line 2\nput line \0b\nput line 3\n')
    says '^okv: shell: line 2: .*NUL'
    says '^okv: shell: stopped at line 2; -k'
    script 2 3 -k < <(printf 'put line \0b\nput line 3\nget line\n')
    # What may be a value is no command.
    script 2 '' -k < <(printf 'put line "\n\0\nflush --yes\n')
    script 0 3 <<<'get line'
    script 3 '' </
    says '^okv: shell: cannot read stdin: Is a directory$'
}

commands() {
    script 0 "$(printf '3\n5')" <<<$'incr n 3\nincr n 2'
    script 1 there <<<$'put k there\nget nobody\nget k\nput k other --if-absent'
    # Usage errors and help end their command alone.
    script 2 "$("$okv" put --help)" -k <<<$'put\nput a b c\nincr k x\ndel\nexists --limit 1\nput --help'
    same "the lines of usage errors" "$(grep -c '^okv [a-z]*: ' "$scratch/err")" 5
    script 2 "$("$okv" put --help)" <<<$'help put\nput\nget k'
    says '^okv: shell: stopped at line 2'
    script 2 '' <<<$'gett k'
    says "no such command: do you mean .get'"
    script 2 '' <<<'quot'
    says "do you mean .quit'"
    script 2 '' <<<'help gett'
    says "do you mean .help get'"
    script 2 '' <<<'help nope'
    says "see .help' for the list"
    script 2 '' <<<shell
    says 'this is one already'
    script 0 "$("$okv" shell --help)" <<<'help shell'
    script 2 '' <<<'exit 3'
    says "^okv: exit: unexpected argument '3'"
    script 3 '' <<<$'incr k\nput k changed'
    script 0 there <<<$'get k\nexit\nput k changed'
    script 0 there <<<$'get k\nokv quit\nput k changed'
    script 0 "$("$okv" shell <<<$'help\nhelp\nhelp\nhelp')" <<<$'--help\nokv --help\nhelp exit\nquit -h'
    script 0 $'{"key":"ex","ttl_ms":null}\n-5\nex\t-5' <<<$'put ex -5\nttl ex --json\nget ex\nexport --prefix ex'
    script 2 '' <<<'put ex -x'
    says 'put -- before an argument that begins with a dash'
    script 1 none <<<$'ttl ex\nttl nobody\ndel ex'
    # Values, each a line; in a file as they are.
    script 0 "$(printf 'one\ntwo\nthree\n\nt')" \
        <<<$'put a one\nput b "two\n"\nput c ""\nget a\nget b\nput a three\nget a\nget c\nget b --length 1\nget a -o '"$scratch/value"
    same "a value in a file" "$(wc -c <"$scratch/value")" 5
    same "help" "$("$okv" shell <<<help | sed -n '1p; s/^  put .*/put/p; s/^help .*/help/p' | xargs)" 'Commands: put help'
}

# What a command reads is the rest of the script.
input() {
    script 0 'imported 2 items' <<<$'import\nget k\tv\nflush --yes\tv'
    script 0 "$(printf 'k\tthere')" <<<$'mget k\nput k -\nflush --yes'
    same "its value" "$("$okv" get k)" 'flush --yes'
    script 0 '' <<<$'put k -f -\nflush --yes'
    same "its value" "$("$okv" get k)" 'flush --yes'
    # A file leaves the script alone.
    printf 'f\t1\n' >"$scratch/lines"
    script 0 $'imported 1 item\nf\t1\n-5' <<<"import $scratch/lines"$'\nput k -f '"$scratch/lines"$'\nget k\nput t -5\nget t'
    script 3 kept -k <<<"import $scratch/no/such"$'\nput k -f '"$scratch/no/such"$'\nput k kept\nget k'
    "$okv" del f t
    script 3 'imported 1 item' -k <<<$'import\nno tab\nz\t1\nflush --yes'
    same "what it left" "$("$okv" get z)" 1
    # Also of one that fails before it reads.
    local line
    for line in 'import --depth none' 'put k - --none' 'append -t x k -' 'del - --none' 'mget - -0x' '-t 5x import' \
        'import --tiemout 5s' 'put k - --databse x' imprt 'set k - x' 'put k --file=- x' 'put k -f- x'; do
        script 2 '' -k <<<"$line"$'\nflush\t--yes'
        says 'stopped at line 1: what follows was for the command'
    done
    # Others leave the script alone.
    for line in frobnicate 'frobnicate -' 'import one two' 'import one --none' 'imprt one' 'get a -' 'put a b c' 'gett a'; do
        script 2 "$("$okv" get z)" -k <<<"$line"$'\nget z'
        script 2 '' <<<"$line"$'\nget z'
        says '^okv: shell: stopped at line 1; -k goes on after a failure$'
    done
    for line in import 'import -' 'put k -' 'put k -f -' 'put k --file=-' 'append k -' 'del -' 'mget -'; do
        script 3 '' -k <<<"-s local://$scratch/nobody $line"$'\nflush\t--yes'
    done
    # A key of this name is none of that.
    script 0 1 <<<$'put -- - 1\nget -- -'
    same "what they left" "$("$okv" get z)" 1
    # One that stops leaves lines behind, which are no commands.
    { echo import; seq 40000 | sed "s/.*/&\t$(printf '%500s' '')/"; echo 'flush --yes'; } >"$scratch/items"
    "$okv" -t 120s --database other shell -k <"$scratch/items" >"$scratch/out" 2>"$scratch/err" || true
    says '^okv: import: stopped at line'
    same "the items that it left" "imported $("$okv" --database other scan | wc -l) items" "$(cat "$scratch/out")"
    "$okv" --database other flush --yes
}

# One connection for all, but for a command that wants another.
connection() {
    local before after
    before=$("$okv" stat | sed -n 's/^sessions_total //p')
    script 0 '' <<<$'put a 1\nput a 2\nput a 3\ntouch a none\ntouch a -t 100s none'
    after=$("$okv" stat | sed -n 's/^sessions_total //p')
    same "the connections of a shell" $((after - before)) 3
    script 0 '' <<<$'get -t 100s a -o /dev/null\nget --counters a -o /dev/null\nget a --counters -o /dev/null'
    same "the gets that each command counts" "$(grep '^gets ' "$scratch/err" | xargs)" 'gets 1 gets 1'
    # Options before the command.
    script 0 "$("$okv" --database other scan)" <<<$'--database other scan\n-t 100s get a -o /dev/null'
    script 2 '' <<<'-t 100x get a'
    script 0 '' <<<$'--counters get a -o /dev/null\nget a -o /dev/null'
    same "the gets that are counted" "$(grep '^gets ' "$scratch/err")" 'gets 1'
    script 3 '' <<<"-s local://$scratch/nobody get a"
    script 0 "$("$okv" --database other scan)" --database other <<<scan
    script 3 '' --database none <<<scan
    # Deeper than the connection that all share.
    script 3 "$(printf 'imported 0 items')" -k <<<$'put a 4\nimport --depth 1000\nno tab'
}

# full COMMAND...: ends with 3 and a sentence when its output has no room.
full() {
    local status=0
    "$@" >/dev/full 2>"$scratch/err" || status=$?
    same "the status of $* without room" $status 3
    says 'cannot write the output: No space left'
}

# The limit on the length of files, of a KiB, ends no command by a signal.
beyond_the_limit() {
    local status=0
    head -c 4000 /dev/zero | tr '\0' x | "$okv" put long -
    (ulimit -f 1 && exec "$okv" export) 2>&1 >"$scratch/out" | cat >"$scratch/err" || status=$?
    same "the status beyond the limit on files" $status 3
    says 'cannot write the output: File too large'
    says 'export: ended after [0-9]* items: not all are written'
    "$okv" del long
}

# until_or_end PROCESS CONDITION...: until it holds, or the process has ended.
until_or_end() {
    local process=$1
    shift
    until "$@" || ! kill -0 "$process" 2>/dev/null; do sleep 0.01; done
}

# A server that dies, and another in its place.
lost() {
    local shell
    mkfifo "$scratch/fifo"
    : >"$scratch/counts"
    "$okv" -t 5s shell -k <"$scratch/fifo" >"$scratch/counts" 2>"$scratch/err" &
    shell=$!
    exec 3>"$scratch/fifo"
    printf 'incr lost\n' >&3
    until_or_end $shell test -s "$scratch/counts"
    end_server KILL
    printf 'incr lost\n' >&3
    until_or_end $shell grep -q '^okv: incr .lost.: ' "$scratch/err"
    start_server "$socket" 3>&-
    # It connects when it gets to it.
    while [ "$(wc -l <"$scratch/counts")" -lt 2 ] && kill -0 $shell 2>/dev/null; do
        printf 'incr lost\n' >&3
        sleep 0.1
    done
    exec 3>&-
    wait $shell || true
    same "a shell after its server died" "$(head -n 2 "$scratch/counts" | xargs)" '1 1'
}

start_server "$socket" --database default:64M --database other:4M
words
commands
input
connection
full "$okv" put --help
full "$okv" --help
full "$okv" shell <<<help
full "$okv" shell <<<'put --help'
beyond_the_limit
checks=$((checks + 1))
python3 "$here/shell_terminal.py" "$okv" "$scratch" "${servers[-1]}" || failures=$((failures + 1))
lost
echo "shell: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
