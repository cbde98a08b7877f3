#!/usr/bin/env bash
# Compares the calls that a program of tests/faults/ could make fail with those that it met.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: tests/faults/sites.sh PROGRAM [OPTION...]

Runs PROGRAM --sites with the options and prints how many calls its machine code has that lead to a
wrapper, in how many of them a failure was injected, and where the others are.
TEXT
}

case ${1:-} in
    --help | -h) usage; exit 0 ;;
    '' | -*) usage >&2; exit 2 ;;
esac
program=$1
shift
met=$(mktemp)
trap 'rm -f "$met"' EXIT
"$program" --sites "$@" | awk '/^site/ && $6 > 0 { print substr($8, 3) }' | sort -u >"$met"

# The address behind each call of a wrapper, outside of tests/.
returns() {
    objdump -d --no-show-raw-insn "$program" | awk '
        behind { sub(":", "", $1); print $1, name; behind = 0 }
        /call.*<(__wrap_|fault_)/ { behind = 1; name = $NF; gsub(/[<>]|__wrap_|fault_/, "", name) }'
}

calls=0 failed=0
while read -r address name; do
    place=$(addr2line -sfpe "$program" "$(printf '0x%x' $((0x$address - 1)))")
    case $place in
        *scenario.c* | *serving.c* | *runs.c* | *plan.c* | *program.c* | *fail_*.c* | *inject.c* | *store_audit.c* | *wrap_* | *model.c*) continue ;;
        *sigwait* | *pthread_sigmask* | *okv_store_fini*) continue ;;
    esac
    case $name in sigwait | pthread_sigmask | okv_store_fini) continue ;; esac
    calls=$((calls + 1))
    if grep -qx "$address" "$met"; then
        failed=$((failed + 1))
    else
        printf 'not failed: %s in %s\n' "$name" "$place"
    fi
done < <(returns)
printf '%s: %d calls, %d of them failed\n' "$(basename "$program")" $calls $failed
