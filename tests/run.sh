#!/bin/sh
# Everything a change must pass, from a clean clone, without asking anything.
#
# Usage: sh tests/run.sh [--quick | STAGE... | soak MINUTES | promises MINUTES | mutants FILE...]
# no argument: all stages, cheapest first
#        sh tests/run.sh one PROGRAM [WORD...]   one test program, or its tests whose titles have all these words
# --quick is the stage gcc. Installs the Debian packages that are missing (as root, or by sudo).
# The first line of output says how long it will take, the last one is "N passed, N failed"; the exit
# status says the same.
#
# Environment: RQL_BUILD_DIR     folder of the build trees (default: build/ of the repository)
#              RQL_JOBS          parallel compilations (default: number of processors); of tests there
#                                are three times as many at once, for they wait more than they work
#              RQL_TEST_REDIS    the server that is tested with (default: redis-server in PATH)
#              RQL_FUZZ_S        seconds for each fuzz target (default 10)
#              RQL_PROGRESS_S    seconds between two lines about a stage that takes long (default 30)
#              RQL_BUDGET        "refresh": the stage budget writes its counts down anew
#              RQL_DEBIAN13_DIR  folder of the stage debian13's system, 1 GB, for more than one
#                                repository to share (default: debian13/ beside the build trees)
#              RQL_DEBIAN12_DIR  the same for the stage bare, 300 MB (default: debian12/)
#              RQL_DEMO_RUNS     runs of the stage demo (default 300)
#              RQL_BARE_STAGES   the stages that `tests/run.sh` runs inside the stage bare (default: all)
#
# shellcheck disable=SC2317 # functions are called through their stage's name and by trap
set -u

root=$(CDPATH='' cd "$(dirname "$0")/.." && pwd)
out=${RQL_BUILD_DIR:-$root/build}
jobs=${RQL_JOBS:-$(getconf _NPROCESSORS_ONLN)}
all='format docs shell gcc sample clang light tidy packages asan tsan valgrind budget fuzz'
by_name='faults tls cluster connectivity promises timed soak guarantees explore mutants coverage valgrind_all debian13 bare demo'
minutes=10 # of the stages soak and promises
passed=0
failed=0
skipped=0

export PYTHONDONTWRITEBYTECODE=1
export DEBIAN_FRONTEND=noninteractive

# ---- packages ----

# What the stages with_gcc need, and all of them.
packages_gcc='meson ninja-build gcc g++ libc6-dev pkg-config libhiredis-dev libuv1-dev libcjson-dev
libcmocka-dev libssl-dev zlib1g-dev libzstd-dev openssl redis-server systemd python3 ruby abigail-tools dpkg-dev'
packages_all="$packages_gcc build-essential valgrind clang clang-format clang-tidy doxygen shellcheck debhelper lintian git libpq-dev
man-db mandoc bash-completion zsh fish"
with_gcc='gcc sample light faults tls cluster connectivity promises timed soak guarantees explore mutants coverage debian13 bare demo'
optional='cppcheck gcc-multilib'
policy=/usr/sbin/policy-rc.d
remove_policy=
missing=
sudo='sudo -n'
[ ! -t 0 ] || sudo=sudo # somebody is there who can type a password
[ "$(id -u)" -ne 0 ] || sudo=

