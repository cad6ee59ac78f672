# Completion of rql for bash with bash-completion. The program knows the words.
_rql() {
    local cur words cword found word part i

    COMPREPLY=()
    _get_comp_words_by_ref -n =: cur words cword
    if found=$("$1" help --complete "${words[@]:1:cword}" 2>/dev/null); then
        [[ -n $found ]] || return
        # For bash a word begins behind the last = or :
        part=${COMP_WORDS[COMP_CWORD]}
        [[ $part != [=:] ]] || part=
        while IFS=$'\t' read -r word _; do
            COMPREPLY+=("$(printf %q "${word#"${cur%"$part"}"}")")
        done <<<"$found"
        return
    fi
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == -- ]]; then
            _command_offset $((i + 1))
            return
        fi
    done
    compopt -o default
} && complete -F _rql rql
