#ifndef CLI_WATCH_H
#define CLI_WATCH_H

/* Watches a command and its lock until the command has ended.
 *
 * Signals go on to the command. When the lock is lost, or in doubt and about to end, the command
 * gets SIGTERM and a grace later SIGKILL; when the end is seen coming, that is before the deadline.
 */

#include "child.h"
#include "held.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

struct cli_watch_rules {
    const struct cli_held *held; /* borrowed */
    int signal_fd;               /* of cli_watch_signals() */
    int64_t grace_ms;            /* from SIGTERM to SIGKILL */
    bool is_renewed;             /* the lock is, until hold_end_ms */
    int64_t hold_end_ms;         /* cli_now_ms() at which the command has ended, or INT64_MAX */
};

/* Blocks the signals that are to be forwarded and returns a descriptor that reports them, or -1.
 * Signals that were ignored stay so, as nohup wants it. */
int cli_watch_signals(void);

/* *lost_out: the command was told to end because of the lock. CLI_DONE, or the exit code after a
 * line on stderr; the command has ended in both cases. */
int cli_watch(const struct cli_watch_rules *rules, struct cli_child *child, bool *lost_out);

#endif
