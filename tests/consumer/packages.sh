#!/bin/sh
# Installs the Debian packages, uses what is in them as whoever has installed them would, and removes them.
#
# Usage: packages.sh FOLDER [SUDO]    FOLDER as .pkg/build-deb left it. Ends at the first thing that is wrong.
set -eu

folder=${1:?Usage: packages.sh FOLDER [SUDO]}
sudo=${2:-}
tests=$(CDPATH='' cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d /tmp/rql-test-XXXXXX)
names=$(for file in "$folder"/*.deb; do dpkg-deb --field "$file" Package; done)
export RQL_LOCAL_DIR="$work/local" RQL_LOCAL_IDLE=1

remove() {
    # shellcheck disable=SC2086 # a word list on purpose
    $sudo dpkg --purge $names
    [ ! -e "$RQL_LOCAL_DIR/guard.lock" ] || flock -w 30 "$RQL_LOCAL_DIR/guard.lock" true
    rm -rf "$work"
}
trap remove EXIT
trap 'exit 1' HUP INT TERM

exec 9</var/lib/dpkg && flock 9 # other checkouts may do the same on this computer
$sudo dpkg --install "$folder"/*.deb

python3 "$tests/examples/test_examples.py" installed cc c++

[ "$(rql --version)" = "rql $(dpkg-query -W -f '${Version}' rql | sed 's/-[^-]*$//')" ]
[ "$(rql run nightly -- printenv RQL_LOCK)" = nightly ]

# A project of CMake, with the shared library and with the static one.
mkdir "$work/cmake"
cat >"$work/cmake/uses.c" <<'END'
#include <rql/rql.h>
#include <stdio.h>

int main(void)
{
    return puts(rql_status_text(RQL_TIMED_OUT)) < 0;
}
END
cat >"$work/cmake/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.18)
project(consumer C)
find_package(rql 0.1 REQUIRED)
foreach(kind rql static)
  add_executable(uses-${kind} uses.c)
  target_link_libraries(uses-${kind} PRIVATE rql::${kind})
endforeach()
END
cmake -S "$work/cmake" -B "$work/cmake/build"
cmake --build "$work/cmake/build"
for kind in rql static; do
    [ "$("$work/cmake/build/uses-$kind")" = 'timed out' ]
done
readelf -d "$work/cmake/build/uses-rql" | grep -q 'NEEDED.*librql'
if readelf -d "$work/cmake/build/uses-static" | grep -q 'NEEDED.*librql'; then exit 1; fi

man -w rql rql-run librql rql_lock_acquire >/dev/null
systemd-analyze verify rql-swarm.service rql-metrics.timer rql-elect@a.service rql-agent.service
getent group rql >/dev/null
[ -s /usr/share/rql/rql-alerts.yml ] && [ -s /usr/share/rql/rql-dashboard.json ]

remove
trap - EXIT
[ ! -e /usr/bin/rql ] && [ ! -e /usr/include/rql ]
