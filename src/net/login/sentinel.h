#ifndef RQLI_SENTINEL_H
#define RQLI_SENTINEL_H

/* A conversation with one sentinel. It has no lock and no thread of its own, and blocks until a
 * deadline. A failure closes it, because an answer may still come. */

#include "net/sock/decode.h"
#include "net/sock/master.h"
#include "net/sock/socket.h"

struct rqli_sentinel {
    struct rqli_socket sock;
    struct rqli_command command;
    struct rqli_arena arena;
};

/* Initializes a conversation. The site has the login and TLS of sentinels, and is borrowed. */
void rqli_sentinel_init(struct rqli_sentinel *self, const struct rqli_site *site);
void rqli_sentinel_close(struct rqli_sentinel *self);
void rqli_sentinel_fini(struct rqli_sentinel *self);

static inline bool rqli_sentinel_is_open(const struct rqli_sentinel *self)
{
    return self->sock.fd >= 0;
}

/* Connects and logs in. */
rql_status rqli_sentinel_open(struct rqli_sentinel *self, const struct rqli_address *address,
                              int64_t deadline_us, rql_error *error);

/* Asks where the master of this name is. RQL_E_UNAVAILABLE: the sentinel does not know it.
 * RQL_E_AUTH: the sentinel wants a login, or the right to ask is missing. */
rql_status rqli_sentinel_ask(struct rqli_sentinel *self, const char *master, int64_t deadline_us,
                             struct rqli_master_claim *out, rql_error *error);

/* Asks which other sentinels watch the master. *count: at most so many on entry, then how many. */
rql_status rqli_sentinel_others(struct rqli_sentinel *self, const char *master, int64_t deadline_us,
                                struct rqli_address *out, size_t *count);

/* Subscribes to news of failovers, of any master. From then on no more questions can be asked. */
rql_status rqli_sentinel_subscribe(struct rqli_sentinel *self, int64_t deadline_us);

/* Takes the news that have come, without waiting, and ignores their contents: the caller asks
 * instead. Closes the conversation if the connection broke. */
void rqli_sentinel_take_news(struct rqli_sentinel *self);

#endif
