#!/usr/bin/env bash
# --worker-cpus: the worker has its processor, and no other thread of the server uses it.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/processors.sh BUILD_DIR

Starts the okv-server of BUILD_DIR with a processor for its worker and looks at which processors its threads may use.
Exits 1 when one may use a wrong one, and 77 on a machine with one processor.
TEXT
}

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"

if [ "$(nproc)" -eq 1 ]; then
    echo "skipped: there is one processor, and --worker-cpus takes two"
    exit 77
fi
cpu=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
start_server "$socket" --workers 1 --worker-cpus "$cpu"
"$okv" -s "$socket" put key value # serves: all its threads are there

# contains LIST CPU: a list such as 0-3,8.
contains() {
    tr ',' '\n' <<<"$1" | awk -F- -v cpu="$2" '
        $1 <= cpu && cpu <= (NF > 1 ? $2 : $1) { found = 1 }
        END { exit !found }'
}

failures=0 workers=0
for task in "/proc/${servers[-1]}/task/"*; do
    list=$(awk '/^Cpus_allowed_list:/ { print $2 }' "$task/status")
    if [ "$list" = "$cpu" ]; then
        workers=$((workers + 1))
    elif contains "$list" "$cpu"; then
        failures=1
        echo "WRONG: the thread $(cat "$task/comm") may use the worker's processor, $cpu"
    fi
done
if [ $workers -ne 1 ]; then
    failures=1
    echo "WRONG: $workers threads have processor $cpu for themselves, not one"
fi
exit $failures
