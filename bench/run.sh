#!/bin/sh
# Measures librql against PING and a plain lock, on a private server.
#
#   sh bench/run.sh [--quick] [--json]
#
#   --quick   about 40 seconds instead of three and a half minutes
#   --json    one JSON object per line on stdout
#
# Exit status: 0 measured, whether or not the targets were reached; 3 it could not run.

cd "$(dirname "$0")/.." || exit 3
# shellcheck source=bench/setup.sh
. bench/setup.sh

set_up rql-bench
run_program rql-bench "$socket" "$@"
