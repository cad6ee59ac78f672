#ifndef RQLB_FLOOR_H
#define RQLB_FLOOR_H

/* What the library is compared with: blocking hiredis, one connection for each thread. The floor is
 * the plain lock that everybody writes: SET NX PX, and a script that deletes what is one's own. It
 * does not wait: two threads after one lock are a fault. The token is one element in a list, which
 * BLPOP waits for in order: no lock, for it ends with whoever has it, but the least that a
 * hand-over by the server can cost. The agent is `rql agent`, by its socket. */

#include "perf/contender.h"

#include <hiredis.h>

/* The address is the path of a Unix socket, or "host:port". NULL: the fault says why. */
redisContext *dial(const struct site *site);

extern const struct contender contender_ping;
extern const struct contender contender_floor;
extern const struct contender contender_token;
extern const struct contender contender_agent;

#endif
