#!/usr/bin/env bash
# Redis' own test suite against okv-server, as far as okv has the commands.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/resp/redis_suite.sh BUILD_DIR [UNIT...]

Runs units of the suite, or those named, against the okv-server of BUILD_DIR. The suite is that of Debian's source
package of Redis, which is fetched to BUILD_DIR/redis-suite the first time.

Tests that tests/resp/skip names do not run; then they run by themselves, and one that passes is reported. Exit
status: 0 all others pass, 1 one does not, 77 the suite cannot be fetched.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
shift
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
kept=$build/redis-suite
units=("$@")
# Not unit/maxmemory, which sets limit and policy of a server that runs: tests/unit/resp_evict_test.c.
[ $# -gt 0 ] || units=(unit/type/string unit/type/incr unit/bitops unit/bitfield unit/expire unit/keyspace unit/scan
    unit/multi unit/protocol unit/quit unit/introspection unit/scripting)

# cannot WHY: without the suite there is nothing to test.
cannot() {
    echo "redis_suite: $1"
    [ ! -s "$scratch/fetch" ] || tail -n 3 "$scratch/fetch"
    [ -z "${OKV_TEST_REQUIRE_TOOLS:-}" ] || exit 1
    echo "redis_suite: skipped"
    exit 77
}

# With lists of its own: the machine's may have no sources, and stay as they are. apt checks what comes.
fetch() {
    local keys=/usr/share/keyrings/debian-archive-keyring.gpg suite
    local apt=(apt-get -q -o "Dir::Etc::sourcelist=$kept/sources.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$kept/lists" -o "Dir::Cache=$kept/cache")
    command -v apt-get >/dev/null || cannot "the suite is fetched by apt-get, which is not there"
    [ -e "$keys" ] || cannot "there is no $keys: tests/support/packages.sh peers"
    mkdir -p "$kept/lists/partial" "$kept/cache/archives/partial"
    for suite in debian/bookworm debian-security/bookworm-security; do
        echo "deb-src [signed-by=$keys] http://deb.debian.org/${suite%/*} ${suite#*/} main"
    done >"$kept/sources.list"
    { "${apt[@]}" update && cd "$kept" && "${apt[@]}" source --download-only redis; } >"$scratch/fetch" 2>&1 ||
        cannot "the source package of Redis could not be fetched"
    rm -rf "$kept/unpacked"
    mkdir "$kept/unpacked"
    tar -xzf "$kept"/redis_*.orig.tar.gz -C "$kept/unpacked" --strip-components 1
    # Each unit begins with this command, which okv does not have.
    sed -i 's/^\( *\)r function flush$/\1catch {r function flush}/' "$kept/unpacked/tests/support/server.tcl"
    # The test before it empties the database, and needs streams.
    sed -i 's/^ *test {MOVE basic usage} {$/    r flushdb\n&/' "$kept/unpacked/tests/unit/keyspace.tcl"
    # Its tests run for FUNCTION, too; one has the name of two others; and what okv does not have fails.
    sed -i -e 's/^foreach is_eval {0 1} {$/foreach is_eval {1} {/' \
        -e "/redis.call('get','a','b','c')/,/(1)} {/s/(1)} {/(types)} {/" \
        -e "s/^ *\\(r config resetstat\\|r config set lua-time-limit .*\\|run_script {.*'select','9')} 0\\)$/catch {&}/" \
        "$kept/unpacked/tests/unit/scripting.tcl"
    mv "$kept/unpacked" "$kept/suite"
    rm -rf "$kept/lists" "$kept/cache"
}

# run_suite OUT UNIT OPTION...: without Redis' own DEBUG, CONFIG SET of memory, replicas and 100 MiB values.
run_suite() {
    local out=$1 unit=$2
    shift 2
    (cd "$kept/suite" && tclsh8.6 tests/test_helper.tcl --host 127.0.0.1 --port "$port" --durable --single "$unit" \
        --tags "-needs:debug -needs:config-maxmemory -needs:repl -needs:reset -large-memory" "$@") 2>&1 |
        sed 's/\x1b\[[0-9;]*m//g' >"$out" || true
}

# names OUT STATE: of tests that ended so.
names() {
    sed -nE "s/^\[$2\]: (.*)/\1/p" "$1" | sed -E 's/ \([0-9]+ ms\)$//; s, in tests/unit/[a-z/-]+\.tcl$,,'
}

# count OUT STATE
count() {
    names "$@" | wc -l
}

# left_out OUT REASON: how many of those that were skipped.
left_out() {
    names "$1" skip | sort | comm -12 - <(reason "$2") | wc -l
}

# reason WORD: the tests that tests/resp/skip names for it.
reason() {
    sed -nE "s/^$1: //p" "$here/skip" | sort
}

# What the list skips, and what passes nevertheless.
probe_skipped() {
    local unit=$1 name only=()
    while IFS= read -r name; do
        only+=(--only "$name")
    done < <(names "$scratch/out" skip)
    [ ${#only[@]} -gt 0 ] || return 0
    run_suite "$scratch/probe" "$unit" --timeout 20 "${only[@]}"
    names "$scratch/probe" ok | sed 's/^/  passes, and tests\/resp\/skip names it: /'
}

run_unit() {
    local unit=$1 ok err types other
    run_suite "$scratch/out" "$unit" --timeout 300 --skipfile "$scratch/skipfile"
    ok=$(count "$scratch/out" ok) err=$(count "$scratch/out" err)
    types=$(left_out "$scratch/out" types) other=$(left_out "$scratch/out" '(commands|settings|encoding|scripts|time)')
    printf '%-20s %3d passed, %d failed; left out: %d of other types, %d\n' "$unit" "$ok" "$err" "$types" "$other"
    if [ "$err" -gt 0 ] || ! grep -q '^\[.* done\]: ' "$scratch/out"; then
        failures=$((failures + 1))
        sed -n '/^\[\(err\|exception\|TIMEOUT\)\]/,/^\[\(ok\|skip\|ignore\)\]/p' "$scratch/out" | sed -n 1,60p
    fi
    probe_skipped "$unit"
    case $unit in
        unit/type/string | unit/type/incr | unit/bitops | unit/bitfield | unit/expire | unit/keyspace | unit/scan)
            passed=$((passed + ok)) all=$((all + ok + err + other)) ;;
    esac
}

command -v tclsh8.6 >/dev/null || cannot "there is no tclsh8.6: tests/support/packages.sh peers"
[ -d "$kept/suite" ] || fetch
reason '[a-z]+' >"$scratch/skipfile"
databases=()
for i in {0..15}; do databases+=(--database "d$i:64M"); done
# The suite sets 10,001 keys at once.
start_resp_server --alone-ms 1000 "${databases[@]}"
passed=0 all=0
for unit in "${units[@]}"; do run_unit "$unit"; done
[ $all -eq 0 ] || echo "of $all tests of strings, keys and expiry $passed pass ($((100 * passed / all)) %)"
[ $((100 * passed)) -ge $((90 * all)) ] || failures=$((failures + 1))
[ $failures -eq 0 ]
