# Completion of rql for fish. The program knows the words.
function __rql_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program $words[1]
    set -e words[1]

    $program help --complete $words "$current" 2>/dev/null
    and return
    if set -l dashes (contains -i -- -- $words)
        set -e words[1..$dashes]
        complete -C "$(string join ' ' -- (string escape -- $words) $current)"
    else
        __fish_complete_path "$current"
    end
end

complete -c rql -f -a '(__rql_complete)'
