#ifndef RQLI_NOTIFY_H
#define RQLI_NOTIFY_H

/* What locks report to rqli_observe(), on a thread and on a loop. */

#include "observe/observe.h"

#include <rql/series.h>

struct rqli_acquire_result;

void rqli_notify_obtained(const rql_lock *lock);

/* A lock, or an atomic series, was not acquired. */
void rqli_notify_refused(const struct rqli_subject *subject,
                         const struct rqli_acquire_result *result, rql_status status);

void rqli_notify_ending(const rql_lock *lock);
void rqli_notify_ended(const rql_lock *lock, rql_status status);

/* What is not about one acquisition. Whoever asks the client by a call is sampled, and has no lines
 * in the gem; a swarm is neither. */
struct rqli_subject rqli_subject_of_call(const rql_client *client);
struct rqli_subject rqli_subject_of_client(const rql_client *client);

#endif
