#ifndef RQLI_SERVING_H
#define RQLI_SERVING_H

/* What a script leaves to its caller: no call takes the server longer than about a millisecond, so
 * a queue with many dead waiters at its head is served in several. */

#include "net/conn_threads.h"
#include "wire/call.h"

/* Of the scripts that end in serve_queue.lua. */
enum rqli_served {
    RQLI_SERVED_NOBODY = 0,
    RQLI_SERVED_ONE = 1,   /* the lock was handed over */
    RQLI_SERVED_PARTLY = 2 /* rqli_serve() is due */
};

/* Does the answer {.., served, ..} of a script say that it is due? And the call that does a part.
 */
bool rqli_serve_is_due(const struct rqli_reply *reply);
void rqli_serve_write(const struct rqli_keys *keys, struct rqli_call *call);

/* Serves the queue of a lock if that is free. True: it was handed over. A fault ends it: the next
 * poll serves who is next. */
bool rqli_serve(struct rqli_conn *conn, const struct rqli_keys *keys, int64_t deadline_us);

/* The same if the answer says that it is due. */
void rqli_serve_if_due(struct rqli_conn *conn, const struct rqli_keys *keys,
                       const struct rqli_reply *reply, int64_t deadline_us);

#endif
