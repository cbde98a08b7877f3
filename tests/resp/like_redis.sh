#!/usr/bin/env bash
# Replies of okv beside those of Redis.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/resp/like_redis.sh BUILD_DIR

Gives the same requests to the okv-server of BUILD_DIR and to a redis-server 7.0, and compares the replies byte by
byte: of commands, of errors, and what COMMAND says of each command. like_redis.py names what differs. Exit status: 0
all is well, 1 something is not, 77 there is no redis-server 7.0.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

if ! redis-server --version 2>/dev/null | grep -q ' v=7\.0\.'; then
    echo "like_redis: skipped: there is no redis-server 7.0: tests/support/packages.sh peers"
    exit $((${OKV_TEST_REQUIRE_TOOLS:-0} ? 1 : 77))
fi
redis=$scratch/redis.sock
setpriv --pdeathsig KILL redis-server --port 0 --unixsocket "$redis" --save '' --dir "$scratch" >"$scratch/redis.log" &
servers+=($!)
start_server "$socket" --listen "resp://$scratch/resp.sock" --alone-ms 100 --database default:64M --database second:16M
until redis-cli -s "$redis" PING >/dev/null 2>&1; do sleep 0.1; done
"$python" "$here/like_redis.py" "$scratch/resp.sock" "$redis" "$here/../../docs/resp.md"
