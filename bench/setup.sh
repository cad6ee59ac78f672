# shellcheck shell=sh
# Sourced by demo.sh and run.sh from the top of the tree: packages, a release build, a private
# server.
# Says what it does on stderr; stdout belongs to the programs.

export LC_ALL=C
scratch=
server_pid=
program_pid=
reporter_pid=
progress_s=5 # between two lines about a command that takes long
tied= # in front of a command: it is ended by the kernel if this shell is killed
build=build/bench

fail() {
    echo "${0##*/}: $*" >&2
    exit 3
}

# Ends what this run started, however it ends.
clean_up() {
    for pid in $program_pid $server_pid $reporter_pid; do
        kill "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    [ -z "$scratch" ] || rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# The last line of a log, again and again, where it is a new one. Ends with the script.
report() {
    said=
    while sleep "$progress_s" >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        line=$(tail -n 1 "$1" | cut -c 1-120)
        [ "$line" = "$said" ] || echo "  $line" >&2
        said=$line
    done
}

# with_progress LOG COMMAND...: writes into the log, and shows how far it is.
with_progress() {
    log=$1
    shift
    : >"$log"
    report "$log" &
    reporter_pid=$!
    "$@" >"$log" 2>&1 </dev/null
    status=$?
    kill "$reporter_pid" 2>/dev/null
    wait "$reporter_pid" 2>/dev/null
    reporter_pid=
    return "$status"
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# The Debian packages of what is not there, one per line.
missing_packages() {
    has cc || printf '%s\n' gcc libc6-dev
    has python3 || echo python3
    has meson || echo meson
    has ninja || echo ninja-build
    has pkg-config || echo pkg-config
    # Without it meson installs into lib64, where Debian's loader and pkg-config do not look.
    ! has dpkg || has dpkg-architecture || echo dpkg-dev
    has redis-server || has valkey-server || echo redis-server
    for pair in hiredis:libhiredis-dev libuv:libuv1-dev; do
        pkg-config --exists "${pair%%:*}" 2>/dev/null || echo "${pair#*:}"
    done
}

# Those of the peers that the benchmark measures.
missing_peers() {
    pkg-config --exists libpq 2>/dev/null || echo libpq-dev
    ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || has postgres || echo postgresql
    has etcd || echo etcd-server
    has node || echo nodejs
    has npm || echo npm
    /usr/bin/python3 -c 'import redis' 2>/dev/null || echo python3-redis
}

# Run as root with the packages as arguments. A policy-rc.d that says no keeps the packages of
# servers from starting services beside the private ones, and the services stay off afterwards.
# shellcheck disable=SC2016 # expanded by the shell that runs it
install_as_root='
policy=/usr/sbin/policy-rc.d
services=
for package; do
    case $package in
    redis-server | postgresql) services="$services $package" ;;
    etcd-server) services="$services etcd" ;;
    esac
done
if [ ! -e $policy ]; then
    trap "rm -f $policy" EXIT
    trap "exit 1" HUP INT TERM
    printf "#!/bin/sh\nexit 101\n" >$policy && chmod 755 $policy
fi
export DEBIAN_FRONTEND=noninteractive
apt-get install -y --no-install-recommends "$@" ||
    { apt-get update && apt-get install -y --no-install-recommends "$@"; } || exit 1
if [ -n "$services" ] && command -v systemctl >/dev/null; then
    systemctl disable $services || true
fi
'

# The packages as one word list; 1: they are not there, and $reason says why.
install() {
    if ! has apt-get; then
        reason="missing: $1 (Debian's names); there is no apt-get to install them"
        return 1
    fi
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        as_root='sudo -n'
        if ! has sudo; then
            reason="missing: $1; run this as root once, or install them"
            return 1
        fi
        [ ! -t 0 ] || as_root=sudo # somebody is there who can type a password
    fi
    echo "installing $1" >&2
    # shellcheck disable=SC2086 # lists of words
    with_progress "$scratch/install.log" $as_root sh -c "$install_as_root" sh $1 && return
    reason="cannot install $1: $(grep -E '^(E:|sudo:)' "$scratch/install.log" | head -n 1)"
    return 1
}

install_packages() {
    wanted=$(missing_packages | tr '\n' ' ')
    [ -n "$wanted" ] || return 0
    install "${wanted% }" || fail "$reason"
    wanted=$(missing_packages | tr '\n' ' ')
    [ -z "$wanted" ] || fail "still missing after the installation: $wanted"
}

# What cannot be installed is not measured, so nothing of this is fatal.
install_peers() {
    wanted=$(missing_peers | tr '\n' ' ')
    [ -n "$wanted" ] || return 0
    install "${wanted% }" && return
    for package in $wanted; do # one unknown name fails the whole list
        install "$package" || echo "${0##*/}: $reason" >&2
    done
}

# The targets as arguments. A tree that another user owns is built in a folder
# of one's own; a folder that was made for another tree, or not to its end, is made again.
build_programs() {
    if ! mkdir -p "$build" 2>/dev/null || [ ! -w "$build" ]; then
        build=${XDG_CACHE_HOME:-$HOME/.cache}/rql-build-bench
        mkdir -p "$build" || fail "cannot write $build"
    fi
    options='--buildtype=release -Dbench=enabled -Dprogram=auto'
    made_for="$PWD $options with libpq $(pkg-config --modversion libpq 2>/dev/null)" # it may have come since
    if [ "$(cat "$build/made-for" 2>/dev/null)" != "$made_for" ]; then
        echo "building in $build" >&2
        rm -rf "$build"
        # shellcheck disable=SC2086 # a list of words
        meson setup $options "$build" >"$scratch/build.log" 2>&1 || show_build_log
        echo "$made_for" >"$build/made-for"
    fi
    with_progress "$scratch/build.log" ninja -C "$build" "$@" || show_build_log
}

show_build_log() {
    tail -n 40 "$scratch/build.log" >&2
    fail "the build failed"
}

# A server that nobody else can reach.
start_server() {
    program=$(command -v redis-server || command -v valkey-server)
    socket=$scratch/s
    $tied "$program" --port 0 --unixsocket "$socket" --unixsocketperm 700 --dir "$scratch" \
        --save '' --appendonly no --daemonize no >"$scratch/server.log" 2>&1 &
    server_pid=$!
    tries=100
    until [ -S "$socket" ]; do
        tries=$((tries - 1))
        if [ "$tries" -eq 0 ] || ! kill -0 "$server_pid" 2>/dev/null; then
            fail "$program does not start: $(tail -n 1 "$scratch/server.log")"
        fi
        sleep 0.05
    done
}

prepare() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/rql.XXXXXX") || fail "no temporary folder"
    if setpriv --pdeathsig TERM true 2>/dev/null; then
        tied='setpriv --pdeathsig TERM'
    fi
    install_packages
}

# Runs a command to its end and exits as it does. In the background, because a shell that waits for
# a command in the foreground hears no signal.
run_program() {
    $tied "$@" &
    program_pid=$!
    wait "$program_pid"
    status=$?
    program_pid=
    exit "$status"
}
