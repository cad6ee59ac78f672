#ifndef RQLI_LOOP_INSIDE_H
#define RQLI_LOOP_INSIDE_H

/* What loop.c (its rounds) and loop_door.c (opening and closing) share. The loop's thread, but
 * where said. */

#include "lock/loop.h"

/* Its handles. False: no descriptor for one. The thread that opens it. */
bool rqli_loop_prepare(rql_loop *loop);

/* Any thread. */
bool rqli_loop_is_here(const rql_loop *loop);

/* A loop with nothing else to do must not end now; nor wait for us when we are done. */
void rqli_loop_hold_open(rql_loop *loop, bool holds);

/* It is closing, and no job is under way any more: begins to end what it is made of. */
void rqli_loop_fold(rql_loop *loop);

/* loop_wait.c: as in rqli_push_loop_listener, of the loop. */
void rqli_loop_rouse(struct rqli_waiter *waiter);
void rqli_loop_on_read(void *loop);

#endif
