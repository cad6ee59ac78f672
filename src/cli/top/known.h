#ifndef TOP_KNOWN_H
#define TOP_KNOWN_H

/* The names of locks that `rql top` knows. A pass over all keys finds them, at most every 10 s;
 * between two passes a look reads these alone. */

#include "cmd.h"

struct top_known {
    rql_text_list *keys; /* of the last pass, owned; NULL: there was none */
    const char **names;  /* in these, sorted, each once */
    size_t count;
    int64_t next_ms; /* when the next pass may begin */
};

/* Makes a pass if it is time. Only names that match the glob of the arguments are kept. */
rql_status top_known_update(struct top_known *self, struct cli_session *session, rql_error *error);

void top_known_free_p(struct top_known *self);

#endif
