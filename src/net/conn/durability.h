#ifndef RQLI_DURABILITY_H
#define RQLI_DURABILITY_H

/*
 * How safe the server shall make the writes of a call before the call counts as answered: WAIT and
 * WAITAOF, once after all calls that are sent together. They refer to the writes of their own
 * connection, which they block meanwhile, so such calls have a connection of their own.
 */

#include "wire/command.h"
#include "wire/reply.h"

struct rqli_durability {
    int64_t replicas;   /* that must have the writes; 0: none */
    bool fsync;         /* the writes must be on the server's disk */
    int64_t timeout_ms; /* longest wait for that */
    int64_t until_us;   /* when the caller stops waiting, by the local clock; 0: not known */
};

/* The server's answers. */
struct rqli_acks {
    int64_t replicas;
    bool is_synced;
    rql_status refused; /* the status of an error reply to one of the two, or RQL_OK */
};

/* The interval at which an idle server looks at its timeouts (hz: ten times a second). */
enum { RQLI_SERVER_TICK_MS = 100 };

/* Returns how long the answer may take. */
static inline int64_t rqli_durability_longest_ms(const struct rqli_durability *self)
{
    return self->timeout_ms + RQLI_SERVER_TICK_MS;
}

/* Commands, and bytes, that rqli_durability_write() writes at most. */
enum { RQLI_ACKS_MAX = 2, RQLI_ACKS_BYTES = 128 };

static inline bool rqli_durability_is_wanted(const struct rqli_durability *self)
{
    return self->replicas > 0 || self->fsync;
}

/* Raises *self to what both want, for no longer than the less patient of the two waits. */
void rqli_durability_join(struct rqli_durability *self, const struct rqli_durability *other);

/* Shortens the timeout so that the server answers before the caller stops waiting. */
void rqli_durability_limit(struct rqli_durability *self, int64_t now_us);

/* Writes one command for each of the two that is wanted; rqli_acks_read() reads their replies in
 * that order. */
void rqli_durability_write(const struct rqli_durability *self, struct rqli_command *command);
void rqli_acks_read(struct rqli_acks *self, const struct rqli_durability *asked,
                    const struct rqli_reply *replies);

/* Lowers *self to what both confirm. */
void rqli_acks_join(struct rqli_acks *self, const struct rqli_acks *other);

bool rqli_durability_is_met(const struct rqli_durability *self, const struct rqli_acks *acks);

#endif
