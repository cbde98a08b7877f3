#!/usr/bin/env bash
# Builds the tests for arm64 in a system made for it, and runs those that an emulated process can run.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/arm64_test.sh BUILD_DIR [REGEX]

Unpacks libraries of arm64 to BUILD_DIR/arm64/system, builds in BUILD_DIR/arm64/build with clang, and runs tests of the
formats, of the table and of a server over shared memory under qemu-aarch64, or those whose names match. Nothing is
installed. What was unpacked and built stays for the next time. The first time takes some minutes longer.

Exit status: 0 all pass, 1 one does not, 77 it cannot be tried here (and a line says why).
TEXT
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
    '' | -*) usage >&2; exit 2 ;;
esac

# shellcheck source=tests/support/system.sh
. "$(dirname "${BASH_SOURCE[0]}")/support/system.sh"

needs clang ld.lld ninja pkg-config gcc jq mmdebstrap qemu-aarch64
mkdir -p "$1/arm64"
kept=$(cd "$1/arm64" && pwd)
system=$kept/system build=$kept/build

# ---- tests ----
# The bytes of all formats, the table, rings, and a server over shared memory. The emulator lacks what others look at:
# advice on memory, multicast, terminals, processor time; and takes minutes for long ones.
formats='golden_test|bucket_test|bucket_change_test|superblock_test|linear_test|wire_test|wal_format_test|hash_test'
tests="unit\\.($formats|store_test|store_update_test|heat_test|transport_list|transport_local_read_test)"
tests+='|local\.(operations_test|databases_test|hostile_messages_test)'

# ---- the system: packages without their scripts, so that nothing of another processor runs ----
packages() {
    echo libc6-dev "libgcc-$(gcc -dumpversion | cut -d. -f1)-dev" libibverbs-dev librdmacm-dev libxxhash-dev \
        libjemalloc-dev libjansson-dev liblua5.1-0-dev libsodium-dev libinih-dev libmicrohttpd-dev libedit-dev \
        libssl-dev libcurl4-openssl-dev libcmocka-dev
}

# Its links are to be followed from outside.
relink() {
    local link
    find "$1" -type l -lname '/*' | while IFS= read -r link; do
        ln -sfnr "$1$(readlink "$link")" "$link"
    done
}

unpack() {
    local codename list
    # shellcheck source=/dev/null
    codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    list=$(packages)
    rm -rf "$system" "$system.new"
    mmdebstrap --variant=extract --architectures=arm64 --skip=output/dev --include="${list// /,}" "$codename" \
        "$system.new" >"$scratch/log" 2>&1 || {
        tail -n 5 "$scratch/log"
        rm -rf "$system.new"
        skip "the packages for arm64 could not be fetched"
    }
    relink "$system.new"
    mv "$system.new" "$system"
}

[ "$(id -u)" -eq 0 ] || skip "a system of its own takes root"
[ -d "$system" ] || unpack

# ---- build ----
export OKV_SYSROOT=$system
logged cmake -G Ninja -S "$root" -B "$build" --toolchain "$root/tests/arm64.cmake" -D CMAKE_BUILD_TYPE=RelWithDebInfo \
    -D OKV_WERROR=ON -D OKV_OFI=OFF

chosen=(-R "^($tests)\$")
[ $# -lt 2 ] || chosen=(-R "$2" -LE script)
mapfile -t programs < <(ctest --test-dir "$build" --show-only=json-v1 "${chosen[@]}" |
    jq -r '.tests[].command[]?' | sed -n "s,^$build/,,p" | sort -u)
[ ${#programs[@]} -gt 0 ] || fail "there are no such tests"
logged ninja -C "$build" "${programs[@]}" okv-server okv_test_certificates

# ---- run; a test that starts a server starts it under the emulator, too ----
printf '#!/bin/sh\nexec qemu-aarch64 -L "%s" "%s/server/okv-server" "$@"\n' "$system" "$build" >"$kept/okv-server"
chmod +x "$kept/okv-server"
export OKV_SERVER_BIN=$kept/okv-server
ctest --test-dir "$build" --output-on-failure --no-tests=error -j 2 "${chosen[@]}" || fail "not all pass on arm64"
