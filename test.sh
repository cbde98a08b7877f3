#!/usr/bin/env bash
# Installs what is missing, builds okv in every configuration and runs all tests.
set -euo pipefail
cd "$(dirname "$0")"

usage() {
    cat <<'TEXT'
usage: ./test.sh [--quick]

Builds okv and runs its tests, on a Debian or Ubuntu machine, as root or with sudo:

  release   gcc: clang-format, shellcheck and layers over the tree, unit tests, end to end over
            shared memory, installation, and, in a QEMU guest with real soft-RoCE, the transport
            tests and end to end over RDMA
  clang     library and programs built with clang, warnings as errors; tsan has the rest
  asan      AddressSanitizer and UndefinedBehaviorSanitizer over everything without a device
  tsan      ThreadSanitizer over the same
  fuzz      clang with libFuzzer: a fixed number of random inputs for each fuzz target

  --quick   release only, without the guest

Missing packages are installed. Build trees and logs are in build/. Leaves nothing running.
Exit status 0 when every test passed.
TEXT
}

quick=
case ${1:-} in
    '') ;;
    --quick) quick=1 ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
esac

step() {
    printf '\n== %s\n' "$*"
}

# Quiet when it works; the end of its log when it does not.
logged() {
    local log=build/logs/$1.log
    shift
    if ! "$@" >"$log" 2>&1; then
        tail -n 60 "$log"
        echo "test.sh: '$*' failed; all of its output is in $log" >&2
        exit 1
    fi
}

# build PRESET [TARGET...]: these, or all.
build() {
    local preset=$1
    shift
    step "building: $preset"
    logged "configure-$preset" cmake --preset "$preset"
    logged "build-$preset" cmake --build --preset "$preset" ${1:+--target "$@"}
}

run_tests() {
    local preset=$1
    shift
    step "testing: $preset"
    ctest --test-dir "build/$preset" --output-on-failure --no-tests=error "$@"
}

# What was installed here has to be there: nothing may be left out for want of it.
export OKV_TEST_REQUIRE_TOOLS=1
mkdir -p build/logs
groups=(build test peers)
[ -n "$quick" ] || groups+=(guest)
step "packages: ${groups[*]}"
tests/support/packages.sh "${groups[@]}"

build release
if [ -n "$quick" ]; then
    run_tests release -j 2 -LE guest
    exit 0
fi
build clang okv okv_static okv-cli okv-server kv-bench
build asan
build tsan
build fuzz
run_tests fuzz -L fuzz -V
run_tests asan -j 2 -L 'unit|local'
run_tests tsan -j 2 -L 'unit|local'
run_tests release -j 2
