#!/usr/bin/env bash
# A libfabric provider that lets peers write to what they may only read is refused; see --help.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/unprotected.sh BUILD

For the guest. With its cache of registrations on, libfabric's verbs provider registers everything for remote
writing. An okv-server that is told to listen on it has to find that out, say so, and end with status 3.
TEXT
}

case ${1:-} in
    '' | --help | -h) usage; [ $# -ge 1 ] && exit 0; exit 2 ;;
esac
[ "${OKV_GUEST:-}" = 1 ] || { echo 'runs in the guest only'; exit 77; }
listen=${OKV_TEST_LISTEN:?} status=0
said=$(FI_MR_CACHE_MONITOR=default timeout 60 "$1/server/okv-server" --listen "$listen" --open --memory 16M 2>&1) || status=$?
printf '%s\n' "$said"
[ $status = 3 ] || { echo "FAILED: status $status"; exit 1; }
grep -q 'lets peers write to memory that they may only read' <<<"$said" || { echo 'FAILED: another reason'; exit 1; }
