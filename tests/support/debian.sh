#!/bin/sh
# A Debian of its own in a folder, to run commands in. As root, with debootstrap and unshare.
#
# Usage: debian.sh make SUITE FOLDER PACKAGE...
#            makes it, unless it is there with just these packages: minutes, and 1 GB. SUITE: bookworm, trixie
#        debian.sh run FOLDER SOURCES BUILD COMMAND...
#            runs a command in it, which sees SOURCES as /source, and BUILD as /build; that, /tmp and
#            /run are all it can write to
#        debian.sh try FOLDER SOURCES COMMAND...
#            runs a command in a copy of it, which the command may change and which is removed at the end
#
# What is mounted for that is so in a namespace of this run alone. Nobody else sees it, so who removes
# FOLDER or BUILD removes what they see there and no more; and it is gone with the last process of the
# run, which is ended when its parent ends, however that was.
set -eu

bound='setpriv --pdeathsig KILL'

fail() {
    echo "debian.sh: $*" >&2
    exit 1
}

# One at a time. The folder gets its name last: what has it is complete.
make_root() {
    suite=$1
    folder=$2
    shift 2
    mkdir -p "$(dirname "$folder")"
    exec 9>"$folder.lock"
    flock 9
    [ "$(cat "$folder/made-with" 2>/dev/null)" != "$suite $*" ] || return 0
    rm -rf --one-file-system "$folder" "$folder.making"
    # shellcheck disable=SC2086 # a word list on purpose
    $bound unshare --mount --propagation private debootstrap --variant=minbase \
        --include="$(echo "$*" | tr ' ' ,)" "$suite" "$folder.making" 9>&- ||
        fail "debootstrap failed; see $folder.making/debootstrap/debootstrap.log"
    mkdir "$folder.making/source" "$folder.making/build"
    echo "$suite $*" >"$folder.making/made-with"
    mv "$folder.making" "$folder"
}

# enter WORD ARGUMENT...: its own namespaces; then this script again.
enter() {
    # shellcheck disable=SC2086 # a word list on purpose
    exec $bound unshare --mount --pid --fork --kill-child --propagation private sh "$0" "$@"
}

# mount_all FOLDER SOURCES
mount_all() {
    mount --bind "$1" "$1"
    mount --bind "$2" "$1/source"
    mount -o remount,ro,bind "$1/source"
    mount -t proc proc "$1/proc"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
    for volatile in dev/shm run tmp; do
        mount -t tmpfs -o mode=1777 tmpfs "$1/$volatile"
    done
}

# in_root FOLDER COMMAND...: signals that a shell's background ignores are not ignored in there.
in_root() {
    folder=$1
    shift
    exec chroot "$folder" env -i --default-signal PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp \
        LC_ALL=C.UTF-8 "$@"
}

run_inside() {
    mount_all "$1" "$2"
    mount --bind "$3" "$1/build"
    mount -o remount,ro,bind "$1"
    folder=$1
    shift 3
    in_root "$folder" "$@"
}

try_inside() {
    mount_all "$1" "$2"
    folder=$1
    shift 2
    in_root "$folder" "$@"
}

# The copy is beside the folder; what an earlier run has left there goes first. One run at a time.
try_copy() {
    copy=$1.copy
    exec 8>"$copy.lock"
    flock 8
    rm -rf --one-file-system "$copy"
    cp -a "$1" "$copy"
    trap 'rm -rf --one-file-system "$copy"' EXIT
    trap 'exit 1' HUP INT TERM
    shift
    (enter try-inside "$copy" "$@") &
    wait $!
}

[ $# -gt 2 ] || fail 'make SUITE FOLDER PACKAGE..., run FOLDER SOURCES BUILD COMMAND... or try FOLDER SOURCES COMMAND...'
word=$1
shift
case $word in
make) make_root "$@" ;;
run) enter run-inside "$@" ;;
run-inside) run_inside "$@" ;;
try) try_copy "$@" ;;
try-inside) try_inside "$@" ;;
*) fail "no such command: $word" ;;
esac
