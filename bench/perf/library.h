#ifndef RQLB_LIBRARY_H
#define RQLB_LIBRARY_H

/* librql in six ways. The address is a URL of the library. */

#include "perf/contender.h"

extern const struct contender contender_shared;    /* one client for all threads of a process */
extern const struct contender contender_own;       /* a client for each thread */
extern const struct contender contender_spin;      /* one for all; a lone caller spins */
extern const struct contender contender_lazy;      /* one for all; a release is not waited for */
extern const struct contender contender_lazy_spin; /* both */
extern const struct contender contender_durable;   /* one for all; a replica has each grant */

#endif
