#ifndef RQLI_LOGIN_H
#define RQLI_LOGIN_H

/* The first words on a new connection, in one write; what would fail later fails here, with a name.
 */

#include "link/wire.h"

rql_status rqli_login(struct rqli_wire *wire, int64_t predecessor_id, int64_t deadline_us,
                      struct rqli_clock_reading *reading_out, rql_error *error);

#endif
