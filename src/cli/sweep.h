#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H

/* What the sweeping commands share: settings, progress on a terminal, and how results are shown. */

#include "cmd.h"

#include <cJSON.h>

/* A line on stderr that is written over and over, if stderr is a terminal. */
struct cli_sweep {
    bool shows_progress;
    bool has_line;
    int64_t next_ms; /* not written again before that */
};

/* `sweep` outlives the options. */
void cli_sweep_init(struct cli_sweep *self, const struct cli_args *args, const rql_client *client,
                    rql_sweep_options *options);

/* False after having said what is missing: --force or --dry-run, one of them. */
bool cli_sweep_is_meant(const struct cli_args *args, const char *command);

/* Takes the line away. CLI_DONE, or the exit code after a line on stderr; *shows says whether there
 * is a result to show: always, but for a fault before anything was done. */
int cli_sweep_end(struct cli_sweep *self, const rql_error *error, const rql_sweep_result *result,
                  bool *shows);

/* The counts, for a command that adds its own. */
cJSON *cli_sweep_to_json(const struct cli_args *args, const rql_sweep_result *result);

/* "2 locks and queues released", and what else there is to say. `what` counts in rel_key_cnt. */
void cli_sweep_print(const struct cli_args *args, const rql_sweep_result *result, const char *what);

#endif
