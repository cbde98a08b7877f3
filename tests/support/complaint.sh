# shellcheck shell=bash
# For scripts that look at what a program complains of: source this after programs.sh. The variable `seconds` is the time
# that nothing takes.
# shellcheck disable=SC2154 # of the script and programs.sh
failures=0 checks=0

wrong() {
    failures=$((failures + 1))
    printf 'WRONG %s: %s\n' "$what" "$1"
    sed 's/^/      | /' "$scratch/err"
}

# named_twice: the URIs, without port and query, that `message` has more than once.
named_twice() {
    grep -oE '(rdma|ofi|tcps?|local)://[^][ ,;"?)]+[^][ ,;"?):.]' <<<"$message" | sed -E 's/:[0-9]+$//' | sort | uniq -d
}

# check WHAT STATUS CAUSE FIX COMMAND...: the command fails with STATUS and one line that matches CAUSE
# and FIX (extended regular expressions), and names each URI once. Sets `message` to that line.
check() {
    local status=0 expected=$2 cause=$3 fix=$4 lines
    what=$1
    shift 4
    checks=$((checks + 1))
    timeout -k 5 "$seconds" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
    # argp adds where to find all options, and a server says what it is, that it waits, or may take fewer clients than it
    # is to; these are no part of the message.
    message=$(sed -e '/^okv-server: version .* limits: /d' -e '/^Try .* for more information\.$/d' -e '/ is in use: waiting up to /d' \
        -e '/ the hard limit on open files is /d' "$scratch/err")
    lines=$(printf '%s\n' "$message" | wc -l)
    if [ $status -eq 124 ] || [ $status -eq 137 ]; then
        wrong "took longer than $seconds seconds"
    elif [ $status -ne "$expected" ]; then
        wrong "exit status $status and not $expected"
    elif [ -z "$message" ] || [ "$lines" -ne 1 ]; then
        wrong "$lines lines and not one"
    elif [[ ! $message =~ ^([^ ]*/)?(okv|okv-server|kv-bench)(\ [a-z]+)?:\  ]]; then
        wrong "the line does not say which program speaks"
    elif [[ ! $message =~ $cause ]]; then
        wrong "no cause like /$cause/"
    elif [[ ! $message =~ $fix ]]; then
        wrong "no advice like /$fix/"
    elif [ -n "$(named_twice)" ]; then
        wrong "it names $(named_twice) twice"
    elif [ -s "$scratch/out" ] && [ "$1" != "$bench" ]; then
        wrong "something is on standard output"
    fi
    [ -z "${VERBOSE:-}" ] || printf '%-40s %s\n' "$what" "$message"
}
