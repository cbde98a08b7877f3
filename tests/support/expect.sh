# shellcheck shell=bash
# For scripts that sourced programs.sh: runs commands of okv(1) where a server answers. Sets `okv` to one with a
# deadline that no machine is too slow for.

# shellcheck disable=SC2016,SC2154 # for the script; of programs.sh
printf '#!/bin/sh\nexec "%s" -t 120s "$@"\n' "$okv" >"$scratch/okv"
chmod +x "$scratch/okv"
okv=$scratch/okv

# expect STATUS OUTPUT COMMAND...: okv with this command ends so and prints this.
expect() {
    local status=0 expected=$1 output=$2 printed
    shift 2
    checks=$((checks + 1))
    printed=$("$okv" "$@" 2>"$scratch/err") || status=$?
    if [ $status -ne "$expected" ] || [ "$printed" != "$output" ]; then
        failures=$((failures + 1))
        printf 'WRONG okv %s: status %s, printed: %s\n' "$*" $status "$printed"
        cat "$scratch/err"
    fi
}
