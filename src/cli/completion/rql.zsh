#compdef rql
# Completion of rql for zsh. The program knows the words.
_rql() {
    local found
    local -a lines

    if found=$("${(Q)words[1]}" help --complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null); then
        lines=("${(@f)found}")
        # A colon ends the word for _describe.
        lines=("${(@)lines//:/\\:}")
        lines=("${(@)lines/$'\t'/:}")
        [[ -z $found ]] || _describe -V word lines
    elif (( words[(I)--] )); then
        (( CURRENT -= words[(i)--] ))
        shift ${words[(i)--]} words
        _normal
    else
        _files
    fi
}

if [[ $funcstack[1] == _rql ]]; then
    _rql "$@"
else
    compdef _rql rql
fi
