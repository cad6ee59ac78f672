#ifndef RQLI_NOTIFY_H
#define RQLI_NOTIFY_H

/* The reports of locks to rqli_observe(), on a thread and on a loop. */

#include "observe/observe.h"

#include <rql/series.h>

struct rqli_acquire_result;

void rqli_notify_obtained(const rql_lock *lock);

/* Reports that a lock, or an atomic series, was not acquired. */
void rqli_notify_refused(const struct rqli_subject *subject,
                         const struct rqli_acquire_result *result, rql_status status);

void rqli_notify_ending(const rql_lock *lock);
void rqli_notify_ended(const rql_lock *lock, rql_status status);

/* Return the subject of reports that are not about one acquisition. Those of calls to the client
 * are sampled, and have no lines in the gem; those of a swarm are not sampled, and have lines. */
struct rqli_subject rqli_subject_of_call(const rql_client *client);
struct rqli_subject rqli_subject_of_client(const rql_client *client);

#endif
