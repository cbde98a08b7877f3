#!/usr/bin/env bash
# What a start and okv doctor say of the limit on memory of their control group.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/memory_limit.sh BUILD_DIR

Runs the programs of BUILD_DIR where the files of the control groups are others, with a limit in them that the kernel does
not know of. Needs to mount: as root, or with user namespaces. Exits 1 when something is wrong, 77 when it cannot mount.
TEXT
}

# A mount namespace of its own ends with the script.
if [ -z "${OKV_MAY_MOUNT:-}" ] && [ -n "${1:-}" ] && [ "${1#-}" = "$1" ]; then
    unshare -rm mount --bind /tmp /sys/fs/cgroup 2>/dev/null || {
        echo "memory_limit: skipped: may not mount here (unshare -rm)"
        exit 77
    }
    OKV_MAY_MOUNT=1 exec unshare -rm "$0" "$@"
fi

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"

# limit BYTES: of the group at the top, of either version.
limit() {
    echo "$1" | tee "$scratch/groups/memory.max" >"$scratch/groups/memory/memory.limit_in_bytes"
}

# said TEXT: how many lines of the server have it.
said() {
    grep -c -- "$1" "$scratch/log" || true
}

takes_most='the control group may use 20 MiB, and the databases take most of it: .*memory.max'
mkdir -p "$scratch/groups/memory"
mount --bind "$scratch/groups" /sys/fs/cgroup
limit $((20 << 20))

start_server "$socket" --memory 16M
same "lines on 16 MiB of 20" "$(said "$takes_most")" 0
end_server TERM
start_server "$socket" --memory 18M
same "lines on 18 MiB of 20" "$(said "$takes_most")" 1
end_server TERM
started=no
! try_server "$socket" --memory 12M --database one:12M --database two:12M || started=yes
same "a start with 24 MiB of 20" "$started" no
same "what it says" "$(said '24 MiB in all do not fit the 20 MiB that the control group may use: .*memory.max')" 1

"$okv" doctor >"$scratch/err" || true
same "what okv doctor says" "$(grep -c '20 MiB for this control group: .*memory' "$scratch/err")" 1
echo "memory_limit: $checks checks, $failures of them wrong"
[ $failures -eq 0 ]
