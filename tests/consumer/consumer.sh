#!/bin/sh
# Installs a build into a fresh folder, then builds and runs a program against that copy with
# nothing but pkg-config, as a packager's user would.
#
# shellcheck disable=SC2317 # functions are called through trap and try
#
# Usage: consumer.sh BUILD_FOLDER SOURCE CC [CXX]; server from RQL_TEST_REDIS. Prints TAP.
set -eu

build=$1
source=$2
cc=$3
cxx=${4:-}
work=$(mktemp -d /tmp/rql-test-XXXXXX)
server=

finish() {
    if [ -n "$server" ]; then
        kill "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
    fi
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' HUP INT TERM

# try NAME COMMAND...: one line of TAP; the command's words only when it fails.
number=0
failed=0
try() {
    name=$1
    shift
    number=$((number + 1))
    if "$@" >"$work/log" 2>&1; then
        echo "ok $number $name"
    else
        echo "not ok $number $name"
        sed 's/^/# /' "$work/log"
        failed=1
    fi
}

install_copy() {
    DESTDIR="$work/root" meson install -C "$build" --no-rebuild
}

# All we may use is the installed folder: pkg-config puts its root in front.
flags() {
    PKG_CONFIG_PATH=$(dirname "$pc") PKG_CONFIG_SYSROOT_DIR="$work/root" \
        PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config "$@" rql
}

# compile OUTPUT COMPILER OPTION...
compile() {
    output=$1
    shift
    # shellcheck disable=SC2046 # word lists on purpose
    "$@" -Wall -Wextra -Wpedantic -Werror $(flags --cflags) "$source" -x none -o "$output" \
        $(flags --libs) -Wl,-rpath,"$(dirname "$(dirname "$pc")")"
}

answers() {
    [ -S "$work/s" ] && kill -0 "$server"
}

# The server's socket appears when it is ready to be asked.
start_server() {
    "$RQL_TEST_REDIS" --port 0 --unixsocket "$work/s" --save '' --dir "$work" \
        >"$work/server.log" 2>&1 &
    server=$!
    tries=200
    until answers || [ "$tries" -eq 0 ]; do
        tries=$((tries - 1))
        sleep 0.05
    done
    answers
}

if [ -z "${RQL_TEST_REDIS:-}" ]; then
    echo '1..0 # SKIP no redis-server'
    exit 0
fi
echo "1..$((${cxx:+2} + 4))"
try 'the library is installed' install_copy
pc=$(find "$work/root" -name rql.pc)
try 'a private server starts' start_server
try 'a C99 program compiles against it' compile "$work/c" "$cc" -x c -std=c99
try 'the C99 program runs' "$work/c" "unix://$work/s"
if [ -n "$cxx" ]; then
    try 'a C++17 program compiles against it' compile "$work/cpp" "$cxx" -x c++ -std=c++17
    try 'the C++17 program runs' "$work/cpp" "unix://$work/s"
fi
exit "$failed"
