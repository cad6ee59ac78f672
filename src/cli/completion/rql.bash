# Completion of rql for bash with bash-completion. The program knows all words.
_rql() {
    local cur words cword found line i prefix part

    _get_comp_words_by_ref -n =: cur words cword
    if found=$("$1" help --complete "${words[@]:1:cword}" 2>/dev/null); then
        # What stands in front of the last = or : is no part of the word for bash.
        part=${COMP_WORDS[COMP_CWORD]}
        [[ $part != [=:] ]] || part=
        prefix=${cur%"$part"}
        while IFS=$'\t' read -r line _; do
            COMPREPLY+=("$(printf %q "${line#"$prefix"}")")
        done <<<"$found"
        [[ -n $found ]] || COMPREPLY=()
        [[ ${#COMPREPLY[@]} -ne 1 || $line != *= ]] || compopt -o nospace
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
