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
[ -s /usr/share/rql/rql-alerts.yml ] && [ -s /usr/share/rql/rql-dashboard.json ]

# The scripts of rql-swarm, called as dpkg calls them on a system that systemd runs. Programs that only write down how
# they were called stand for the programs of systemd. systemd-sysusers runs, but in a folder, because this system may
# have the group already.
mkdir -p "$work/control" "$work/programs" "$work/system" "$work/root/etc" "$work/root/usr/lib/sysusers.d"
cp /usr/lib/sysusers.d/rql.conf "$work/root/usr/lib/sysusers.d"
dpkg-deb --control "$folder"/rql-swarm_*.deb "$work/control"
sed -i "s|/run/systemd/system|$work/system|" "$work"/control/p*
for program in deb-systemd-helper deb-systemd-invoke systemctl; do
    printf '#!/bin/sh\necho "%s $*" >>"%s"\n' "$program" "$work/calls" >"$work/programs/$program"
done
printf '#!/bin/sh\nexec "%s" --root="%s" "$@"\n' "$(command -v systemd-sysusers)" "$work/root" \
    >"$work/programs/systemd-sysusers"
chmod 755 "$work"/programs/*

call_script() {
    script=$work/control/$1
    shift
    [ ! -e "$script" ] || PATH="$work/programs:$PATH" DPKG_MAINTSCRIPT_PACKAGE=rql-swarm sh "$script" "$@"
}

# An upgrade neither stops nor starts a unit. The group of rql-agent.socket is created.
call_script prerm upgrade 2
call_script preinst upgrade 1 2
call_script postrm upgrade 2
call_script postinst configure 1
if grep -E ' (stop|start|restart|try-restart) ' "$work/calls"; then exit 1; fi
grep -q '^rql:' "$work/root/etc/group"

# A removal stops each unit and the instances of each template.
call_script prerm remove
stopped=" $(sed -n 's/^deb-systemd-invoke stop //p' "$work/calls") "
for unit in $(dpkg -L rql-swarm | sed -n 's|.*/systemd/system/||p' | sed 's/@\./@*./'); do
    case $stopped in
    *" $unit "*) ;;
    *) echo "a removal does not stop $unit" >&2 && exit 1 ;;
    esac
done

remove
trap - EXIT
[ ! -e /usr/bin/rql ] && [ ! -e /usr/include/rql ]
