# shellcheck shell=sh
# Sourced by demo.sh and run.sh from the top of the tree: packages, a release build, a private server.
# Says what it does on stderr; stdout belongs to the programs.

export LC_ALL=C
scratch=
server_pid=
program_pid=
tied= # in front of a command: it is ended by the kernel if this shell is killed
build=build/bench

fail() {
    echo "${0##*/}: $*" >&2
    exit 3
}

# Ends what this run started, however it ends.
clean_up() {
    for pid in $program_pid $server_pid; do
        kill "$pid" 2>/dev/null
        wait "$pid" 2>/dev/null
    done
    [ -z "$scratch" ] || rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

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
    has redis-server || has valkey-server || echo redis-server
    for pair in hiredis:libhiredis-dev libuv:libuv1-dev; do
        pkg-config --exists "${pair%%:*}" 2>/dev/null || echo "${pair#*:}"
    done
}

# Run as root with the packages as arguments. A policy-rc.d that says no keeps the redis-server
# package from starting a service beside the private server, and the service stays off afterwards.
# shellcheck disable=SC2016 # expanded by the shell that runs it
install_as_root='
policy=/usr/sbin/policy-rc.d
service=
for package; do [ "$package" != redis-server ] || service=redis-server; done
if [ ! -e $policy ]; then
    trap "rm -f $policy" EXIT
    trap "exit 1" HUP INT TERM
    printf "#!/bin/sh\nexit 101\n" >$policy && chmod 755 $policy
fi
export DEBIAN_FRONTEND=noninteractive
apt-get install -y --no-install-recommends "$@" ||
    { apt-get update && apt-get install -y --no-install-recommends "$@"; } || exit 1
if [ -n "$service" ] && command -v systemctl >/dev/null; then
    systemctl disable "$service" || true
fi
'

install_packages() {
    wanted=$(missing_packages | tr '\n' ' ')
    wanted=${wanted% }
    [ -n "$wanted" ] || return 0
    has apt-get || fail "missing: $wanted (Debian's names); there is no apt-get to install them"
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        has sudo || fail "missing: $wanted; run this as root once, or install them"
        as_root=sudo
    fi
    echo "installing $wanted" >&2
    # shellcheck disable=SC2086 # a list of words
    $as_root sh -c "$install_as_root" sh $wanted >"$scratch/install.log" 2>&1 ||
        fail "cannot install $wanted: $(grep -E '^(E:|sudo:)' "$scratch/install.log" | head -n 1)"
    wanted=$(missing_packages | tr '\n' ' ')
    [ -z "$wanted" ] || fail "still missing after the installation: $wanted"
}

# $1: the program. A tree that another user owns is built in a folder of one's own; a folder that was
# made for another tree, or not to its end, is made again.
build_program() {
    if ! mkdir -p "$build" 2>/dev/null || [ ! -w "$build" ]; then
        build=${XDG_CACHE_HOME:-$HOME/.cache}/rql-build-bench
        mkdir -p "$build" || fail "cannot write $build"
    fi
    if [ "$(cat "$build/source" 2>/dev/null)" != "$PWD" ]; then
        echo "building in $build" >&2
        rm -rf "$build"
        meson setup --buildtype=release "$build" >"$scratch/build.log" 2>&1 || show_build_log
        echo "$PWD" >"$build/source"
    fi
    ninja -C "$build" "bench/$1" >"$scratch/build.log" 2>&1 || show_build_log
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

# $1: the program to build.
set_up() {
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/rql.XXXXXX") || fail "no temporary folder"
    if setpriv --pdeathsig TERM true 2>/dev/null; then
        tied='setpriv --pdeathsig TERM'
    fi
    install_packages
    build_program "$1"
    start_server
}

# Runs the program that was built. In the background, because a shell that waits for a command in
# the foreground hears no signal.
run_program() {
    program=$build/bench/$1
    shift
    $tied "$program" "$@" &
    program_pid=$!
    wait "$program_pid"
    status=$?
    program_pid=
    exit "$status"
}
