#!/usr/bin/env bash
# Installs what is missing, builds okv and runs its tests.
set -euo pipefail
cd "$(dirname "$0")"

usage() {
    cat <<'TEXT'
usage: ./test.sh [--full]

Builds okv and runs its tests, on a Debian or Ubuntu machine, as root or with sudo; in 10 to 15 minutes
on two cores when the packages are there:

  release   gcc, warnings as errors: layers, clang-format and shellcheck over the tree, the Python package,
            the scripts that run the programs, the tests that count the work of long
            commands and, in one QEMU guest with real soft-RoCE, the transport list, operations, hostile
            verbs, and a test of the battery in short
  asan      AddressSanitizer and UndefinedBehaviorSanitizer: unit tests, the library and the server
            over shared memory, and the transports over TCP and libfabric
  tsan      ThreadSanitizer: the programs with threads

  --full    also, in two to three hours:
            - every test in release, and those of programs under both sanitizers
            - a build with clang, and the one that users install, optimised as a whole; the installation
            - fuzz: clang with libFuzzer, a fixed number of random inputs for each target
            - all tests of the guest, with the battery and each call of okv made to fail there
            - the Debian packages and the container image, each in a system of its own; the formula for memory
            - tests of formats and of a server built for arm64, under emulation
            - the test suite of Redis and clients of Redis, which a network brings
            - a random seed for all of it, which is printed: OKV_TEST_SEED=N repeats its choices

Missing packages are installed. Build trees and logs are in build/. Leaves nothing running.
tests/mutations, which breaks okv to see that tests notice, and the long forms (OKV_LONG=1) are run by
hand. Exit status 0 when every test passed.
TEXT
}

full=
case ${1:-} in
    '') ;;
    --full) full=1 ;;
    --help | -h) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
esac

# step WORD...: says what comes, and how long it is since the start.
step() {
    printf '\n== %d:%02d  %s\n' $((SECONDS / 60)) $((SECONDS % 60)) "$*"
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

# run_tests PRESET OPTION...: those that ctest's options choose. One run shows all failures.
red=
run_tests() {
    local preset=$1
    shift
    step "testing: $preset"
    ctest --test-dir "build/$preset" --output-on-failure --no-tests=error "$@" || red+=" $preset"
}

# Four tests at a time: many wait, and none asserts a time.
short() {
    export OKV_TEST_SEED=${OKV_TEST_SEED:-1}
    step "OKV_TEST_SEED=$OKV_TEST_SEED"
    build release short_release
    run_tests release -j 4 -L 'tree|guest|script|counting' -LE slow
    build asan short_asan
    run_tests asan -j 4 -L 'unit|local|ofi|tcp' -LE 'slow|script|threaded|counting'
    build tsan short_tsan
    run_tests tsan -j 4 -L threaded -LE slow
}

full() {
    export OKV_TEST_SEED=${OKV_TEST_SEED:-$SRANDOM}
    step "OKV_TEST_SEED=$OKV_TEST_SEED"
    build release
    build clang okv okv_static okv-cli okv-server kv-bench
    build asan
    build tsan
    build fuzz
    run_tests fuzz -L fuzz -V
    run_tests asan -j 2 -L 'unit|local|ofi|tcp'
    run_tests tsan -j 2 -L 'unit|local|ofi|tcp'
    run_tests release -j 2
    build install
    step "testing: install"
    tests/install_test.sh build/install
}

# What was installed here has to be there: nothing may be left out for want of it.
export OKV_TEST_REQUIRE_TOOLS=1
mkdir -p build/logs
groups=(build test peers cluster guest)
[ -z "$full" ] || groups+=(package redis)
step "packages: ${groups[*]}"
tests/support/packages.sh "${groups[@]}"
if [ -n "$full" ]; then
    full
else
    short
fi
if [ -n "$red" ]; then
    step "tests failed in:$red"
    exit 1
fi
step "all tests passed"
