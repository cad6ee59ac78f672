#!/bin/sh
# Runs everything that a change must pass, from a clean clone, without asking anything.
#
# Usage: sh tests/run.sh [--quick | STAGE... | soak MINUTES | promises MINUTES | mutants FILE...]
#        sh tests/run.sh one PROGRAM [WORD...]   one test program, or its tests whose titles have all these words
#
# Without an argument it runs all stages; --quick is the stage gcc. It installs the Debian packages that are missing
# (as root, or by sudo). The first line of output says what will run and how long that takes. The last lines are the
# failures, each with its log and the command that repeats it; the processor time and the wall time; and
# "N passed, N failed". The exit status is 0 if nothing failed.
#
# Environment: RQL_BUILD_DIR     folder of the build trees (default: build/ of the repository)
#              RQL_JOBS          parallel compilations (default: number of processors); three times as many tests
#                                run at the same time, because they usually wait
#              RQL_TEST_REDIS    the server that is tested with (default: redis-server in PATH)
#              RQL_FUZZ_S        seconds for each fuzz target (default 10)
#              RQL_PROGRESS_S    seconds between two lines of progress without a terminal (default 30)
#              RQL_BUDGET        "refresh": the stage budget writes its counts to budget/instructions.json
#              RQL_DEBIAN13_DIR  folder of the stage debian13's system, 1 GB, which several repositories can share
#                                (default: debian13/ beside the build trees)
#              RQL_DEBIAN12_DIR  the same for the stage bare, 300 MB (default: debian12/)
#              RQL_DEBIAN11_DIR  the same for the stage platforms, 600 MB (default: debian11/)
#              RQL_STATIC_CACHE  the same for its sources and built libraries, 250 MB (default: static-cache/)
#              RQL_DEMO_RUNS     runs of the stage demo (default 300)
#              RQL_BARE_STAGES   the stages that `tests/run.sh` runs inside the stage bare (default: all)
#
# shellcheck disable=SC2317 # functions are called by trap
set -u

root=$(CDPATH='' cd "$(dirname "$0")/.." && pwd)
out=${RQL_BUILD_DIR:-$root/build}
all='format docs shell gcc sample light packages asan tsan valgrind budget fuzz tidy'
by_name='tidy_deep faults tls cluster connectivity promises timed soak guarantees explore mutants coverage valgrind_all debian13 bare platforms demo'
minutes=10 # of the stages soak and promises

export RQL_BUILD_DIR="$out"
export RQL_JOBS="${RQL_JOBS:-$(getconf _NPROCESSORS_ONLN)}"
export PYTHONDONTWRITEBYTECODE=1
export DEBIAN_FRONTEND=noninteractive

# ---- packages ----

# What the stages with_gcc need, and all of them.
packages_gcc='meson ninja-build gcc g++ libc6-dev pkg-config libhiredis-dev libuv1-dev libcjson-dev
libcmocka-dev libssl-dev libmicrohttpd-dev zlib1g-dev libzstd-dev openssl redis-server systemd python3 ruby abigail-tools dpkg-dev'
packages_all="$packages_gcc build-essential valgrind clang clang-format clang-tidy doxygen shellcheck debhelper lintian git libpq-dev
cmake man-db mandoc bash-completion zsh fish"
with_gcc='one gcc sample light faults tls cluster connectivity promises timed soak guarantees explore mutants coverage debian13 bare platforms demo'
optional='chromium cppcheck gcc-multilib python3-redis ruby-redis libredis-perl node-redis php-cli php-redis'
policy=/usr/sbin/policy-rc.d
remove_policy=
reporter=
missing=
sudo='sudo -n'
[ ! -t 0 ] || sudo=sudo # a person at the terminal can type a password
[ "$(id -u)" -ne 0 ] || sudo=
export RQL_SUDO="$sudo"

# Also while dpkg still has to run its triggers, for another package that is being installed.
is_installed() {
    case $(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null) in
    installed | triggers-*) return 0 ;;
    esac
    return 1
}

# list_missing PACKAGE...: those that are not installed, one line.
list_missing() {
    for package in "$@"; do
        is_installed "$package" || printf '%s ' "$package"
    done
}

needs_gcc_alone() {
    [ "$packages" = "$packages_gcc" ]
}

# The sanitizers' libraries of the default clang.
has_runtime() {
    dpkg-query -W -f='${db:Status-Status}\n' 'libclang-rt-*-dev' 2>/dev/null | grep -qx installed
}

runtime_package() {
    version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p')
    echo "libclang-rt-${version:-14}-dev"
}

as_root() {
    $sudo "$@"
}

# Debian starts a service when it is installed. The tests run servers of their own: while this policy exists, nothing
# is started, and a service that runs already is left alone.
forbid_services() {
    [ ! -e "$policy" ] || return 0
    remove_policy=yes
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null && as_root chmod 755 "$policy"
}

allow_services() {
    [ -z "$remove_policy" ] || as_root rm -f "$policy"
    remove_policy=
}

