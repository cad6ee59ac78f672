#ifndef RQLI_ATTEMPT_INSIDE_H
#define RQLI_ATTEMPT_INSIDE_H

/* What attempt.c (the world of one request), attempt_try.c (asking the server), series/attempt.c
 * (the same for several locks) and those who do so on a loop share. The thread that acquires only.
 */

#include "lock/attempt.h"
#include "lock/drive.h"
#include "net/subscriber.h"

struct rqli_answer;
struct rqli_call;
struct rqli_exchange;

struct attempt {
    rql_client *client;
    rql_lock *lock; /* of a series: the first, for what all have in common */
    const rql_lock_options *options;
    struct rqli_attempt_result *out;
    struct rqli_waiter waiter;
    bool has_joined;
    bool may_retry; /* this client has been connected before */
    int64_t deadline_us;
    bool had_grace; /* a try failed after the deadline: what leaves the queue has only the rest */
    struct rqli_request_place place;
    /* Of the last refusal, for its driver to look after: */
    bool was_restored;         /* the others of this client for this lock should look, too */
    struct rqli_slice watched; /* key of a lock of Ruby's; empty: none */
    const char *armed;         /* the key of which the next change is told; a series has several */
    uint64_t watch_generation; /* of the connection that it is told for */
};

/* It has asked to be told of the next change of this lock, and the connection is still the same. */
static inline bool rqli_attempt_is_armed(const struct attempt *self, uint64_t generation)
{
    return self->armed == self->watched.data && self->watch_generation == generation;
}

static inline void rqli_attempt_arm(struct attempt *self, uint64_t generation)
{
    self->armed = self->watched.data;
    self->watch_generation = generation;
}

static inline int64_t later(int64_t a_us, int64_t b_us)
{
    return a_us > b_us ? a_us : b_us;
}

void rqli_attempt_init(struct attempt *self, rql_lock *lock, const rql_lock_options *options,
                       struct rqli_attempt_result *out);

/* The request that it drives, as the options say. */
void rqli_attempt_begin(const struct attempt *self, struct rqli_request *request);

/* It is over: how it was. begun_us: when it began. */
void rqli_attempt_end(struct attempt *self, const struct rqli_request *request, int64_t begun_us);

/* Tells of a fault only what is true of the whole: a try may have failed before it. */
void rqli_attempt_tell_fault(const struct attempt *self, rql_status status, const rql_error *detail,
                             rql_error *error); /* NULLs are fine */

/* Drives it to its end in this world. */
rql_status rqli_attempt_run(struct attempt *self, const struct rqli_world *world, rql_error *error);

/* As rqli_world::view. */
void rqli_attempt_view(void *self, struct rqli_request_view *out);

/* Until something is pushed, or until_us. */
enum rqli_wake rqli_attempt_sleep(struct attempt *self, int64_t until_us);

/* What was pushed: a grant in force, or a reason to look. */
enum rqli_wait_result rqli_attempt_take_push(struct attempt *self);

/* How long asking, and leaving the queue may take. Who is in the queue already asks until the
 * deadline: the withdrawal follows on the same connection, and has all of the grace. */
int64_t rqli_attempt_ask_until(const struct attempt *self, int64_t now_us);
int64_t rqli_attempt_leave_until(const struct attempt *self);

/* Has the subscriber listen for this request. */
rql_status rqli_attempt_join(struct attempt *self, rql_error *error);

/* The arguments of acquire.lua. */
void rqli_attempt_add_words(const struct attempt *attempt, struct rqli_call *call, int64_t now_us);

/* Connects if need be, and carries the call that `write` fills in. NULL: *failure_out says why. */
struct rqli_exchange *rqli_attempt_carry(struct attempt *attempt,
                                         void (*write)(const struct attempt *, struct rqli_call *,
                                                       int64_t now_us),
                                         struct rqli_try *failure_out, rql_error *error);

/* The answer carried the server's time. */
void rqli_attempt_learn(const struct attempt *attempt, const struct rqli_exchange *exchange,
                        int64_t server_us);

/* A try had no answer. What may pass by itself is tried again until the deadline; a server that
 * never answered is not. */
/* RQL_E_UNAVAILABLE: what is acquired now would be lost at once (protocol.md 16). */
rql_status rqli_attempt_check_host(const struct attempt *self, int64_t now_us, rql_error *error);

struct rqli_try rqli_attempt_failed(struct attempt *attempt, rql_status fault);

/* A grant that cannot be relied on: it came too late, or somebody took the ttl away. */
struct rqli_try rqli_attempt_not_in_force(struct attempt *attempt,
                                          const struct rqli_answer *answer);

/* What an answer leads to that is no grant; no I/O. */
struct rqli_try rqli_attempt_decide(struct attempt *attempt, const struct rqli_exchange *exchange,
                                    const struct rqli_answer *answer);

/* A refusal, once more: joins if need be, tells the others, watches Ruby. */
struct rqli_try rqli_attempt_attend(struct attempt *attempt, struct rqli_try result,
                                    uint64_t link_generation, rql_error *error);

/* A run of acquire.lua, and what its answer leads to. */
void rqli_attempt_write(const struct attempt *attempt, struct rqli_call *call, int64_t now_us);
struct rqli_try rqli_attempt_read(struct attempt *attempt, const struct rqli_exchange *exchange,
                                  rql_error *error);

/* One run of acquire.lua; as rqli_world::try_take. */
struct rqli_try rqli_attempt_try(void *self, rql_error *error);

#endif
