#!/usr/bin/env bash
# The tables of the model in docs/tuning.md are those that bench/model prints.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case ${1:-} in
    --help | -h) echo "usage: tests/check_model.sh"; exit 0 ;;
    ?*) echo "usage: tests/check_model.sh" >&2; exit 2 ;;
esac
diff <(sed -n '/^<!-- model -->$/,/^<!-- end of model -->$/p' docs/tuning.md | sed '1d;$d') <(bench/model) || {
    echo "docs/tuning.md: the tables of the model are not those of bench/model (>); put them in"
    exit 1
}
