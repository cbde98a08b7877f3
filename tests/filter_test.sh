#!/usr/bin/env bash
# OKV_TEST_FILTER selects tests by name, and a program without such a test fails.
# usage: tests/filter_test.sh BYTES_TEST
set -euo pipefail

# selected PATTERN STATUS TEXT: the program ends so, and says that.
selected() {
    local status=0 output
    output=$(OKV_TEST_FILTER=$1 "$program" 2>&1) || status=$?
    if [ $status -ne "$2" ] || [[ $output != *"$3"* ]]; then
        printf "OKV_TEST_FILTER='%s': status %s and not %s, or no '%s':\n%s\n" "$1" $status "$2" "$3" "$output"
        exit 1
    fi
}

program=$1
selected 'bytes_differ*' 0 ' 1 test(s) run'
selected bytes_differ_wherever_they_differ 0 ' 1 test(s) run'
selected '*' 0 ' 2 test(s) run'
selected bytes 2 "has no test called 'bytes'"
