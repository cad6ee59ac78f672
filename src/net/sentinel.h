#ifndef RQLI_SENTINEL_H
#define RQLI_SENTINEL_H

/* A conversation with one sentinel. No lock, no thread of its own; it blocks until a deadline. What
 * fails closes it, for an answer may still come. */

#include "net/decode.h"
#include "net/master.h"
#include "net/socket.h"

struct rqli_sentinel {
    struct rqli_socket sock;
    struct rqli_command command;
    struct rqli_arena arena;
};

/* The endpoint has the login and TLS of sentinels, and is borrowed. */
void rqli_sentinel_init(struct rqli_sentinel *self, const struct rqli_endpoint *endpoint);
void rqli_sentinel_close(struct rqli_sentinel *self);
void rqli_sentinel_fini(struct rqli_sentinel *self);

static inline bool rqli_sentinel_is_open(const struct rqli_sentinel *self)
{
    return self->sock.fd >= 0;
}

/* Connects and logs in. */
rql_status rqli_sentinel_open(struct rqli_sentinel *self, const struct rqli_address *address,
                              int64_t deadline_us, rql_error *error);

/* Where the master of this name is. RQL_E_UNAVAILABLE: it does not know it. RQL_E_AUTH: it wants a
 * login, or the right to ask is missing. */
rql_status rqli_sentinel_ask(struct rqli_sentinel *self, const char *master, int64_t deadline_us,
                             struct rqli_master_claim *out, rql_error *error);

/* Which other sentinels watch it: *count of at most `size`. */
rql_status rqli_sentinel_others(struct rqli_sentinel *self, const char *master, int64_t deadline_us,
                                struct rqli_address *out, size_t *count);

/* From here on it brings news of failovers, of any master, and is asked nothing more. */
rql_status rqli_sentinel_subscribe(struct rqli_sentinel *self, int64_t deadline_us);

/* Takes the news that have come, without waiting; what they say is asked for. Closes it when it
 * broke. */
void rqli_sentinel_take_news(struct rqli_sentinel *self);

#endif
