#ifndef RQLI_RECORD_H
#define RQLI_RECORD_H

/* A duty of the thread in the background that sends what has been recorded since the last time,
 * once in a second at most. The end of the client waits for it, but not for a second try. */

#include "lock/background.h"
#include "lock/client.h"
#include "wire/keys.h"

struct rqli_record {
    struct rqli_duty duty; /* first */
    rql_client *client;
    struct rqli_keys keys; /* `key` stands for the lock */
    char key[RQLI_HISTORY_KEY_SIZE];
    bool is_reserved; /* room for the duty */
    bool is_owed;     /* counts in the background's n_records: something waits, or is sent */
};

/* ops: their `begin` is rqli_record_begin(). The key is in the first set of keys. */
void rqli_record_init(struct rqli_record *self, rql_client *client,
                      const struct rqli_duty_ops *ops);

/* The callers of the others hold the mutex of the background. */

bool rqli_record_begin(struct rqli_duty *duty, int64_t now_us);

/* Plans a call for what has come. False: there is no thread, or no memory. */
bool rqli_record_plan(struct rqli_record *self);

/* A call is over: plans the next one, or none. */
void rqli_record_plan_next(struct rqli_record *self, bool has_more, bool was_sent);

/* The holds that wait to be sent are due at once, because the client ends. */
void rqli_record_hurry(struct rqli_record *self);

#endif
