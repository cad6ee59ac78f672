#!/bin/sh
# Measures librql beside PING, a plain lock and its peers, all on private servers: prints tables of
# every case and, last, each target with what was measured, pass or MISS.
#
#   sh bench/run.sh [--quick] [--json] [--figures] [--rr | --one-cpu] [--only GROUP]
#
#   --quick        less than five minutes with the installation, instead of twenty
#   --json         one JSON object per line on stdout
#   --figures      writes bench/figures and the results in bench/README.md as well
#   --rr           all of it under SCHED_RR, where that is allowed: the rest of the machine waits
#   --one-cpu      on one processor, under SCHED_RR: the work alone, without what it costs to wake another one
#   --only GROUP   pairs, tcp, handoff, agent, peers, scale, async, tls, durable or cluster
#
# Installs what is missing (Debian's packages; npm's libraries into the build folder). A peer that
# cannot be had is reported as not available.
# Exit status: 0 measured, whether or not the targets were reached; 2 wrong arguments; 3 something
# went wrong.

cd "$(dirname "$0")/.." || exit 3
# shellcheck source=bench/setup.sh
. bench/setup.sh

case " $* " in
*' --help '* | *' -h '*)
    sed -n '2,/^$/s/^#\( \|$\)//p' bench/run.sh
    exit 0
    ;;
esac
export PYTHONDONTWRITEBYTECODE=1
prepare
install_peers
build_programs rql-benchmarks
run_program python3 bench/suite/main.py "$build" "$scratch" "$@"
