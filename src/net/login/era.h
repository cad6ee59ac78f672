#ifndef RQLI_ERA_H
#define RQLI_ERA_H

/*
 * Remembers what a client has seen of one set of keys and of their server, to find out on a new
 * connection whether the server has lost writes: the highest token, and which server it was
 * (lua/README.md 44 to 48).
 */

#include "wire/command.h"
#include "wire/reply.h"

#include <rql/status.h>
#include <stdatomic.h>

/* For one set of keys. All zero, except for pause_ms, when the client is new. Any thread may use
 * it. */
struct rqli_era {
    int64_t pause_ms;        /* recovery_delay_ms; constant */
    _Atomic int64_t floor;   /* the highest token that the server is known to have had; 0: none */
    _Atomic int64_t made;    /* the highest token that rqli_era_make_token() has returned */
    _Atomic uint64_t server; /* of the last login, as a hash of its run id; 0: no login yet */
    atomic_bool has_news;    /* held locks must be verified; `lost` may have a loss to report */
    _Atomic int64_t lost;    /* the highest token when writes were found missing; 0: none were */
    _Atomic int64_t known;   /* the last token that the server knew at that time */
};

/* Records a token that the server has sent or confirmed. */
static inline void rqli_era_on_token(struct rqli_era *self, int64_t token)
{
    int64_t floor = atomic_load_explicit(&self->floor, memory_order_relaxed);

    while (token > floor &&
           !atomic_compare_exchange_weak_explicit(&self->floor, &floor, token, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
}

/* Makes a token for a hand-over inside the client: at least at_least, and larger than every token
 * that was seen or made before. Returns 0 if it would be larger than at_most. It counts as seen
 * only when the server has confirmed the hand-over: a server that does not know of it yet has lost
 * nothing. */
static inline int64_t rqli_era_make_token(struct rqli_era *self, int64_t at_least, int64_t at_most)
{
    int64_t floor = atomic_load_explicit(&self->floor, memory_order_relaxed);
    int64_t made = atomic_load_explicit(&self->made, memory_order_relaxed);
    int64_t token;

    do {
        token = floor > made ? floor + 1 : made + 1;
        token = token > at_least ? token : at_least;
        if (token > at_most) {
            return 0;
        }
    } while (!atomic_compare_exchange_weak_explicit(&self->made, &made, token, memory_order_relaxed,
                                                    memory_order_relaxed));
    return token;
}

/* True: this client sends arrive.lua on a new connection, before all other calls. */
static inline bool rqli_era_wants(const struct rqli_era *self)
{
    return self->pause_ms > 0 || atomic_load(&self->floor) > 0;
}

/* Writes the call of arrive.lua, with the highest token that was seen or made, and returns the
 * floor for rqli_era_read(). run_id is empty if the user may not ask for it; then there can be no
 * pause. masters: the run ids of the servers from which the keys may have come with all that was in
 * them, in the script's format; none if empty. */
int64_t rqli_era_write(const struct rqli_era *self, const struct rqli_key_set *set,
                       const char *run_id, struct rqli_slice masters, struct rqli_command *command);

/* Reads its answer. RQL_E_PROTOCOL, or the status of an error reply: this connection is of no
 * use. */
rql_status rqli_era_read(struct rqli_era *self, int64_t floor, const struct rqli_reply *reply,
                         const char *where, rql_error *error);

/* The call of arrive.lua had no answer. A repeated call may find nothing missing, because the first
 * one may have raised the floor. */
static inline void rqli_era_on_silence(struct rqli_era *self)
{
    atomic_store(&self->has_news, true);
}

/* A connection for commands was made, to the server that has this run id. */
void rqli_era_on_login(struct rqli_era *self, const char *run_id);

/* True, once: the held locks must be verified. *lost_out, *known_out: if writes were lost, the
 * highest token that was seen and the last one that the server knew; otherwise 0. */
bool rqli_era_take_news(struct rqli_era *self, int64_t *lost_out, int64_t *known_out);

#endif