is_installed() {
    [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# list_missing PACKAGE...: those that are not there, one line.
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

# Debian starts a service when it is installed. Our tests run servers of their own: while this
# policy stands nothing is started, and whatever runs already is left alone.
forbid_services() {
    [ ! -e "$policy" ] || return 0
    remove_policy=yes
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$policy" >/dev/null && as_root chmod 755 "$policy"
}

allow_services() {
    [ -z "$remove_policy" ] || as_root rm -f "$policy"
    remove_policy=
}

apt_install() {
    echo "$out/packages.log" >"$shown"
    as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
        apt-get install -y --no-install-recommends "$@" >>"$out/packages.log" 2>&1 </dev/null
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
    *' redis-server '*) # a policy that was there before may have let it start
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
    install_missing "$@"
    if [ -n "$missing" ]; then
        echo "run.sh: missing packages that could not be installed: $missing(see $out/packages.log)" >&2
        exit 1
    fi
}

# ---- progress ----

# The file that names the log to look at. Its last line is shown now and then, where it is a new one, so that nobody
# takes a stage that compiles for one that hangs.
shown=$out/shown
reporter=

report() {
    said=
    while sleep "${RQL_PROGRESS_S:-30}" >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
        file=$(cat "$shown" 2>/dev/null) || continue
        line=$(tail -n 1 "$file" 2>/dev/null | cut -c 1-120)
        [ -z "$line" ] || [ "$line" = "$said" ] || echo "     $(basename "$file" .log): $line" >&2
        said=$line
    done
}

begin_report() {
    rm -f "$shown"
    report &
    reporter=$!
}

end_report() {
    kill "$reporter" 2>/dev/null
    rm -f "$shown"
}

# ---- counting ----

# verdict STATUS: one test that is no meson test.
verdict() {
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
    fi
    return "$1"
}

# add_counts PASSED FAILED SKIPPED
add_counts() {
    passed=$((passed + $1))
    failed=$((failed + $2))
    skipped=$((skipped + $3))
}

# count_log: the sum of all lines "N passed, N failed" of $log; without one as its last line it is a failure.
count_log() {
    counts=$(awk '{ is_count = /^[0-9]+ passed, [0-9]+ failed$/ } is_count { passed += $1; failed += $3 }
        END { print passed + 0, failed + !is_count, 0 }' "$log")
    # shellcheck disable=SC2086 # a word list on purpose
    set -- $counts
    add_counts "$@"
    [ "$2" -eq 0 ]
}

# follow PATTERN COMMAND...: what it says goes to $log, and such lines are shown as they come. In the background, because
# a shell that waits for a command in the foreground hears no signal; and it ends with this shell.
follow() {
    pattern=$1
    shift
    rm -f "$shown"
    setpriv --pdeathsig TERM "$@" >"$log" 2>&1 &
    followed=$!
    tail -f -n +1 --pid="$followed" "$log" | grep --line-buffered "$pattern" &
    wait "$followed" $!
}

# quietly LOG COMMAND...: its words only when it fails.
quietly() {
    log=$out/$1.log
    shift
    echo "$log" >"$shown"
    "$@" >"$log" 2>&1 && return
    tail -n 200 "$log"
    return 1
}

# ---- building and testing ----

# The server that RQL_TEST_REDIS names; none: meson looks for it.
server=
find_server() {
    [ -n "${RQL_TEST_REDIS:-}" ] || return 0
    server=$(command -v "$RQL_TEST_REDIS") || {
        echo "run.sh: RQL_TEST_REDIS: there is no $RQL_TEST_REDIS" >&2
        exit 1
    }
    case $server in
    /*) ;;
    *) server=$PWD/$server ;;
    esac
}

# Sanitizers want an address space that clang 14 knows; not everywhere may it be asked for.
if setarch -R true 2>/dev/null; then
    fixed='setarch -R'
else
    fixed=
fi

# build NAME MESON-ARGS...: a fresh or refreshed build tree called NAME, warnings fatal. All of it, or
# what $targets says.
targets=
build() {
    name=$1
    shift
    set -- -Dtests=enabled -Dbench=enabled -Dtest_server="$server" "$@" --werror \
        "$out/$name" "$root"
    [ ! -d "$out/$name/meson-private" ] || set -- --reconfigure "$@"
    # shellcheck disable=SC2086 # a word list on purpose
    quietly "$name-setup" meson setup "$@" &&
        quietly "$name-compile" meson compile -C "$out/$name" -j "$jobs" $targets && return
    verdict 1
}

# meson_test MESON-TEST-ARGS...: of the tree $name, in the ways of the stage.
meson_test() {
    echo "$out/$stage-test.log" >"$shown"
    # shellcheck disable=SC2086 # a word list on purpose
    env RQL_TEST_AGAIN="$out/$stage-again" ${share:+"RQL_TEST_SHARE=$share"} ${slow:+"RQL_TEST_SLOW=$slow"} \
        ${kind:+"RQL_TEST_SERVER=$kind"} $fixed meson test -C "$out/$name" --no-rebuild \
        ${again:+"--wrapper=$again"} "$@" >>"$out/$stage-test.log" 2>&1
}

# check NAME MESON-TEST-ARGS...: runs tests of a build tree and counts them.
check() {
    name=$1
    shift
    alone=
    logs=$out/$name/meson-logs
    rm -f "$logs/run-$stage"* "$logs/alone-$stage"* "$out/$stage-again" "$out/$stage-test.log"
    # Most of them mostly wait: three at once for each processor; two where a sanitizer makes them slow.
    meson_test --num-processes "$((3 * jobs))" --logbase "run-$stage" "$@"
    status=$?
    [ "$status" -eq 0 ] || [ -z "$again" ] || check_alone
    [ ! -f "$out/$stage-again" ] || cat "$out/$stage-again"
    # shellcheck disable=SC2086 # a word list on purpose
    counts=$(python3 "$root/tests/support/tally.py" "$logs/run-$stage"*.json $alone) || {
        tail -n 50 "$out/$stage-test.log"
        verdict 1
        return 1
    }
    # shellcheck disable=SC2086
    set -- $counts
    add_counts "$@"
    if [ "$status" -ne 0 ] && [ "$2" -eq 0 ]; then # meson saw what the count did not
        tail -n 50 "$out/$stage-test.log"
        verdict 1
    fi
    [ "$status" -eq 0 ] && [ "$2" -eq 0 ]
}

# check_alone: what has failed on a machine that kept it from running is run once more, one after the other.
check_alone() {
    stalled=$(python3 "$root/tests/support/tally.py" --stalled "$logs/run-$stage"*.json)
    [ -n "$stalled" ] || return 0
    echo "again, alone: $stalled"
    # shellcheck disable=SC2086 # a word list on purpose
    meson_test --num-processes 1 --logbase "alone-$stage" --timeout-multiplier 4 $stalled
    status=$?
    alone=$(echo "$logs/alone-$stage"*.json)
}

sources() {
    (cd "$root" && find include src swarm tests bench -name '*.[ch]' 2>/dev/null | sort)
}

# ---- stages ----

format_all() {
    cd "$root" && sources | xargs clang-format --dry-run -Werror
}

stage_format() {
    (quietly format format_all)
    verdict $?
}

# An undocumented public name, parameter or result is an error.
stage_docs() {
    (cd "$root" && { cat .ci/Doxyfile && echo "OUTPUT_DIRECTORY = $out/doc"; } | quietly docs doxygen -)
    verdict $?
}

stage_shell() {
    (cd "$root" && shellcheck .ci/run .pkg/build-deb &&
        find src tests bench '(' -name '*.sh' -o -name '*.bash' ')' -exec shellcheck {} +)
    verdict $?
}

# With the archive beside the shared library: it is tried out as well.
build_gcc() {
    CC=gcc CXX=g++ build gcc -Ddefault_library=both
}

stage_gcc() {
    build_gcc && check gcc
}

# Everything compiles without a warning of clang, and works without asserts: the unit tests show the latter, and
# clang-tidy finds an assert with a side effect. The stages asan and tsan run the other tests of what clang has built.
stage_clang() {
    CC=clang CXX=clang++ build clang -Dbuildtype=release -Db_ndebug=true && check clang --suite unit
}

# Without logs, events and statistics. As a user would build it: the stage budget counts in this tree, too.
build_light() {
    CC=gcc CXX=g++ build light -Dlight=true -Dbuildtype=release -Ddebug=true -Dbench=disabled
}

stage_light() {
    build_light && check light --suite unit --suite api --suite cli --no-suite pages
}

# Also the tree of the fuzz targets: their coverage counters cost little.
build_asan() {
    CC=clang CXX=clang++ build asan -Db_sanitize=address,undefined -Db_lundef=false \
        -Dc_args=-fsanitize=fuzzer-no-link -Dbench=disabled
}

stage_asan() {
    # A thread that ends by pthread_exit() or is cancelled leaves its stack marked as in use; with a
    # stack of its own for signals ASan then takes itself for a culprit at the thread's end.
    export ASAN_OPTIONS=use_sigaltstack=0
    export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
    share=0 slow=2
    build_asan && check asan --no-suite source --no-suite soak --no-suite pages --timeout-multiplier 4 \
        --num-processes "$((2 * jobs))"
}

stage_tsan() {
    export TSAN_OPTIONS="halt_on_error=1:suppressions=$root/tests/support/tsan.supp"
    share=1 slow=2
    CC=clang CXX=clang++ build tsan -Db_sanitize=thread -Db_lundef=false -Dbench=disabled &&
        check tsan --no-suite source --no-suite cli --timeout-multiplier 4 --num-processes "$((2 * jobs))"
}

# run_scenario NAME WORD...: a program of tests/scenario by hand, in the tree of the stage gcc.
run_scenario() {
    name=$1
    shift
    echo "$out/$stage-test.log" >"$shown"
    # shellcheck disable=SC2086
    RQL_TEST_REDIS=${server:-$(command -v redis-server)} \
        RQL_TEST_CLOCK=$out/gcc/tests/support/rql-clock.so \
        $fixed python3 "$root/tests/scenario/$name.py" "$out/gcc/tests/remote/remote" "$@" \
        >"$out/$stage-test.log" 2>&1
    verdict $?
    kept=$?
    sed -n '/^not ok/,/^ok/p;/^# soak/p' "$out/$stage-test.log"
    return "$kept"
}

# By name only: each operation meets each fault at each place.
stage_faults() {
    export RQL_TEST_LONG=1
    build_gcc && run_scenario test_faults
}

# check_with KIND SUITE...: once more, where each server is of this kind: tls, or cluster, of one node.
check_with() {
    kind=$1
    shift
    check gcc "$@" --timeout-multiplier 3 --num-processes "$((2 * jobs))"
}

# By name only: every scenario by TLS.
stage_tls() {
    build_gcc && check_with tls --suite scenario
}

# By name only: every scenario, and the program, on clusters of one node.
stage_cluster() {
    build_gcc && check_with cluster --suite scenario --suite cli
}

# Of both the scenarios that the day chooses; on clusters, of those about locks.
stage_sample() {
    build_gcc || return 1
    share=2
    check_with tls --suite scenario
    fine=$?
    share=3
    check_with cluster scenario-leases scenario-leaving scenario-lock scenario-observe scenario-queue \
        scenario-reentry scenario-outcomes scenario-series scenario-waiting && [ "$fine" -eq 0 ]
}

# in_figures SUITE FACTOR: in full size, one after the other, with what it prints. FACTOR: of its times.
in_figures() {
    export RQL_TEST_LONG=1
    build_gcc && check gcc --suite "$1" --num-processes 1 --timeout-multiplier "$2"
    kept=$?
    sed -n '/^# ok - /d;/^# /p' "$out/gcc/meson-logs/run-$1"*.txt
    return "$kept"
}

# By name only: TLS, and a master that sentinels watch, with a thousand locks held and waited for; and what is promised
# where servers fail, a minute of each row. Prints the figures.
stage_connectivity() {
    in_figures connectivity 3
}

# By name only: an hour. What depends on time, again and again on a machine that is too busy for it; a run that
# was cut off goes on where it was.
stage_timed() {
    build_gcc && run_scenario timed "$out/timed.done"
}

# By name only: everything goes wrong at random, for as many minutes as asked for.
stage_soak() {
    export RQL_TEST_LONG="$minutes"
    build_gcc && run_scenario soak
}

# By name only: may two hold a lock, whatever fails? Each row of the promises for as many minutes as asked for.
stage_promises() {
    export RQL_TEST_LONG="$minutes"
    build_gcc && run_scenario test_promises
    kept=$?
    sed -n '/^# .*grants/p' "$out/$stage-test.log"
    return "$kept"
}

# By name only: minutes. What README.md promises about the dead, in full size, with its figures.
stage_guarantees() {
    in_figures guarantees 10
}

# By name only: the scripts in every order that more clients, calls and mishaps allow.
stage_explore() {
    export RQL_TEST_LONG=1
    build_gcc && check gcc --suite explore --timeout-multiplier 10
    kept=$?
    grep -h '^ok\|^not ok\|^#' "$out/gcc/meson-logs/run-explore"*.txt
    return "$kept"
}

# By name only: half an hour. Mistakes that are planted one at a time, each to be found by the tests that
# tests/mutants/table.toml names; or with FILE... those that are generated of these files. `python3 tests/mutants --help`
# explains both.
generated= # words of the command line
stage_mutants() {
    rm -f "$out/mutants.json"
    # shellcheck disable=SC2086 # a word list on purpose
    RQL_TEST_REDIS=$server python3 "$root/tests/mutants" --dir "$out/mutants" --jobs "$jobs" \
        --json "$out/mutants.json" $generated
    found=$?
    counts=$(sed -n 's/^ "\(passed\|failed\|skipped\)": \([0-9]*\),$/\2/p' "$out/mutants.json" 2>/dev/null)
    if [ -z "$counts" ]; then
        verdict 1
        return 1
    fi
    # shellcheck disable=SC2086 # a word list on purpose
    add_counts $counts
    return "$found"
}

# By name only: which lines and branches the tests pass.
stage_coverage() {
    CC=gcc CXX=g++ build coverage -Db_coverage=true || return 1
    find "$out/coverage" -name '*.gcda' -delete
    check coverage --suite unit --suite server --suite scenario --suite cli --suite golden --timeout-multiplier 3
    tested=$?
    python3 "$root/tests/support/coverage.py" "$root" "$out/coverage"
    verdict $? && [ "$tested" -eq 0 ]
}

# in_debian13 SERVER: the stage gcc there, with this server. In the background, because a shell that
# waits for a command in the foreground hears no signal; and as its own child, with which it ends.
in_debian13() {
    log=$out/debian13-$1.log
    echo "$log" >"$shown"
    $sudo sh "$debian" run "$system" "$root" "$out/debian13-build" env RQL_BUILD_DIR=/build \
        RQL_JOBS="$jobs" RQL_TEST_REDIS="/usr/bin/$1" sh /source/tests/run.sh gcc >"$log" 2>&1 &
    wait $!
    counts=$(sed -n 's/^[a-zA-Z]* *gcc: \([0-9]*\) passed, \([0-9]*\) failed, \([0-9]*\) skipped.*/\1 \2 \3/p' "$log")
    if [ -z "$counts" ]; then
        tail -n 50 "$log"
        verdict 1
        return 1
    fi
    # shellcheck disable=SC2086 # a word list on purpose
    set -- "$1" $counts
    add_counts "$2" "$3" "$4"
    [ "$3" -eq 0 ] || cat "$log"
    echo "     $1: $2 passed, $3 failed, $4 skipped"
    [ "$3" -eq 0 ]
}

# By name only: the demo, again and again, a third of the runs beside two busy loops.
stage_demo() {
    targets=bench/rql-demo
    CC=gcc CXX=g++ build demo -Dbuildtype=release
    built=$?
    targets=
    [ "$built" -eq 0 ] || return 1
    log=$out/demo.log
    follow . env RQL_TEST_REDIS="${server:-$(command -v redis-server)}" python3 \
        "$root/tests/consumer/test_demo.py" "$out/demo/bench/rql-demo" "${RQL_DEMO_RUNS:-300}"
    count_log
}

# Debian's packages: built, installed, used and removed.
stage_packages() {
    quietly packages-build "$root/.pkg/build-deb" "$out/packages"
    verdict $? || return 1
    quietly packages-use sh "$root/tests/consumer/packages.sh" "$out/packages" "$sudo"
    verdict $?
}

# make_debian SUITE FOLDER PACKAGE...: another Debian in a folder, for debian.sh to run commands in.
debian=$root/tests/support/debian.sh
make_debian() {
    system=$2
    is_installed debootstrap || { as_root apt-get update >>"$out/packages.log" 2>&1 && apt_install debootstrap; }
    quietly "$stage" as_root sh "$debian" make "$@" || verdict 1
}

# By name only: the next Debian's compiler and libraries, with the servers that it has.
stage_debian13() {
    mkdir -p "$out/debian13-build"
    # shellcheck disable=SC2086 # a word list on purpose
    make_debian trixie "${RQL_DEBIAN13_DIR:-$out/debian13}" $packages_gcc valkey-server || return 1
    in_debian13 redis-server
    fine=$?
    in_debian13 valkey-server && [ "$fine" -eq 0 ]
}

# A clone of what is committed, and README's commands as a script.
make_first_hour() {
    rm -rf "$out/bare" && mkdir -p "$out/bare" &&
        git clone --quiet --no-hardlinks "$root" "$out/bare/librql" &&
        python3 "$root/tests/support/first_hour.py" "$out/bare/librql/README.md" >"$out/bare/first-hour.sh"
}

# What somebody has done and answers who sits at the new machine: the clone is there, and apt's questions get a yes.
# shellcheck disable=SC2016 # expanded by the shell in there
begin_first_hour='echo "APT::Get::Assume-Yes \"true\";" >/etc/apt/apt.conf.d/50yes &&
    cp -a /source/librql /root/ && cd /root/librql && exec sh /source/first-hour.sh "$@"'

# By name only: README from its first command to the last, on a Debian 12 that has nothing but apt and sudo.
stage_bare() {
    make_debian bookworm "${RQL_DEBIAN12_DIR:-$out/debian12}" sudo || return 1
    quietly bare make_first_hour || {
        verdict 1
        return 1
    }
    log=$out/bare.log
    # shellcheck disable=SC2086 # a word list on purpose
    follow '^bare:\|^ok  \|^FAIL' $sudo sh "$debian" try "$system" "$out/bare" env RQL_JOBS="$jobs" \
        sh -c "$begin_first_hour" sh ${RQL_BARE_STAGES:-}
    count_log && return
    tail -n 200 "$log"
    return 1
}

# Valgrind is twenty times slower and runs one thread at a time: what uses each part once.
stage_valgrind() {
    again=
    build_gcc &&
        check gcc --setup valgrind --suite unit --suite memory --timeout-multiplier 3 \
            --num-processes "$jobs"
}

# By name only: half an hour.
stage_valgrind_all() {
    again=
    build_gcc || return 1
    check gcc --setup valgrind --suite unit --suite server --num-processes "$jobs"
    fine=$?
    check gcc --setup valgrind_remote --suite golden && [ "$fine" -eq 0 ]
}

# It knows neither cleanup attributes nor functions that do not return, nor that NULL is a pointer.
run_cppcheck() {
    cppcheck --quiet --error-exitcode=1 --std=c11 --enable=warning,portability --inline-suppr \
        --suppress=missingIncludeSystem --suppress=memleak --suppress=ctuuninitvar \
        --suppress=nullPointerRedundantCheck --suppress=nullPointerArithmeticRedundantCheck \
        --suppress=varFuncNullUB \
        -I "$root/include" -I "$root/src" "$root/src"
}

# clang-tidy 14 reports false va_list errors for the second file that a process reads, or the same
# file with the flags of a second target: one file per process, and one target per file.
tidy_all() {
    mkdir -p "$out/tidy" &&
        python3 "$root/tests/support/compile_once.py" "$out/clang/compile_commands.json" \
            >"$out/tidy/compile_commands.json" &&
        cd "$root" && sources | grep '\.c$' |
        xargs -n 1 -P "$jobs" clang-tidy --quiet -p "$out/tidy" 2>/dev/null
}

stage_tidy() {
    CC=clang CXX=clang++ build clang -Dbuildtype=release -Db_ndebug=true || return 1
    tidied=0
    (tidy_all) || tidied=1
    verdict "$tidied"
    if command -v cppcheck >/dev/null; then
        quietly cppcheck run_cppcheck
        verdict $? || tidied=1
    fi
    return "$tidied"
}

# Instructions of the client, as a user would build it, and of the scripts. RQL_BUDGET=refresh sh tests/run.sh budget
stage_budget() {
    targets=budget-pairs
    CC=gcc CXX=g++ build budget -Dbuildtype=release -Ddebug=true -Dbench=disabled && build_light
    built=$?
    targets=
    [ "$built" -eq 0 ] || return 1
    set -- "release=$out/budget/tests/budget/budget-pairs" \
        "light=$out/light/tests/budget/budget-pairs"
    [ "${RQL_BUDGET:-}" != refresh ] || set -- --refresh "$@"
    counts=$(RQL_TEST_REDIS=${server:-$(command -v redis-server)} \
        python3 "$root/tests/budget/count.py" "$@") || {
        verdict 1
        return 1
    }
    # shellcheck disable=SC2086 # a word list on purpose
    set -- $counts
    add_counts "$@"
    [ "$2" -eq 0 ]
}

# New inputs land beside the build, not in the checked-in corpus. All at once: each has one thread.
fuzz_one() {
    mkdir -p "$out/fuzz/$1"
    # shellcheck disable=SC2086
    quietly "fuzz-$1" $fixed "$out/asan/tests/fuzz/fuzz_$1" \
        -max_total_time="${RQL_FUZZ_S:-10}" -print_final_stats=0 -timeout=5 \
        -artifact_prefix="$out/fuzz/$1-" "$out/fuzz/$1" "$root/tests/fuzz/corpus/$1"
}

stage_fuzz() {
    build_asan || return 1
    fuzzers=
    for source in "$root"/tests/fuzz/fuzz_*.c; do
        target=${source##*/fuzz_}
        fuzz_one "${target%.c}" &
        fuzzers="$fuzzers $!"
    done
    fuzzed=0
    for fuzzer in $fuzzers; do
        wait "$fuzzer"
        verdict $? || fuzzed=1
    done
    return "$fuzzed"
}

# ---- main ----

# What a stage takes on two processors that do nothing else, from a clean clone, in seconds.
seconds_of() {
    case $1 in
    gcc) echo 240 ;;
    asan | tsan) echo 300 ;;
    tidy) echo 110 ;;
    clang) echo 65 ;;
    guarantees) echo 270 ;;
    coverage) echo 360 ;;
    faults) echo 160 ;;
    tls) echo 240 ;;
    cluster) echo 480 ;;
    sample) echo 90 ;;
    connectivity) echo 450 ;;
    timed) echo 3600 ;;
    soak) echo $((60 + 60 * minutes)) ;;
    promises) echo $((60 + 5 * 60 * minutes)) ;;
    valgrind) echo 50 ;;
    light) echo 80 ;;
    packages) echo 40 ;;
    budget) echo 25 ;; # behind light, 45 alone
    fuzz) echo $((10 + 2 * ${RQL_FUZZ_S:-10})) ;;
    explore) echo 2400 ;;
    mutants | valgrind_all) echo 1800 ;;
    debian13) echo 900 ;;
    bare) echo 1500 ;;
    demo) echo $((30 + 4 * ${RQL_DEMO_RUNS:-300})) ;;
    *) echo 3 ;;
    esac
}

