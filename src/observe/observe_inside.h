#ifndef RQLI_OBSERVE_INSIDE_H
#define RQLI_OBSERVE_INSIDE_H

/* What the files that build log lines and events share. Only called when somebody listens. */

#include "lock/lock.h"
#include "observe/observe.h"

enum { RQLI_LOG_FIELDS_MAX = 8 };

struct rqli_log_line {
    rql_log_record record;
    rql_log_field fields[RQLI_LOG_FIELDS_MAX];
};

/* Who a line is about. */
struct rqli_log_subject {
    const struct rqli_listeners *listeners;
    const char *acquirer;
    const char *host;
};

/* Ends up with nothing but its name. */
void rqli_log_begin(struct rqli_log_line *self, const char *name);

/* One field more; in the order of the gem. */
void rqli_log_quoted(struct rqli_log_line *self, const char *name, const char *text);
void rqli_log_list(struct rqli_log_line *self, const char *name, const char *const *items,
                   size_t n_items);
void rqli_log_number(struct rqli_log_line *self, const char *name, rql_log_kind kind,
                     int64_t number);

/* queue_ttl, acq_id, hst_id, acs_strat. host_name: what the line calls the host. */
void rqli_log_common(struct rqli_log_line *self, const struct rqli_log_subject *subject,
                     const char *host_name);

/* lock_key and these four: how nearly all lines begin. */
void rqli_log_begin_lock(struct rqli_log_line *self, const char *name, const rql_lock *lock);

void rqli_log_send(struct rqli_log_line *self, const struct rqli_listeners *listeners);

/* The same without more. Nobody listens: nothing. */
void rqli_log_plain(const rql_lock *lock, const char *name);

/* With its name, and nothing that it does not have. */
struct rql_event rqli_event(rql_event_kind kind);

/* The same with what is known of a lock that is not held yet, and of one that is. */
struct rql_event rqli_event_of_request(rql_event_kind kind, const rql_lock *lock);
struct rql_event rqli_event_of_lock(rql_event_kind kind, const rql_lock *lock);

void rqli_event_send(const struct rql_event *event, const struct rqli_listeners *listeners);

/* A rql_event::at_us. */
int64_t rqli_event_time_us(rql_client *client);

#endif
