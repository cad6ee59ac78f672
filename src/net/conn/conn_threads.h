#ifndef RQLI_CONN_THREADS_H
#define RQLI_CONN_THREADS_H

/*
 * The command connection of a client, shared by all its threads and driven by them: it connects,
 * keeps its login valid and runs batches.
 *
 * Callers do the writing themselves; one waiting caller at a time reads for all and then hands the
 * reading on, so the library needs no thread for it and a reply wakes its owner straight from the
 * kernel. If a caller's deadline passes, it gives its batch back while the reply is still to come:
 * the reply is read and dropped.
 */

#include "net/conn/batch_threads.h"
#include "net/sock/socket.h"

struct rqli_clock_reading;
struct rqli_site;

/* Makes a connection, which connects at the first run. site is borrowed and must outlive it. */
struct rqli_conn *rqli_conn_new(const struct rqli_site *site);
struct rqli_conn *rqli_conn_free(struct rqli_conn *self);

/* In a fork child: closes the socket, sends nothing on it and takes no lock. */
void rqli_conn_abandon(struct rqli_conn *self);

/*
 * Runs a batch over the connection that it was taken from. Any thread; blocks until all replies are
 * there, or until deadline_us.
 *   RQL_OK         all replies are there; each may be an error reply
 *   RQL_E_IO       could not connect; nothing was sent
 *   RQL_E_UNKNOWN  sent, at least in part, and no answer
 *   RQL_E_AUTH, RQL_E_UNAVAILABLE, RQL_E_PROTOCOL, RQL_E_NOMEM   as their names say
 */
rql_status rqli_conn_run(struct rqli_batch *batch, int64_t deadline_us, rql_error *error);

/* Connects if necessary, and renews the login if that is due, as rqli_conn_run() would do first.
 * RQL_OK at once when connected. */
rql_status rqli_conn_connect(struct rqli_conn *self, int64_t deadline_us, rql_error *error);

/* Returns true if it is connected, as far as can be seen: a call need not wait for a connection. */
bool rqli_conn_is_up(struct rqli_conn *self);

/* Copies the run id of the server to which the connection of this generation leads. False: that
 * connection has ended. */
bool rqli_conn_run_id(struct rqli_conn *self, uint64_t generation, char out[RQLI_RUN_ID_SIZE]);

/* Returns true if the server refused writes when the connection was made: a replica. */
bool rqli_conn_was_read_only(struct rqli_conn *self);

/* Copies the reading of the server's clock from the last login; false: never connected. */
bool rqli_conn_clock(struct rqli_conn *self, struct rqli_clock_reading *out);

/* Closes the connection if no thread uses it and its other end has closed it. True, once: it has
 * ended by now or before, not because it was unused, and is not up again. */
bool rqli_conn_end_if_ended(struct rqli_conn *self);

/* Closes the connection if it was unused for this long. */
void rqli_conn_end_if_unused(struct rqli_conn *self, int64_t unused_us);

/* Caps the back-off: from now on no pause between two attempts to connect is longer. */
void rqli_conn_hurry(struct rqli_conn *self, int64_t longest_us);

/* Returns how many commands were put in its stream so far. Any thread. */
int64_t rqli_conn_n_commands(struct rqli_conn *self);

/* Returns true once after one more connection would have been of use: two callers had batches in
 * flight at the same time, with TLS more than a record of them. Any thread; costs no mutex. */
bool rqli_conn_take_crowded(struct rqli_conn *self);

/* Returns whether the last attempt to connect has failed. Any thread; costs no mutex. */
bool rqli_conn_is_failing(const struct rqli_conn *self);

/* Returns how many callers at most had batches in flight at the same time, over the last full
 * period of about a hundred calls; 0: not known yet. Any thread; costs no mutex. */
unsigned rqli_conn_n_met(const struct rqli_conn *self);

/* Sets that number to an expected one, until a period of calls has shown it. Any thread. */
void rqli_conn_note_met(struct rqli_conn *self, unsigned n_met);

/* Adds to the number of callers that are the client itself, which needs no connection of its
 * own. */
void rqli_conn_count_internal(struct rqli_conn *self, int change);

struct rqli_conn_notes *rqli_conn_notes(struct rqli_conn *self);

/*
 * The scripts that its server knows: those that it named at login, and those whose text was sent
 * over this connection since. Before the first login all scripts are assumed to be known. A server
 * that answers NOSCRIPT has forgotten all of them: SCRIPT FLUSH. Any thread.
 */
uint64_t rqli_conn_scripts(const struct rqli_conn *self);
void rqli_conn_forget_scripts(struct rqli_conn *self);

#endif
