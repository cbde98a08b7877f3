#!/usr/bin/env bash
# Holds the arrows of docs/architecture.md: who includes whom, what libraries may do, what libokv exports.
# Also how long things may be, and that every figure that is counted is explained.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
    cat <<'TEXT'
usage: tests/check_layers.sh [BUILD_DIR]

Prints one line for each thing that is wrong, as FILE:LINE: WHAT, and exits 1 when there is one.
With BUILD_DIR also compares the symbols that BUILD_DIR/client/libokv.so exports with client/okv.map.
TEXT
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
    -*) usage >&2; exit 2 ;;
esac
[ $# -le 1 ] || { usage >&2; exit 2; }
build=${1:+$(cd "$1" && pwd)}
cd "$root"

file_lines_max=600
function_lines_max=60
wrong=0

# complain WHAT: reads "FILE:LINE:TEXT" lines and reports each of them.
complain() {
    local place
    while IFS= read -r place; do
        printf '%s: %s\n' "$place" "$1"
        wrong=1
    done
}

# Files of the tree that have one of the suffixes; build trees are not part of it.
tree_files() {
    local patterns=("${@/#/*.}")
    if [ -e .git ] && command -v git >/dev/null; then
        git -c safe.directory='*' ls-files -co --exclude-standard -- "${patterns[@]}"
    else
        local suffix names=()
        for suffix in "$@"; do
            names+=(-o -name "*.$suffix")
        done
        find . -path ./build -prune -o -type f \( -false "${names[@]}" \) -printf '%P\n'
    fi | sort | while IFS= read -r file; do
        [ -f "$file" ] && printf '%s\n' "$file"
    done
}

mapfile -t sources < <(tree_files c h)
mapfile -t headers < <(tree_files h)
mapfile -t scripts < <(tree_files sh)

# folder_files FOLDER [EXCEPT]: the C files below FOLDER, without those below EXCEPT.
folder_files() {
    local file
    for file in "${sources[@]}"; do
        [[ $file == "$1"/* && ( -z ${2:-} || $file != "$2"/* ) ]] && printf '%s\n' "$file"
    done
    return 0
}

# search PATTERN FILE...: matching lines as FILE:LINE:TEXT.
search() {
    local pattern=$1
    shift
    [ $# -eq 0 ] || grep -HnE -- "$pattern" "$@" || [ $? -eq 1 ]
}

# own_includes FILE...: lines that include something of this tree.
own_includes() {
    search '^[[:space:]]*#[[:space:]]*include[[:space:]]*("|<okv\.h>)' "$@"
}

# room FOLDER USES...: what the files of a module, FOLDER without its subfolders, include of this tree is their own
# or lies below one of the paths; "api" is <okv.h>.
room() {
    local room=$1 path pattern files
    shift
    pattern="\"$room/[^/]+\""
    for path in "$@"; do
        case $path in
            api) pattern+="|<okv\\.h>" ;;
            *.h) pattern+="|\"$path\"" ;;
            *)   pattern+="|\"$path/" ;;
        esac
    done
    mapfile -t files < <(folder_files "$room" | grep -E "^$room/[^/]+$")
    [ ${#files[@]} -gt 0 ] || complain "there is no such module" <<<"$room"
    complain "$room/ uses only: ${*:-nothing}" < <(own_includes "${files[@]}" | grep -vE "include[[:space:]]*($pattern)")
}

# The arrows of docs/architecture.md: each module uses those that stand before it.
check_rooms() {
    room shared/base
    room shared/format shared/base
    room shared/identity shared/base shared/format/wire.h
    room shared/discovery shared/base shared/format/discovery.h
    room shared/devices shared/base
    room shared/stream shared/base
    room shared/transport shared/base
    room shared/transport/common shared/base shared/transport/transport.h
    room shared/transport/local shared/base shared/transport/common shared/transport/transport.h
    room shared/transport/verbs shared/base shared/devices shared/discovery shared/transport/common shared/transport/transport.h
    room shared/transport/ofi shared/base shared/transport/common shared/transport/transport.h

    # What all rooms of a server share: state, statistics, the log, a database.
    local common=(server/core server/config/config.h server/metrics/stats.h server/database server/identity
        server/clients)
    room server/identity shared server/config/config.h
    room server/store shared
    local log_room
    for log_room in server/wal{,/blob,/snapshot,/recovery,/offline}; do
        room "$log_room" shared server/store server/wal
    done
    room server/core shared server/config/config.h server/metrics/stats.h
    room server/database shared server/store server/wal server/config/config.h server/core server/metrics/stats.h
    room server/clients shared server/config/config.h "${common[@]}"
    room server/metrics shared server/store server/wal "${common[@]}"
    room server/command shared server/store server/wal "${common[@]}"
    room server/session shared server/store server/command server/wal "${common[@]}"
    room server/resp/proto shared
    room server/resp/run shared server/store server/wal server/command server/resp server/worker "${common[@]}"
    room server/resp/net shared server/command server/resp server/worker "${common[@]}"
    room server/resp/commands shared server/store server/wal server/command server/resp "${common[@]}"
    room server/resp server/resp shared server/wal server/worker "${common[@]}"
    room server/net shared server/session server/worker "${common[@]}"
    room server/config shared server/store/region.h server/wal/wal.h server/core
    room server/worker shared server/store server/command server/session server/resp "${common[@]}"
    room server/main shared server

    room client api shared
    room client/engine api shared client/handle.h client/operation.h
    room client/connection api shared client/handle.h client/operation.h client/engine
    room client/get api shared client/handle.h client/operation.h client/engine client/connection
    room client/scan api shared client/handle.h client/engine client/connection client/get
    room client/api api shared client/handle.h client/engine client/connection client/get client/scan
    room client/examples api

    # What programs have of shared/: self-contained files that say nothing about the table.
    local helpers=(shared/base/size.h shared/base/duration.h shared/base/clock.h shared/base/default_uri.h
        shared/base/spell_suggest.h shared/base/options.h)
    room client/cli/doctor api client/cli shared/devices shared/base/resolve.h shared/base/uri.h "${helpers[@]}"
    room client/cli/command api client/cli shared/discovery/discovery.h shared/identity/user_key.h shared/identity/proof.h "${helpers[@]}"
    room client/cli/shell api client/cli "${helpers[@]}"
    room client/cli api client/cli/shell "${helpers[@]}"
    room bench/targets api "${helpers[@]}"
    room bench/load api bench/targets bench/options.h bench/interrupt.h "${helpers[@]}"
    # The floor is the copy and the checksum of a bucket, as a get has them.
    room bench/floor api bench/load bench/options.h bench/interrupt.h shared/format/hash.h "${helpers[@]}"
    room bench/report api bench/floor bench/load bench/options.h "${helpers[@]}"
    room bench api bench "${helpers[@]}"
}

# No header includes itself by way of others. tsort fails on a circle and names its files.
check_circles() {
    complain "these headers include each other in a circle" < <(
        grep -HoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"[^"]+"' "${headers[@]}" |
            sed -E 's/:[^"]*"/ /; s/"$//' | tsort 2>&1 >/dev/null | sed -n 's/^tsort: \([^:]*\.h\)$/\1/p')
}

check_verbs() {
    local include='#[[:space:]]*include[[:space:]]*[<"]' file files=()
    for file in "${sources[@]}"; do
        [[ $file == tests/* ]] || files+=("$file")
    done
    # Headers of verbs and of libfabric share the folder rdma/.
    complain "only shared/transport/verbs/, shared/discovery/ud.c and shared/devices/limits.c include verbs" < <(
        search "$include(infiniband|rdma)/" "${files[@]}" | grep -vE "${include}rdma/(fabric|fi_)" |
            grep -vE '^shared/(transport/verbs/|discovery/ud\.c:|devices/limits\.c:)')
    complain "only shared/transport/ofi/ includes headers of libfabric" < <(
        search "${include}rdma/(fabric|fi_)" "${files[@]}" | grep -v '^shared/transport/ofi/')
    complain "the public header knows nothing of verbs" \
        < <(search '\b(ibv|rdma)_[a-z]' client/include/okv.h)
}

# A library leaves printing and ending the process to the program that uses it.
check_calls() {
    local files
    mapfile -t files < <(folder_files shared; folder_files client client/cli | grep -v '^client/examples/')
    complain "a library neither prints nor ends the process" \
        < <(search '\b(v?f?printf|f?puts|f?putc|putchar|perror|_?_?exit|abort|assert)[[:space:]]*\(' "${files[@]}" |
            grep -vE '^[^:]+:[0-9]+:[[:space:]]*(/?\*|//)')
}

check_lengths() {
    # The public header is the manual of the library, too.
    complain "a file of more than $file_lines_max lines" < <(
        wc -l "${sources[@]}" "${scripts[@]}" | awk -v max=$file_lines_max '
            $1 > max && $2 != "total" && $2 != "client/include/okv.h" { print $2 ":" $1 }')
    # In this layout only the braces of a function's body stand alone in the first column.
    complain "a function of more than $function_lines_max lines" < <(
        awk -v max=$function_lines_max '
            FNR == 1 { start = 0 }
            /^\{/ { start = FNR }
            /^\}/ && start { if (FNR - start + 1 > max) print FILENAME ":" start; start = 0 }
        ' "${sources[@]}")
}

# listed_names FILE MACRO: the names in an X-macro's list.
listed_names() {
    sed -n "/#define $2(X)/,/[^\\\\]\$/p" "$1" | grep -oE '\bX\([a-z_]+,' | sed 's/^X(//; s/,$//'
}

# unexplained FILE NAME...: complains about names without an entry of their own in okv(1).
unexplained() {
    local file=$1 name
    shift
    [ $# -gt 0 ] || complain "no names of metrics were found" <<<"$file"
    while IFS= read -r name; do
        complain "'$name' is not explained in docs/man/okv.1" <<<"$file"
    done < <(comm -23 <(printf '%s\n' "$@" | sort -u) <(sed -n 's/^\.B //p' docs/man/okv.1 | sort -u))
}

check_manual() {
    local names
    mapfile -t names < <(listed_names server/metrics/stats.h '[A-Z_]*')
    unexplained server/metrics/stats.h "${names[@]}"
    mapfile -t names < <(listed_names client/include/okv.h OKV_COUNTER_LIST)
    unexplained client/include/okv.h "${names[@]}"
    mapfile -t names < <(grep -oE 'write_(gauge|counter)\(&?writer, "[a-z0-9_]+"' server/metrics/stats.c | cut -d '"' -f 2)
    unexplained server/metrics/stats.c "${names[@]}"
}

check_exports() {
    local library=$build/client/libokv.so names exported
    if [ ! -e "$library" ]; then
        complain "not built" <<<"$library"
        return
    fi
    names=$(sed -n '/global:/,/local:/p' client/okv.map | grep -oE '\bokv_[a-z_]+' | sort -u)
    exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u)
    complain "in client/okv.map, but not exported by $library" \
        < <(comm -23 <(printf '%s\n' "$names") <(printf '%s\n' "$exported") | sed 's/^/client\/okv.map:/')
    complain "exported by $library, but not in client/okv.map" \
        < <(comm -13 <(printf '%s\n' "$names") <(printf '%s\n' "$exported") | sed 's/^/client\/okv.map:/')
}

check_rooms
check_circles
check_verbs
check_calls
check_lengths
check_manual
[ -z "$build" ] || check_exports
exit $wrong
