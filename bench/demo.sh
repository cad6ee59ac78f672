#!/bin/sh
# Shows librql at work: installs what is missing (Debian), builds, starts a private server, and lets
# 16 threads in 4 processes contend for one lock while a holder is killed.
#
#   sh bench/demo.sh [cluster] [SECONDS]
#
#   cluster   on three masters with a replica each: the lock is moved from one to another, and the
#             master that has it is killed as well
#   SECONDS   3 to 60 (default 6); of a cluster 8 to 60 (default 15)
#
# Exit status: 0 no promise was broken, 1 one was, 2 wrong arguments, 3 it could not run, or there was no time to
# move the lock. A line that begins with -- is of a promise that the run could not put to the test, because a process
# stood still for too long.

cd "$(dirname "$0")/.." || exit 3
# shellcheck source=bench/setup.sh
. bench/setup.sh

prepare
export PYTHONDONTWRITEBYTECODE=1
build_programs bench/rql-demo
if [ "$1" = cluster ]; then
    shift
    run_program python3 bench/suite/demo.py "$build/bench/rql-demo" "$scratch" "$@"
fi
start_server
run_program "$build/bench/rql-demo" "unix://$socket" "$@"
