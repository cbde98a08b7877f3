#!/usr/bin/env bash
# Holds what the sources promise: which folders include each other, what libraries may do, what libokv exports.
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

# Programs and the library meet in shared/ and in okv.h. tests/check_links holds the arrows between rooms.
check_folders() {
    local folder others files
    while read -r folder others; do
        mapfile -t files < <(folder_files "$folder")
        complain "$folder/ includes nothing of $others" < <(
            search "^[[:space:]]*#[[:space:]]*include[[:space:]]*\"(${others// /|})/" "${files[@]}")
    done <<'TEXT'
shared client server bench
client server bench
server client bench
bench client server
TEXT
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
            grep -vE '^[^:]+:[0-9]+:[[:space:]]*(/?\*|//)' | grep -v '^shared/base/standard_output.c:')
}

# Else it is not said which limit there is. These go on without one.
check_threads() {
    local files
    mapfile -t files < <(folder_files shared; folder_files client; folder_files server; folder_files bench)
    complain "a thread is started by okv_thread_start()" < <(search '\bpthread_create[[:space:]]*\(' "${files[@]}" |
        grep -vE '^(shared/base/thread|shared/transport/local/safe_close|server/wal/recovery/snapshot)\.c:')
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

# INFO counts errors by their first word.
check_errors() {
    local files
    mapfile -t files < <(folder_files server/resp)
    complain "errors of this kind are not counted: OKV_RESP_ERRORS_LIST" < <(comm -23 \
        <(grep -Pzoh 'okv_resp_error\([^;"]*"\K[A-Z]+(?= )' "${files[@]}" | tr '\0' '\n' | sort -u) \
        <(grep -oE '\bX\([A-Z]+\)' server/resp/run/call_stats.h | sed 's/^X(//; s/)$//' | sort -u))
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

check_folders
check_circles
check_verbs
check_calls
check_threads
check_lengths
check_manual
check_errors
[ -z "$build" ] || check_exports
exit $wrong
