#!/usr/bin/env bash
# bench/python measures okv beside Redis, and leaves nothing running.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/bench_python.sh BUILD_DIR

Runs bench/python with the okv-server of BUILD_DIR for a moment; no figure is judged. Left out without redis-server and
python3-redis (tests/support/packages.sh peers), which is a failure when OKV_TEST_REQUIRE_TOOLS is 1, and where the
library of BUILD_DIR has sanitizers. Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
measure=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/bench/python
export TMPDIR=$scratch/tmp
mkdir "$TMPDIR"

# run ARGUMENT...: sets `status`.
run() {
    status=0
    PYTHONDONTWRITEBYTECODE=1 "$python" -W error "$measure" --build "$build" --rounds 2 --seconds 0.01 "$@" \
        >"$scratch/out" 2>"$scratch/err" || status=$?
}

if [ -n "$(sed -n 's/^OKV_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")" ]; then
    echo "bench_python: left out: $build is built with sanitizers"
    exit 77
fi
if ! command -v redis-server >/dev/null || ! "$python" -c 'import redis' 2>/dev/null; then
    echo "bench_python: left out: redis-server or python3-redis is missing; run: tests/support/packages.sh peers"
    [ "${OKV_TEST_REQUIRE_TOOLS:-}" = 1 ] && exit 1
    exit 77
fi
run --json "$scratch/run.json"
same "its status" $status 0
same "its table" "$(awk '{ print NF, $1 }' "$scratch/out" | xargs)" '3 okv 4 get 4 put 4 get_many 4 pipeline'
same "its figures" "$("$python" - "$scratch/run.json" <<'TEXT'
import json, sys
rates = json.load(open(sys.argv[1]))["rates"]
print(*(f"{name} {work} {len(all)} {min(all) > 0}" for name, works in rates.items() for work, all in works.items()))
TEXT
)" "$(for name in okv redis; do for work in get put get_many pipeline; do echo "$name $work 2 True"; done; done | xargs)"
same "what it leaves" "$(ls "$TMPDIR"; pgrep -f "$TMPDIR" || true)" ''
build=$scratch run
same "its status without a build" $status 1
same "what it says then" "$(grep -c '^bench/python: .*--build' "$scratch/err")" 1
echo "bench_python: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