# say_time STAGE...: before anything else, for whoever waits.
say_time() {
    seconds=0
    for stage in "$@"; do
        seconds=$((seconds + $(seconds_of "$stage")))
    done
    about='less than a minute'
    [ "$seconds" -lt 60 ] || about="about $(((seconds + 30) / 60)) min"
    echo "$*: $about on two free processors, once the packages are installed"
}

# run STAGE: one line, and what was wrong above it.
run() {
    stage=$1
    share= # of the scenarios: 0 to 3, as RQL_TEST_SHARE; all if it is empty
    slow=  # a factor for all times
    kind=  # of the servers, as RQL_TEST_SERVER
    again="python3 $root/tests/support/again.py" # emptied beside a --setup, which has a wrapper of its own
    before=$passed/$failed/$skipped
    started=$(date +%s)
    if "stage_$stage"; then
        word='ok  '
    else
        word='FAIL'
    fi
    echo "$word $stage: $((passed - ${before%%/*})) passed," \
        "$((failed - $(echo "$before" | cut -d/ -f2))) failed," \
        "$((skipped - ${before##*/})) skipped, $(($(date +%s) - started)) s"
}

# run_one PROGRAM WORD...: in the tree of the stage gcc.
run_one() {
    stage=one
    if [ ! -e "$out/gcc/build.ninja" ]; then
        packages=$packages_gcc targets=rql-clock # the program's own are built by one.py
        mkdir -p "$out"
        need_packages
        find_server
        build_gcc || exit 1
    fi
    exec python3 "$root/tests/support/one.py" "$out/gcc" "$@"
}

