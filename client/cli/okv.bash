# Completion of okv(1), okv-server(1) and kv-bench(1) in bash: commands of okv, options as --help has them, and URIs.
_okv()
{
    local line=${COMP_LINE:0:COMP_POINT} own=${COMP_WORDS[COMP_CWORD]} words word option value command='' i
    COMPREPLY=()

    # bash has words of its own at each = and : (COMP_WORDBREAKS), and replaces the last of them.
    read -ra words <<<"$line"
    case $line in *[[:space:]]) words+=('') ;; esac
    case $own in = | :) own='' ;; esac
    word=${words[-1]} option=${words[-2]}
    [[ $word = *"$own" ]] || word=$own # in quotes
    case $word in --*=*) option=${word%%=*} value=${word#*=} ;; *) value=$word ;; esac

    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
            -s | -t | --server | --timeout | --database | --user | --key-file) i=$((i + 1)) ;;
            -* | help) ;;
            *) [ "${1##*/}" != okv ] || command=${words[i]}; break ;;
        esac
    done
    case $option:$word in
        -s:* | -l:* | --server:* | --listen:*)
            value=${value##*=} # kv-bench has NAME=URI
            case $value in
                *:///*) value=${value#*://}
                    mapfile -t COMPREPLY < <(compgen -P "${word%"$value"}" -f -- "$value") ;;
                *) mapfile -t COMPREPLY < <(compgen -P "${word%"$value"}" -W "$("$1" --help 2>/dev/null |
                    grep -oE '[a-z+]+://' | grep -v '^http')" -- "$value" | sort -u) ;;
            esac ;;
        *:--*=*) mapfile -t COMPREPLY < <(compgen -P "${word%"$value"}" -f -- "$value") ;;
        *:-*) mapfile -t COMPREPLY < <(compgen -W "$("$1" ${command:+"$command"} --help 2>/dev/null |
            sed -nE 's/^ {2,6}(-., )?(--[a-z-]+=?).*/\2/p')" -- "$word") ;;
        *) if [ "${1##*/}" = okv ] && [ -z "$command" ]; then
               mapfile -t COMPREPLY < <(compgen -W "help $("$1" --help 2>/dev/null |
                   sed -n '/^Commands:$/,/^$/s/^  \([a-z]*\) .*/\1/p')" -- "$word")
           else
               mapfile -t COMPREPLY < <(compgen -f -- "$word")
           fi ;;
    esac
    COMPREPLY=("${COMPREPLY[@]#"${word%"$own"}"}")
    case ${COMPREPLY[*]} in *= | *://) compopt -o nospace 2>/dev/null ;; esac
}
complete -F _okv okv okv-server kv-bench
