#!/bin/sh
# Runs a command. QEMU runs those of its programs that are of another architecture.
#
# Usage: emulated.sh ARCHITECTURE COMMAND...    ARCHITECTURE: arm64 or armhf
#
# Nothing is changed for other programs: only the kernel of a user namespace is told of QEMU, and the command is root
# there. That needs Linux 6.7 or later, and Debian's qemu-user-static.
#
# Tests find RQL_TEST_EMULATED in their environment. Exit status: 3 if such programs cannot be run here, and the last
# line says why; otherwise that of the command.
set -eu

[ $# -gt 1 ] || {
    sed -n '4p' "$0" >&2
    exit 2
}
case $1 in
arm64) format=qemu-aarch64 ;;
armhf) format=qemu-arm ;;
*)
    echo "emulated.sh: $1 is neither arm64 nor armhf" >&2
    exit 2
    ;;
esac
shift

export RQL_TEST_EMULATED=1
formats=/proc/sys/fs/binfmt_misc
[ ! -e "$formats/$format" ] || exec "$@" # inside of this script, or where systemd has told the kernel
rule=/usr/lib/binfmt.d/$format.conf
[ -e "$rule" ] || {
    echo "emulated.sh: there is no $rule: apt-get install qemu-user-static" >&2
    exit 3
}
# shellcheck disable=SC2016 # for the shell inside to expand
tell_kernel='mount -t binfmt_misc binfmt_misc "$0" && cat "$1" >"$0/register" && shift'
unshare --user --map-root-user --mount sh -c "$tell_kernel" "$formats" "$rule" 2>/dev/null || {
    echo 'emulated.sh: no user namespace can have formats of programs of its own here; Linux 6.7 or later allows it' >&2
    exit 3
}
# The namespace has new credentials, with which the kernel forgets that the command ends with the parent of this script.
exec unshare --user --map-root-user --mount sh -c "$tell_kernel"' && exec setpriv --pdeathsig TERM "$@"' \
    "$formats" "$rule" "$@"