usage() {
    sed -n '2,/^# shellcheck/{/^# shellcheck/d;s/^# \{0,1\}//;p;}' "$0" >&2
    echo "stages: $all; by name only: $by_name" >&2
    exit 2
}

# shellcheck disable=SC2086 # a word list on purpose
[ $# -gt 0 ] || set -- $all
[ "$1" != --quick ] || set -- gcc
case "$1 ${2:-}" in
"mutants "*[./-]*) # files or options, and no other stage
    shift
    generated=$*
    packages_gcc="$packages_gcc python3-clang"
    set -- mutants
    ;;
esac
if [ "$1" = one ]; then
    [ $# -gt 1 ] || usage
    shift
    run_one "$@"
fi
case "$# $1 ${2:-x}" in
"2 "*" "*[!0-9]*) ;;
"2 soak "* | "2 promises "*)
    minutes=$2
    set -- "$1"
    ;;
esac
for stage in "$@"; do
    case " $all $by_name " in
    *" $stage "*) ;;
    *) usage ;;
    esac
done

packages=$packages_gcc
for stage in "$@"; do
    case " $with_gcc " in
    *" $stage "*) ;;
    *) packages=$packages_all ;;
    esac
done

say_time "$@"
mkdir -p "$out"
trap 'allow_services; end_report' EXIT
trap 'exit 1' HUP INT TERM
begin_report
need_packages
find_server
for stage in "$@"; do
    run "$stage"
done
[ "$skipped" -eq 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
