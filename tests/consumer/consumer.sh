#!/bin/sh
# Installs a build into a fresh folder, then builds and runs the programs of our pages against that
# copy with nothing but pkg-config, as a packager's user would.
#
# shellcheck disable=SC2317 # functions are called through trap and try
#
# Usage: consumer.sh BUILD_FOLDER README EVENT_LOOP LIBRARY CC [CXX]; skipped without RQL_TEST_REDIS. Prints TAP.
# BUILD_FOLDER may be "installed": then the system has the library, as from a package.
# LIBRARY is what was built: shared, static, or both; then the archive is linked as well. A compiler
# is one argument, also when it is several words.
set -eu

build=$1
readme=$2
event_loop=$3
library=$4
cc=$5
cxx=${6:-}
work=$(mktemp -d /tmp/rql-test-XXXXXX)
export RQL_LOCAL_DIR="$work/local" RQL_LOCAL_IDLE=1

# The private server of local: ends by itself when it is not used; its guard keeps a lock till then.
finish() {
    [ ! -e "$RQL_LOCAL_DIR/guard.lock" ] || flock -w 30 "$RQL_LOCAL_DIR/guard.lock" true
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

root=$work/root
[ "$build" != installed ] || root=
is_installed() {
    [ -z "$root" ] || DESTDIR="$root" meson install -C "$build" --no-rebuild
    pc=$(find "$root/usr" -name rql.pc)
    [ -n "$pc" ]
}

# The first C program of a page; what has no main() is none.
extract_program() {
    awk '
        /^```c$/ { inside = 1; text = ""; next }
        /^```$/ && inside { inside = 0; if (text ~ /int main/) { printf "%s", text; exit } }
        inside { text = text $0 "\n" }' "$1" >"$work/report.c"
    grep -q main "$work/report.c"
}

# All we may use is what is installed: pkg-config puts its root in front. And libuv is the system's.
flags() {
    PKG_CONFIG_PATH=$(dirname "$pc") PKG_CONFIG_SYSROOT_DIR="$root" \
        PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 pkg-config "$@" rql
    pkg-config "$@" libuv
}

# compile OUTPUT COMPILER OPTION...
compile() {
    output=$1
    compiler=$2
    shift 2
    # shellcheck disable=SC2046,SC2086 # word lists on purpose
    $compiler "$@" -Wall -Wextra -Wpedantic -Werror $(flags --cflags) "$work/report.c" -x none -o "$output" \
        $(flags --libs) -Wl,-rpath,"$(dirname "$(dirname "$pc")")"
}

# The archive, with what rql.pc says that it needs; nothing of ours is loaded then.
link_archive() {
    # shellcheck disable=SC2046,SC2086 # word lists on purpose
    $cc -x c $(flags --cflags) "$work/report.c" -x none -o "$work/archived" \
        $(flags --static --libs | sed 's/-lrql\>/-l:librql.a/') || return
    ! readelf -d "$work/archived" | grep librql
}

if [ -z "${RQL_TEST_REDIS:-}" ]; then
    echo '1..0 # SKIP no redis-server'
    exit 0
fi
in_all=$((2 * (${cxx:+2} + 3) + 1))
[ "$library" != both ] || in_all=$((in_all + 2))
echo "1..$in_all"
try 'the library is installed' is_installed
standard='c99'
for page in "$readme" "$event_loop"; do
    try "$(basename "$page") has a program" extract_program "$page"
    try "it compiles in $standard" compile "$work/c" "$cc" -x c "-std=$standard"
    try "it takes a lock in $standard" "$work/c"
    if [ -n "$cxx" ]; then
        try 'it compiles in C++17' compile "$work/cpp" "$cxx" -x c++ -std=c++17
        try 'it takes a lock in C++17' "$work/cpp"
    fi
    standard=gnu99 # for the header of libuv
done
if [ "$library" = both ]; then
    try 'it can be linked with the archive' link_archive
    try 'and takes a lock' "$work/archived"
fi
exit "$failed"