# Waits while another program installs packages. Nothing is removed for a package, because another program may use it.
apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends --no-remove "$@" \
        >>"$out/packages.log" 2>&1 </dev/null
}

# Shows the last line of apt's output now and then, so that an installation does not look as if it hung.
begin_report() {
    while sleep "${RQL_PROGRESS_S:-30}" >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        echo "     packages: $(tail -n 1 "$out/packages.log" | cut -c 1-120)" >&2
    done &
    reporter=$!
}

end_report() {
    [ -z "$reporter" ] || kill "$reporter" 2>/dev/null
    reporter=
}

install_missing() {
    forbid_services
    as_root apt-get update >>"$out/packages.log" 2>&1 </dev/null
    needs_gcc_alone || set -- "$@" "$(runtime_package)"
    # One unknown name fails the whole list: then one by one.
    if ! apt_install "$@"; then
        for package in "$@"; do
            apt_install "$package"
        done
    fi
    for package in $optional; do
        needs_gcc_alone || is_installed "$package" || apt_install "$package"
    done
    case " $* " in
    *' redis-server '*) # a policy that existed before may have let it start
        as_root service redis-server stop >>"$out/packages.log" 2>&1
        ;;
    esac
    allow_services
    missing=$(list_missing "$@")
}

need_packages() {
    if ! command -v dpkg-query >/dev/null; then
        echo "run.sh: no Debian here; expecting to find installed: $(echo "$packages" | tr '\n' ' ')"
        return
    fi
    # shellcheck disable=SC2046,SC2086 # word lists on purpose
    set -- $(list_missing $packages)
    if [ $# -eq 0 ] && { needs_gcc_alone || has_runtime; }; then
        return
    fi
    echo "installing $*"
    begin_report
    install_missing "$@"
    end_report
    if [ -n "$missing" ]; then
        echo "run.sh: missing packages that could not be installed: $missing(see $out/packages.log)" >&2
        exit 1
    fi
}

# ---- main ----

# What a stage takes on two processors that do nothing else, from a clean clone, in seconds.
seconds_of() {
    of_stages=' gcc:210 sample:90 light:50 packages:105 asan:120 tsan:110 valgrind:100 budget:30 tidy:60 tidy_deep:300
        faults:160 tls:240 cluster:480 connectivity:450 timed:3600 guarantees:270 explore:2400 mutants:1800 coverage:360
        valgrind_all:1800 debian13:720 bare:1800 platforms:1200 ' # budget: behind gcc and light
    case $1 in
    soak) echo $((60 + 60 * minutes)) ;;
    promises) echo $((60 + 5 * 60 * minutes)) ;;
    fuzz) echo $((10 + 2 * ${RQL_FUZZ_S:-10})) ;;
    demo) echo $((30 + 4 * ${RQL_DEMO_RUNS:-300})) ;;
    *)
        found=${of_stages#*" $1:"}
        [ "$found" != "$of_stages" ] || found=3
        echo "${found%%[!0-9]*}"
        ;;
    esac
}

# The first line of output.
say_time() {
    seconds=0
    for stage in $stages; do
        seconds=$((seconds + $(seconds_of "$stage")))
    done
    [ "$stages" != "$all" ] || seconds=660 # they are built while the tests of others wait
    about='less than a minute'
    [ "$seconds" -lt 60 ] || about="about $(((seconds + 30) / 60)) min"
    echo "$stages: $about on two free processors, once the packages are installed"
}

usage() {
    sed -n '2,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//;p;}' "$0" >&2
    echo "stages: $all; by name only: $by_name" >&2
    exit 2
}

# shellcheck disable=SC2086 # a word list on purpose
[ $# -gt 0 ] || set -- $all
[ "$1" != --quick ] || set -- gcc
stages=$1
case "$# $1 ${2:-}" in
"1 one "*) usage ;;
*" one "*) ;;
*" mutants "*[./-]*) packages_gcc="$packages_gcc python3-clang" ;; # files or options, and no other stage
"2 "*" "*[!0-9]*) stages=$* ;;
"2 soak "* | "2 promises "*) minutes=$2 ;;
*) stages=$* ;;
esac
if [ "$stages" = "$1" ]; then # what is left are the words of this one stage
    shift
else
    shift $#
fi
for stage in $stages; do
    case " $all $by_name " in
    *" $stage "*) ;;
    *) [ "$stages" = one ] || usage ;;
    esac
done

packages=$packages_gcc
for stage in $stages; do
    case " $with_gcc " in
    *" $stage "*) ;;
    *) packages=$packages_all ;;
    esac
done

[ "$stages" = one ] || say_time
mkdir -p "$out"
trap 'allow_services; end_report' EXIT
trap 'exit 1' HUP INT TERM
need_packages
trap - EXIT HUP INT TERM
export RQL_PACKAGES="$packages_gcc"
exec python3 "$root/tests/support/stages.py" "$stages" "$@"
