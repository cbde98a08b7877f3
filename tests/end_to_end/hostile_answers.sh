#!/usr/bin/env bash
# The programs and the Python package, whose server answers what it wants.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/hostile_answers.sh BUILD_DIR

Runs okv, kv-bench and the Python package with the libokv of BUILD_DIR/tests/hostile, whose server gives hostile
answers: some chosen ones, and random ones by OKV_TEST_SEED. Where libraries have sanitizers, Python is left out.
Exits 1 when something is wrong.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$here/../support/programs.sh"

package=$here/../../client/python
[ -z "$(sed -n 's/^OKV_SANITIZE:[A-Z]*=//p' "$build/CMakeCache.txt")" ] || package=
PYTHONDONTWRITEBYTECODE=1 "$python" "$here/hostile_answers.py" "$okv" "$bench" "$build/tests/hostile" "$scratch" \
    "$package"
