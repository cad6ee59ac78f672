#ifndef RQLI_SWARM_DOOR_H
#define RQLI_SWARM_DOOR_H

/* What the library's calls tell the swarm; swarm/hosts.c does it. */

#include <rql/swarm.h>
#include <sys/types.h>

struct rqli_hosts;

/* The hosts of one client: its threads. NULL: out of memory. */
struct rqli_hosts *rqli_hosts_new(void);
struct rqli_hosts *rqli_hosts_free(struct rqli_hosts *self); /* NULL is fine */

/* Any thread. This thread uses the client: a host from now on, if a swarm runs. */
void rqli_hosts_meet(struct rqli_hosts *self, pid_t thread);

#endif
