# Completion of okv(1) in bash: commands, and options of a command, as its --help has them.
_okv()
{
    local word=${COMP_WORDS[COMP_CWORD]} command='' i
    COMPREPLY=()

    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
            -s | -t | --server | --timeout | --database | --user | --key-file) i=$((i + 1)) ;;
            -* | help) ;;
            *) command=${COMP_WORDS[i]}; break ;;
        esac
    done
    case $word in
        -*) mapfile -t COMPREPLY < <(compgen -W "$(okv ${command:+"$command"} --help 2>/dev/null |
                sed -nE 's/^ {2,6}(-., )?(--[a-z-]+=?).*/\2/p')" -- "$word") ;;
        *) if [ -z "$command" ]; then
               mapfile -t COMPREPLY < <(compgen -W "help $(okv --help 2>/dev/null |
                   sed -n '/^Commands:$/,/^$/s/^  \([a-z]*\) .*/\1/p')" -- "$word")
           else
               mapfile -t COMPREPLY < <(compgen -f -- "$word")
           fi ;;
    esac
    case ${COMPREPLY[*]} in *=) compopt -o nospace 2>/dev/null ;; esac
}
complete -F _okv okv
