#ifndef CLI_RUN_H
#define CLI_RUN_H

/* What `rql run` and `rql series` have in common. */

#include "acquire.h"

extern const struct cli_flag cli_run_flags[];

/* Runs the command while this is held, then releases it. Answers the exit code. */
int cli_run_held(const struct cli_args *args, struct cli_held *held);

#endif
