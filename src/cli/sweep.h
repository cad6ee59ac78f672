#ifndef CLI_SWEEP_H
#define CLI_SWEEP_H

/* What the sweeping commands share: settings, progress on a terminal, and how results are shown. */

#include "cmd.h"
#include "output.h"

#include <cJSON.h>

/* The words of one call, and its line on stderr that is written over and over, on a terminal. */
struct cli_sweep {
    const struct cli_args *args;
    rql_sweep_options options;
    rql_sweep_result result;
    rql_error error;
    bool shows; /* there is a result to show: always, but for a fault before anything was done */
    bool has_line;
    int64_t next_ms;        /* not written again before that */
    struct cli_table named; /* of a dry run: what would be swept */
};

/* Stays where it is: the options lead back to it. */
void cli_sweep_init(struct cli_sweep *self, const struct cli_args *args, const rql_client *client);

/* False after having said what is missing: --force or --dry-run, one of them. */
bool cli_sweep_is_meant(const struct cli_args *args, const char *command);

/* Frees what was named. */
void cli_sweep_fini_p(struct cli_sweep *self);

#define CLI_AUTO_SWEEP __attribute__((cleanup(cli_sweep_fini_p)))

/* After the call. Takes the line away. CLI_DONE, or the exit code after a line on stderr. */
int cli_sweep_end(struct cli_sweep *self);

/* Then, if there is a result: as JSON or as text. `what` counts in rel_key_cnt. */
void cli_sweep_show(const struct cli_sweep *self, const char *what);

/* The counts, for a command that adds its own. */
cJSON *cli_sweep_to_json(const struct cli_sweep *self);

/* "2 locks and queues released", and what else there is to say. */
void cli_sweep_print(const struct cli_sweep *self, const char *what);

#endif
