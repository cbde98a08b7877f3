#!/usr/bin/env bash
# A durable server whose disk is full for some time, and one whose directory somebody removes.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/end_to_end/full_disk.sh BUILD_DIR

Starts the okv-server of BUILD_DIR on a small file system in memory, fills that and makes room again; then removes the
directory under a server. Looks at what clients get, and at what the server says. Needs to mount: as root, or with user
namespaces. Exits 1 when something is wrong, 77 when it cannot mount.
TEXT
}

# A mount namespace of its own ends with the script.
if [ -z "${OKV_MAY_MOUNT:-}" ] && [ -n "${1:-}" ] && [ "${1#-}" = "$1" ]; then
    unshare -rm mount -t tmpfs none /mnt 2>/dev/null || {
        echo "full_disk: skipped: may not mount here (unshare -rm)"
        exit 77
    }
    OKV_MAY_MOUNT=1 exec unshare -rm "$0" "$@"
fi

# shellcheck source=tests/support/programs.sh
. "$(dirname "${BASH_SOURCE[0]}")/../support/programs.sh"
failures=0 disk=$scratch/disk

expect() {
    [ "$2" = "$3" ] && return
    failures=$((failures + 1))
    echo "WRONG $1: $2, not $3"
    sed 's/^/      | /' "$scratch/log"
}

# says TEXT: the server's log has one line with it.
says() {
    expect "lines with '$1'" "$(grep -c -- "$1" "$scratch/log")" 1
}

# okv_fails TEXT ARGUMENT...: the command fails with this sentence.
okv_fails() {
    local text=$1 status=0
    shift
    "$okv" -s "$socket" "$@" >/dev/null 2>"$scratch/out" || status=$?
    expect "the status of okv $*" "$((status != 0))" 1
    expect "'$text' of okv $*" "$(grep -c -- "$text" "$scratch/out")" 1
}

# ---- a full disk ----
mkdir "$disk"
mount -t tmpfs -o size=48m none "$disk"
start_server "$socket" --data "$disk/data"
"$okv" -s "$socket" put before one
head -c 100m /dev/zero >"$disk/ballast" 2>/dev/null || true # as much as there is
head -c 250000 /dev/zero >"$scratch/large" # less than has a file of its own
until ! "$okv" -s "$socket" put large - <"$scratch/large" 2>"$scratch/out"; do :; done
expect "what a put gets" "$(grep -c 'takes no writes until its disk has space: make room on the disk' "$scratch/out")" 1
okv_fails 'until its disk has space' del before
expect "a get" "$("$okv" -s "$socket" get before)" one
says "database default: the disk is full: writes are refused, gets go on; [0-9]* MiB are wanted: make room in $disk/data"
rm "$disk/ballast"
until "$okv" -s "$socket" put after two 2>/dev/null; do sleep 0.1; done
says 'database default: the disk has room: writes are taken again'
expect "failures" "$(grep -c 'its log failed' "$scratch/log")" 0
end_server KILL
start_server "$socket" --data "$disk/data"
expect "an item from before" "$("$okv" -s "$socket" get before)" one
expect "an item from after" "$("$okv" -s "$socket" get after)" two

# ---- a limit on the length of files ----
# Also the memory of a client is a file: the one that meets the limit is connected before.
mkfifo "$scratch/commands"
"$okv" -s "$socket" shell <"$scratch/commands" >"$scratch/shell" 2>&1 &
exec 9>"$scratch/commands"
echo "put limit one" >&9
until [ "$("$okv" -s "$socket" get limit 2>/dev/null)" = one ]; do sleep 0.1; done
prlimit --pid "${servers[-1]}" --fsize=4096:
echo "put limit two" >&9
until grep -q 'may or may not have happened' "$scratch/shell" || ! kill -0 "${servers[-1]}"; do sleep 0.1; done
prlimit --pid "${servers[-1]}" --fsize=unlimited:
exec 9>&-
okv_fails 'its log failed' put gone three
expect "a get with a log that failed" "$("$okv" -s "$socket" get before)" one
says 'database default: its log failed: File too large: writes are refused, gets go on'
end_server TERM
start_server "$socket" --data "$disk/data"

# ---- a directory that is removed ----
rm -r "$disk/data"
okv_fails 'may or may not have happened' put gone three
okv_fails 'its log failed' put gone three
expect "a get without the directory" "$("$okv" -s "$socket" get before)" one
says 'database default: its log failed: No such file or directory: writes are refused, gets go on'
end_server TERM
umount "$disk"
[ $failures -eq 0 ]
