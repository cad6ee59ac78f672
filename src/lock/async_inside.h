#ifndef RQLI_ASYNC_INSIDE_H
#define RQLI_ASYNC_INSIDE_H

/* What the asynchronous calls share: checks on any thread, and parts that others are made of, on
 * the loop's. */

#include "lock/loop.h"

/* Any thread. Hands the job over, which is freed if it cannot be; NULL: no memory. */
rql_status rqli_async_start(rql_loop *loop, struct rqli_job *job, rql_error *error);

/* Any thread. The request for one lock; copies. NULL: no memory. */
rql_request *rqli_single_new(rql_loop *loop, const char *name, const rql_lock_options *options,
                             const rql_acquiring *what);

/* It has the acquirer of this number, which others have, too. */
void rqli_single_be(rql_request *request, uint64_t number);

/* Any thread. The release of one lock. is_whole: it is unlisted and observed before, freed at the
 * end; else that is its owner's part. NULL: no memory. */
struct rqli_job *rqli_release_new(rql_lock *lock, const rql_done *done, bool is_whole);

/* Any thread. RQL_E_INVALID: `what` is of another client. */
rql_status rqli_async_check_of(rql_loop *loop, const rql_client *client, const char *what,
                               rql_error *error);

/* Copies the metadata into `memory`, which has the room, and returns what is behind it. */
size_t rqli_options_room(const rql_lock_options *options);
char *rqli_options_copy(rql_lock_options *options, char *memory);

void rqli_tell_done(const rql_done *done, rql_status status, const rql_error *error);

/* Loop's thread. False: no memory, nothing was begun. */
bool rqli_release_begin(rql_loop *loop, rql_lock *lock, const rql_done *done, bool is_whole);
bool rqli_work_begin(rql_loop *loop, const rql_work *work);

#endif
