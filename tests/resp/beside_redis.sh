#!/usr/bin/env bash
# Commands of bits, at random, and the figures of INFO beside those of Redis.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/resp/beside_redis.sh BUILD_DIR

Gives the same commands of bits to the okv-server of BUILD_DIR and to a redis-server 7.0, on the same values, and compares
the replies byte by byte; likewise the names and forms of the lines of INFO, and which commands there are. Exit status:
0 all is well, 1 something is not, 77 there is no redis-server 7.0.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
redis=$scratch/redis.sock

if ! redis-server --version 2>/dev/null | grep -q ' v=7\.0\.'; then
    echo "beside_redis: skipped: there is no redis-server 7.0: tests/support/packages.sh peers"
    exit $((${OKV_TEST_REQUIRE_TOOLS:-0} ? 1 : 77))
fi
unset OKV_TEST_DATA # it has a log, as Redis has its file of changes
mkdir "$scratch/redis"
setpriv --pdeathsig KILL redis-server --port 0 --unixsocket "$redis" --save '' --appendonly yes --dir "$scratch/redis" \
    >"$scratch/redis.log" &
servers+=($!)
start_server "$socket" --listen "resp://$scratch/resp.sock" --memory 64M --data "$scratch/data"
until redis-cli -s "$redis" PING >/dev/null 2>&1; do sleep 0.1; done
"$python" "$here/beside_redis.py" "$scratch/resp.sock" "$redis" "${OKV_TEST_SEED:-1}"
