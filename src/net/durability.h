#ifndef RQLI_DURABILITY_H
#define RQLI_DURABILITY_H

/*
 * How safe the server shall make what a call has written before the call counts as answered: WAIT
 * and WAITAOF, once behind all calls that are sent together. They speak of what was written over
 * their own connection, which they hold up meanwhile: such calls have one of their own.
 */

#include "wire/command.h"
#include "wire/reply.h"

struct rqli_durability {
    int64_t replicas;   /* that have it; 0: none need to */
    bool fsync;         /* it is on the server's disk */
    int64_t timeout_ms; /* longest wait for that */
    int64_t until_us;   /* when the caller stops waiting, by the local clock; 0: not known */
};

/* What the server has said. */
struct rqli_acks {
    int64_t replicas;
    bool is_synced;
    rql_status refused; /* what an error that answered one of the two stands for, or RQL_OK */
};

/* A server that has nothing else to do looks at its timeouts so often (hz: ten times a second). */
enum { RQLI_SERVER_TICK_MS = 100 };

/* What the answer may take. */
static inline int64_t rqli_durability_longest_ms(const struct rqli_durability *self)
{
    return self->timeout_ms + RQLI_SERVER_TICK_MS;
}

/* Commands, and bytes, that rqli_durability_write() takes at most. */
enum { RQLI_ACKS_MAX = 2, RQLI_ACKS_BYTES = 128 };

static inline bool rqli_durability_is_wanted(const struct rqli_durability *self)
{
    return self->replicas > 0 || self->fsync;
}

/* As much as both want, and no longer than the less patient of them waits. */
void rqli_durability_join(struct rqli_durability *self, const struct rqli_durability *other);

/* Shortens the timeout so that the server answers before the caller stops waiting. */
void rqli_durability_limit(struct rqli_durability *self, int64_t now_us);

/* One command for each of the two that is wanted; their replies are then read in that order. */
void rqli_durability_write(const struct rqli_durability *self, struct rqli_command *command);
void rqli_acks_read(struct rqli_acks *self, const struct rqli_durability *asked,
                    const struct rqli_reply *replies);

/* As little as both say. */
void rqli_acks_join(struct rqli_acks *self, const struct rqli_acks *other);

bool rqli_durability_is_met(const struct rqli_durability *self, const struct rqli_acks *acks);

#endif
