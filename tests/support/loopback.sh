#!/usr/bin/env bash
# Runs a test over a network's transport at a loopback address of its own; see --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/support/loopback.sh TRANSPORT COMMAND [ARGUMENT]...

Runs COMMAND with OKV_TEST_LISTEN and OKV_TEST_URI for the transport, at an address in 127.0.0.0/8 that is made of
the process's number: tests that run at the same time share no port. TRANSPORT is tcp, tcps, or ofi: and a provider of
libfabric. For tcps, OKV_TEST_TLS is a directory that tests/support/certificates.sh has made.
TEXT
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
esac
[ $# -ge 2 ] || { usage >&2; exit 2; }
address=127.$((1 + $$ / 65536 % 254)).$(($$ / 256 % 256)).$((1 + $$ % 254))
case $1 in
    tcp) export OKV_TEST_LISTEN="tcp://$address" OKV_TEST_URI="tcp://$address" ;;
    tcps)
        tls=${OKV_TEST_TLS:?}
        export OKV_TEST_LISTEN="tcps://$address" OKV_TEST_URI="tcps://$address?server-name=okv.test&ca=$tls/ca.pem"
        export OKV_TEST_SERVER_ARGS="--tls-cert $tls/server.pem --tls-key $tls/server.key"
        ;;
    ofi:*) export OKV_TEST_LISTEN="ofi://$address?provider=${1#ofi:}" OKV_TEST_URI="ofi://$address" ;;
    *) usage >&2; exit 2 ;;
esac
shift
exec "$@"
