#!/usr/bin/env bash
# Programs that were linked to libokv work with the library of this tree: it is compared with a recorded one.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
baseline=$here/okv-0.3.abi

usage() {
    cat <<'TEXT'
usage: tests/abi/check_abi.sh [--record] BUILD_DIR

Compares the functions of BUILD_DIR/client/libokv.so and the structures that they take with
tests/abi/okv-0.3.abi. New functions, and new fields at the end of okv_info and okv_counters, are no difference.

  --record   writes the file. For a field that took the place of a reserved one (Growth in okv.h), together with
             that change. Anything else that differs breaks programs: it needs another soname and another file.

Exit status: 0 no difference, 1 there is one, 77 it cannot be told (and a line says why).
TEXT
}

record=
case ${1:-} in
    --help | -h) usage; exit 0 ;;
    --record) record=1; shift ;;
esac
[[ $# -eq 1 && $1 != -* ]] || { usage >&2; exit 2; }
library=$1/client/libokv.so

for tool in abidiff abidw; do
    command -v $tool >/dev/null || {
        echo "check_abi: $tool is missing; run: tests/support/packages.sh test"
        [ "${OKV_TEST_REQUIRE_TOOLS:-}" = 1 ] && exit 1
        exit 77
    }
done
readelf -S "$library" | grep '\.debug_info' >/dev/null || {
    echo "check_abi: skipped: $library has no debugging information, which tells of structures"
    exit 77
}

# Of the compiler, the machine and the folders of this build nothing is recorded.
if [ -n "$record" ]; then
    abidw --headers-dir "$here/../../client/include" --drop-private-types --exported-interfaces-only \
        --no-architecture --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed \
        --no-parameter-names --drop-undefined-syms --type-id-style hash "$library" |
        sed -E "s, path='[^']*/client/, path='client/," >"$baseline"
fi
status=0
abidiff --no-architecture --no-added-syms --suppressions "$here/okv.abignore" "$baseline" "$library" || status=$?
[ $status -eq 0 ] || {
    echo "check_abi: the interface differs from $baseline (abidiff: $status): see --help"
    exit 1
}
