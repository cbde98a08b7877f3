#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that building, testing, the QEMU guest and the demo need.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/support/packages.sh GROUP...

Installs what is missing of the named groups on a Debian or Ubuntu machine, as root or with sudo.
Does nothing, quickly and without network, when everything is there.

  build    compile okv
  test     tests, sanitizers, formatting and shell checks, bench/plot
  guest    run programs in a QEMU guest with soft-RoCE (tests/guest/run)
  demo     run the demo on a machine whose own kernel has soft-RoCE
  package  build Debian packages and try them in a system of their own; run tests for arm64 (with test)
  peers    the stores that kv-bench and bench/python compare okv with, and their client libraries
  cluster  etcd, haproxy, nftables
  redis    clients of Redis from npm, and what runs the test suite of Redis (with peers)

Servers that come with a package (redis-server, memcached, etcd, haproxy, prometheus) are stopped and kept from starting by
themselves when this script installed them: tests and bench/compare start their own. Those that were there
before are left alone. To have one back: systemctl enable --now NAME.
TEXT
}

fail() {
    echo "packages: $*" >&2
    exit 1
}

packages_of() {
    case $1 in
        build) echo cmake ninja-build gcc libc6-dev pkg-config libibverbs-dev librdmacm-dev libfabric-dev libxxhash-dev \
                    libjemalloc-dev libjansson-dev liblua5.1-0-dev libsodium-dev libinih-dev libmicrohttpd-dev libedit-dev libssl-dev \
                    libcurl4-openssl-dev python3 git ;;
        test)  echo libcmocka-dev g++ clang "$(clang_runtime)" lld clang-format shellcheck abigail-tools python3 openssl \
                    python3-numpy python3-venv jq gnuplot-nox groff-base ;;
        guest) echo qemu-system-x86 busybox-static kmod cpio iproute2 ibverbs-utils rdmacm-utils \
                    ibverbs-providers perftest python3 xz-utils zstd mount e2fsprogs xfsprogs ;;
        demo)  echo iproute2 kmod ibverbs-utils rdmacm-utils ibverbs-providers ;;
        package) echo dpkg-dev debhelper dh-python python3 fakeroot lintian mmdebstrap curl jq prometheus qemu-user ;;
        peers) echo redis-server redis-tools memcached libhiredis-dev liblmdb-dev python3 python3-redis ;;
        cluster) echo etcd-server haproxy nftables iproute2 ;;
        redis) echo tcl8.6 debian-archive-keyring php-cli php-redis python3-django-redis python3-dogpile.cache \
                    python3-limits "$(node)" ;;
        *)     return 1 ;;
    esac
}

# The package with the sanitizers' runtimes; older releases have none that follows the
# default version of clang.
clang_runtime() {
    # shellcheck source=/dev/null
    case $(. /etc/os-release && echo "${ID:-}:${VERSION_ID:-}") in
        debian:12)    echo libclang-rt-14-dev ;;
        ubuntu:22.04) echo libclang-common-14-dev ;;
        *)            echo libclang-rt-dev ;;
    esac
}

# npm of nodejs.org and the like comes in its own nodejs, beside which Debian's npm cannot be installed.
node() {
    command -v npm >/dev/null || echo nodejs npm
}

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

apt() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -y -q "$@"
}

install_packages() {
    apt update && apt install --no-install-recommends "$@"
}

# stop_services PACKAGE...: what Debian's packages of servers start when they are installed, and at each
# boot. Both commands know systemd; where a policy forbids services, nothing was started.
stop_services() {
    local package
    for package in "$@"; do
        case $package in
            redis-server | memcached | etcd-server | haproxy | prometheus)
                as_root invoke-rc.d "${package/etcd-server/etcd}" stop || true
                as_root update-rc.d "${package/etcd-server/etcd}" disable || true
                ;;
        esac
    done
}

main() {
    case ${1:-} in
        -h | --help) usage; exit 0 ;;
        '') usage >&2; exit 2 ;;
    esac
    command -v apt-get >/dev/null ||
        fail "this is not a Debian or Ubuntu machine; install the packages that tests/support/packages.sh lists by hand"

    local group package names missing=()
    for group in "$@"; do
        names=$(packages_of "$group") || fail "there is no group '$group': $0 --help lists them"
        for package in $names; do
            is_installed "$package" || missing+=("$package")
        done
    done
    [ ${#missing[@]} -gt 0 ] || exit 0

    [ "$(id -u)" -eq 0 ] || command -v sudo >/dev/null ||
        fail "installing needs root and there is no sudo; run as root: apt-get install ${missing[*]}"
    echo "packages: installing ${missing[*]}" >&2
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    install_packages "${missing[@]}" >"$log" 2>&1 || install_packages "${missing[@]}" >"$log" 2>&1 || {
        tail -n 20 "$log" >&2
        fail "apt-get failed twice (its last lines are above); fix what it names, then run again: $0 $*"
    }
    stop_services "${missing[@]}" >"$log" 2>&1
}

main "$@"
