#ifndef CLI_STATS_H
#define CLI_STATS_H

#include "classes.h"
#include "cmd.h"

/* Reads the figures of all programs from the server and adds them to `out`. The classes are counted
 * for OpenMetrics alone. After a fault, which is in the session's error, nothing is added. */
rql_status cli_stats_read(struct cli_session *self, struct cli_classes *classes, struct out *out);

#endif
