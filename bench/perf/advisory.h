#ifndef RQLB_ADVISORY_H
#define RQLB_ADVISORY_H

/* PostgreSQL's advisory locks of a session: prepared statements over libpq, one connection for each
 * thread. The address is a libpq connection string. */

#include "perf/contender.h"

extern const struct contender contender_advisory;

#endif
