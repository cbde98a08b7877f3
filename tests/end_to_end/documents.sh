#!/usr/bin/env bash
# The commands of README.md and docs/*.md do what these pages say.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/documents.sh BUILD_DIR [PAGE]...

Runs the commands of README.md and docs/*.md, or of each PAGE, with the programs of BUILD_DIR, a section in one shell on a
terminal. Exits 1 when one fails or prints something else than the page says.

  ```sh                     is run. Behind a line that starts a server in the background it waits until that is ready
  ```sh needs=rdma          is run over ofi://, which stands in for a device, where the build has that
  ```sh needs=ofi           is run where the build has that, as with needs=tcps
  ```sh needs=redis         is run beside a redis-server with an item, and moves that item to port 6380
  ```sh needs=host          its lines that begin with okv are run, with a server's URI for URI
  ```sh needs=two_releases  is run with this build for both, and moves an item
  ```sh needs=WHAT          is left out; tests/check_documents looks at its options
  ```python                 is run where Python has the package redis; needs=redis as above
  ```output                 is what the block before it prints

10.0.0.1 and 127.0.0.1 are a loopback address of the test's own, files outside of the working directory lie in a
directory of the test's, OKV_SERVER names the socket of a server without --listen, kv-bench measures for a moment, and
okv top prints one line. At the end it lists the blocks that were left out, and why.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
shift
pages=("$@")
[ $# -gt 0 ] || pages=("$root"/README.md "$root"/docs/*.md)
address=127.$((1 + $$ / 65536 % 254)).$(($$ / 256 % 256)).$((1 + $$ % 254))
over_ofi=1 over_tcps=1 has_redis=1 has_redis_server=1 failures=0 blocks=0
"$server" --version | grep -q '^transports:.*ofi' || over_ofi=
"$server" --version | grep -q '^transports:.*tcps' || over_tcps=
command -v redis-server redis-cli >/dev/null || has_redis_server=
"$python" -c 'import redis' 2>/dev/null || has_redis=
mkdir "$scratch/bin"
ln -s "$okv" "$scratch/bin"
# What it says is none of the output of a block. $! is its process, which ends with the shell of the page.
cat >"$scratch/bin/okv-server" <<SCRIPT
#!/bin/sh
case "\$*" in
    *--print-config* | *--check* | *--salvage*) exec "$server" "\$@" ;;
esac
exec setpriv --pdeathsig KILL "$server" "\$@" >"$scratch/server.\$\$" 2>&1
SCRIPT
cat >"$scratch/bin/kv-bench" <<SCRIPT
#!/bin/sh
case "\$*" in
    *--replay* | *--make-trace*) exec "$bench" "\$@" ;; # they end by themselves
esac
"$bench" "\$@" --records 1K --operations 1K --rounds 1 --warmup 0 2>"$scratch/progress" && exit
cat "$scratch/progress"
exit 1
SCRIPT
chmod +x "$scratch/bin/"*

# For the sections' shells.
cat >"$scratch/functions" <<SCRIPT
await_server() {
    until grep -q '^ready ' "$scratch/server.\$1" 2>/dev/null; do
        sleep 0.05
        kill -0 "\$1" || { cat "$scratch/server.\$1"; return 1; }
    done
}
begin_redis() {
    setpriv --pdeathsig KILL redis-server --bind 127.0.0.1 --save '' >"$scratch/redis" 2>&1 &
    redis=\$!
    until redis-cli -h 127.0.0.1 set greeting hello ex 3600 >/dev/null 2>&1; do
        sleep 0.05
        kill -0 \$redis || { cat "$scratch/redis"; return 1; }
    done
}
end_redis() {
    kill \$redis
    wait \$redis || true
    [ "\$(redis-cli -h 127.0.0.1 -p 6380 get greeting)" = hello ]
    [ "\$(redis-cli -h 127.0.0.1 -p 6380 ttl greeting)" -gt 0 ]
    redis-cli -h 127.0.0.1 -p 6380 flushall >/dev/null
}
SCRIPT
sed -i "s/127\.0\.0\.1/$address/" "$scratch/functions"

# write_sections PAGE NAME: a script of each section's blocks, LINE.script, where each block tells its line; and
# LINE.expected for the output of the block of that line. Blocks that are left out have neither, but a line in left_out.
write_sections() {
    awk -v out="$scratch/page/" -v left_out="$scratch/left_out" -v page="$2" -v python="$python" \
        -v over_ofi="$over_ofi" -v over_tcps="$over_tcps" -v has_redis="$has_redis" -v has_redis_server="$has_redis_server" '
        function script(line) { print line >(out section ".script") }
        function leave_out(why) { print "  " page ":" begun ": " why >>left_out }
        function reason() { # to leave out this block
            if (need == "redis" && !has_redis_server) return "there is no redis-server: tests/support/packages.sh peers"
            if (inside == "python") return has_redis ? "" : "Python has no package redis: tests/support/packages.sh peers"
            if (need == "redis") return ""
            if (need == "rdma" || need == "ofi") return over_ofi ? "" : "this build has no ofi://"
            if (need == "tcps") return over_tcps ? "" : "this build has no tcps://"
            return need == "" || need == "host" || need == "two_releases" ? "" : "needs " need
        }
        function before() { # what the block takes for granted
            if (need == "redis") script("begin_redis")
            if (inside == "python") script(python " <<\\PYTHON")
            if (need == "host") script("okv-server & await_server $!")
            if (need == "two_releases") {
                script("okv-server --listen local:///run/okv.sock & await_server $!")
                script("okv -s local:///run/okv.sock put greeting hello")
            }
        }
        function after() {
            if (inside == "python") script("PYTHON")
            if (need == "redis") script("end_redis")
            if (need == "host" && others) leave_out("in part; lines with other commands than okv: " others)
            if (need == "two_releases") script("[ \"$(okv -s local:///run/okv-new.sock get greeting)\" = hello ]")
        }
        function command(line) {
            if (need == "host" && line !~ /^okv /) { others++; return }
            if (need == "host") { gsub(/ URI /, " \"$OKV_SERVER\" ", line); sub(/ top /, " top -n 1 ", line) }
            if (need == "two_releases") gsub(/(OLD|NEW)\//, "", line)
            if (need == "rdma") gsub(/rdma:/, "ofi:", line)
            starts = line ~ /okv-server / || continued
            if (starts) sub(/& sleep [0-9]+/, "\\&", line)
            script(line)
            if (starts && line ~ /&( *#.*)?$/) script("await_server $!")
            continued = starts && line ~ /\\$/
        }
        BEGIN { section = 1 }
        /^```/ && inside { if (runs && inside != "output") after(); inside = ""; next }
        /^```output$/ { inside = "output"; expected = out begun ".expected"; if (runs) printf "" >expected; next }
        /^```/ {
            inside = $1 == "```sh" ? "sh" : $1 == "```python" ? "python" : "other"
            need = substr($2, 7)
            begun = FNR
            others = 0
            why = inside == "other" ? "" : reason()
            runs = inside != "other" && why == ""
            if (why) leave_out(why)
            if (runs) { script("echo @block " FNR); before() }
            next
        }
        /^#/ && !inside { section = FNR }
        inside == "sh" && runs { command($0) }
        inside == "python" && runs { script($0) }
        inside == "output" && runs { print >expected }' "$1"
    for script in "$scratch/page/"*.script; do
        [ ! -e "$script" ] || sed -i -E "s,\b(10|127)\.0\.0\.1\b,$address,g
            s,(^|[ ='\"]|//)(/(backup|etc|run|srv|tmp|var)/),\1$scratch/page\2,g" "$script"
    done
}

# await_end: of the servers of a section, so that the next one finds the addresses free.
await_end() {
    local said
    for said in "$scratch"/server.*; do
        while grep -q '^State:.[^Z]' "/proc/${said##*.}/status" 2>/dev/null; do sleep 0.05; done
        rm -f "$said"
    done
}

# run_section PAGE SCRIPT
run_section() {
    local status=0 at
    (
        cd "$scratch/page/here"
        PATH=$scratch/bin:$PATH OKV_LISTEN=$socket OKV_SERVER=$socket \
            script -qec "bash -e -c '. $scratch/functions; . $2'" /dev/null </dev/null
    ) >"$scratch/printed" 2>&1 || status=$?
    await_end
    sed -i 's/\r$//' "$scratch/printed"
    blocks=$((blocks + $(grep -c '^@block ' "$scratch/printed" || true)))
    cat "$scratch/printed" >>"$scratch/page/printed"
    [ $status -ne 0 ] || return 0
    failures=$((failures + 1))
    at=$(sed -n 's/^@block //p' "$scratch/printed" | tail -n 1)
    echo "WRONG $1:$at: a command failed with $status; what the section's commands printed:"
    cat "$scratch/printed"
}

# run_page PAGE
run_page() {
    local name=${1#"$root"/} script expected at
    rm -rf "$scratch/page"
    mkdir -p "$scratch/page"/{backup,etc/okv,run/okv,srv,tmp,var/lib,here}
    write_sections "$1" "$name"
    for script in "$scratch/page/"*.script; do
        [ ! -e "$script" ] || run_section "$name" "$script"
    done
    for expected in "$scratch/page/"*.expected; do
        [ -e "$expected" ] || continue
        at=$(basename "$expected" .expected)
        awk -v at="$at" '/^@block / { is_it = $2 == at; next } is_it' "$scratch/page/printed" >"$scratch/page/block"
        diff -u --label "$name:$at" --label printed "$expected" "$scratch/page/block" || failures=$((failures + 1))
    done
}

for page in "${pages[@]}"; do
    run_page "$page"
done
if [ -e "$scratch/left_out" ]; then
    echo "documents: left out:"
    cat "$scratch/left_out"
fi
echo "documents: $blocks blocks, $failures wrong"
[ "$blocks" -gt 0 ] && [ $failures -eq 0 ]
