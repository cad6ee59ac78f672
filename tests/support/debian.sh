#!/bin/sh
# A Debian 13 of its own in a folder, to run tests in. As root, with debootstrap and unshare.
#
# Usage: debian13.sh make FOLDER PACKAGE...
#            makes it, unless it is there with just these packages: minutes, and 1 GB
#        debian13.sh run FOLDER SOURCES BUILD COMMAND...
#            runs a command in it, which sees SOURCES as /source, and BUILD as /build; that, /tmp and
#            /run are all it can write to
#
# What is mounted for that is so in a namespace of this run alone. Nobody else sees it, so who removes
# FOLDER or BUILD removes what they see there and no more; and it is gone with the last process of the
# run, which is ended when its parent ends, however that was.
set -eu

suite=trixie
bound='setpriv --pdeathsig KILL'

fail() {
    echo "debian13.sh: $*" >&2
    exit 1
}

# One at a time. The folder gets its name last: what has it is complete.
make_root() {
    folder=$1
    shift
    mkdir -p "$(dirname "$folder")"
    exec 9>"$folder.lock"
    flock 9
    [ "$(cat "$folder/made-with" 2>/dev/null)" != "$*" ] || return 0
    rm -rf --one-file-system "$folder" "$folder.making"
    # shellcheck disable=SC2086 # a word list on purpose
    $bound unshare --mount --propagation private debootstrap --variant=minbase \
        --include="$(echo "$*" | tr ' ' ,)" $suite "$folder.making" 9>&- ||
        fail "debootstrap failed; see $folder.making/debootstrap/debootstrap.log"
    mkdir "$folder.making/source" "$folder.making/build"
    echo "$*" >"$folder.making/made-with"
    mv "$folder.making" "$folder"
}

# Its own namespaces; then this script again.
enter() {
    # shellcheck disable=SC2086 # a word list on purpose
    exec $bound unshare --mount --pid --fork --kill-child --propagation private sh "$0" inside "$@"
}

mount_all() {
    mount --bind "$1" "$1"
    mount --bind "$2" "$1/source"
    mount --bind "$3" "$1/build"
    mount -o remount,ro,bind "$1/source"
    mount -o remount,ro,bind "$1"
    mount -t proc proc "$1/proc"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
    for volatile in dev/shm run tmp; do
        mount -t tmpfs -o mode=1777 tmpfs "$1/$volatile"
    done
}

# Signals that a shell's background ignores are not ignored in there.
run_inside() {
    mount_all "$1" "$2" "$3"
    folder=$1
    shift 3
    exec chroot "$folder" env -i --default-signal PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp \
        LC_ALL=C.UTF-8 "$@"
}

[ $# -gt 2 ] || fail 'make FOLDER PACKAGE... or run FOLDER SOURCES BUILD COMMAND...'
word=$1
shift
case $word in
make) make_root "$@" ;;
run) enter "$@" ;;
inside) run_inside "$@" ;;
*) fail "no such command: $word" ;;
esac
