#!/bin/sh
# Shows librql at work: installs what is missing (Debian), builds, starts a private server, and lets
# 16 threads in 4 processes contend for one lock while a holder is killed.
#
#   sh bench/demo.sh [SECONDS]
#
# Exit status: 0 all promises were kept, 1 one was not, 3 it could not run.

cd "$(dirname "$0")/.." || exit 3
# shellcheck source=bench/setup.sh
. bench/setup.sh

prepare
build_programs bench/rql-demo
start_server
run_program "$build/bench/rql-demo" "unix://$socket" "$@"
