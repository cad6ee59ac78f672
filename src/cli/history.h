#ifndef CLI_HISTORY_H
#define CLI_HISTORY_H

#include "cmd.h"

/* Reads the usage of the last days and adds it to `out`, which is JSON: sums by name, by user and
 * by day. Without a history its mode is "off". After a fault, which is in the session's error,
 * nothing is added. */
rql_status cli_history_read(struct cli_session *session, int64_t days, struct out *out);

#endif
