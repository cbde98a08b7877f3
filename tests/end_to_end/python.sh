#!/usr/bin/env bash
# The Python package from the source tree, with the library of the build.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/python.sh BUILD_DIR

Runs tests/python against the okv-server of BUILD_DIR; without numpy (tests/support/packages.sh test) its example is
left out, or fails when OKV_TEST_REQUIRE_TOOLS is 1. Exit status: 0 all is well, 1 something is not, 77 the library of
BUILD_DIR has sanitizers, which an interpreter without them cannot load.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"

if [ -n "$(sed -n 's/^OKV_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")" ]; then
    echo "python: skipped: $build is built with sanitizers"
    exit 77
fi
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
for name in alice bob; do "$okv" keygen "$scratch/$name.key"; done
(umask 077; printf '[alice]\nkey = %s\ndefault = read\n' "$(cat "$scratch/alice.key")" >"$scratch/users")
start_server "local://$scratch/users.sock" --users "$scratch/users"
export OKV_USERS_SERVER=local://$scratch/users.sock OKV_USERS_DIRECTORY=$scratch OKV_USERS_PID=${servers[-1]}
start_server "$socket"
OKV_SERVER=$socket OKV_SERVER_PID=${servers[-1]} OKV_LIBRARY=$build/client/libokv.so PYTHONPATH=$root/client/python PYTHONDONTWRITEBYTECODE=1 \
    "$python" -W error "$root/tests/python/okv_test.py"
