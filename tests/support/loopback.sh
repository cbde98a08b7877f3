#!/usr/bin/env bash
# Runs a test over ofi:// at a loopback address of its own; see --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/support/loopback.sh PROVIDER COMMAND [ARGUMENT]...

Runs COMMAND with OKV_TEST_LISTEN and OKV_TEST_URI for the libfabric provider, at an address in 127.0.0.0/8 that
is made of the process's number: tests that run at the same time share no port.
TEXT
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
esac
[ $# -ge 2 ] || { usage >&2; exit 2; }
address=127.$((1 + $$ / 65536 % 254)).$(($$ / 256 % 256)).$((1 + $$ % 254))
export OKV_TEST_LISTEN="ofi://$address?provider=$1" OKV_TEST_URI="ofi://$address"
shift
exec "$@"
