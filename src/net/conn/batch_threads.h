#ifndef RQLI_BATCH_THREADS_H
#define RQLI_BATCH_THREADS_H

/*
 * Batches of threads, over a connection that is open; net/conn/conn_threads.h opens it. A caller
 * takes a batch, writes commands into it, runs it, reads the replies and gives it back.
 */

#include "net/conn/conn.h"

struct rqli_conn;

/* Takes a batch with an empty command. Any thread. NULL: out of memory. */
struct rqli_batch *rqli_batch_take(struct rqli_conn *conn);
void rqli_batch_give(struct rqli_batch *batch); /* NULL is fine */

/*
 * Run a batch in two steps, for a call that another thread must know of before the server can
 * answer it: the first puts it in the stream, after everything that was put there before; the
 * second sends it and waits for the answer, as rqli_conn_run() does. The call goes over the
 * connection of this generation (0: the present one) or not at all: then RQL_E_IO, and there is
 * nothing to await.
 */
rql_status rqli_batch_put(struct rqli_batch *batch, uint64_t generation, rql_error *error);
rql_status rqli_batch_await(struct rqli_batch *batch, int64_t deadline_us, rql_error *error);

/*
 * Puts and sends a batch without waiting for the answer, which the next reader reads. The batch
 * stays its caller's: rqli_batch_await() returns its replies, at once when it is over.
 */
rql_status rqli_batch_send(struct rqli_batch *batch, uint64_t generation, rql_error *error);

/* Tell of a batch that was sent whether it is over (the replies are there, or will not come), and
 * whether the replies are there. Neither takes a mutex. */
bool rqli_batch_is_over(const struct rqli_batch *batch);
bool rqli_batch_is_answered(const struct rqli_batch *batch);

/* ---- for net/conn/conn_threads.c, which holds the connection's mutex ---- */

/* Puts a batch in the stream of a connection that is up, sends it and waits for its answer.
 * Releases the mutex. */
rql_status rqli_batch_run_locked(struct rqli_batch *batch, int64_t deadline_us, rql_error *error);

/* Ends the connection: each batch in flight gets its fate. A thread that still uses the socket
 * finds it shut down, and closes it. */
void rqli_batch_end_all(struct rqli_conn *conn);

/* Ends the connection if it was unused for this long and its other end has closed it. Returns true
 * if it is up, as far as can be seen. */
bool rqli_batch_may_go(struct rqli_conn *conn, int64_t unused_us);

/* Frees all batches of a connection that no thread uses any more. */
void rqli_batch_free_all(struct rqli_conn *conn);

#endif
