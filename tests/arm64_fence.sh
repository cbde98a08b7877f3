#!/usr/bin/env bash
# The fence that publishes to devices, as clang compiles it for Arm: in the outer shareable domain.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/arm64_fence.sh

Compiles shared/base/ordering.h for aarch64 and looks for the instruction. Exit status: 0 it is there, 1 it is not,
77 there is no clang for aarch64.
TEXT
}

case ${1:-} in
    '') ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
if ! echo | clang --target=aarch64-linux-gnu -S -x c -o /dev/null - 2>/dev/null; then
    echo "skipped: no clang that compiles for aarch64"
    exit 77
fi
assembly=$(printf '#include "shared/base/ordering.h"\nvoid f(int *a) { a[0] = 1; okv_publish_fence(); a[1] = 2; }\n' |
    clang --target=aarch64-linux-gnu -ffreestanding -O2 -I. -S -x c -o - -)
if ! grep -qE '^[[:space:]]*dmb[[:space:]]+osh$' <<<"$assembly"; then
    echo "okv_publish_fence() is no dmb osh:"
    echo "$assembly"
    exit 1
fi
