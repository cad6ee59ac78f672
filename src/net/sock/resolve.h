#ifndef RQLI_RESOLVE_H
#define RQLI_RESOLVE_H

/*
 * Resolves names to addresses, before an absolute deadline. getaddrinfo() cannot be interrupted and
 * may take half a minute, so a name is looked up by a thread of its own, which outlives a caller
 * whose deadline has passed. While a lookup is under way, further callers join it: there is one
 * thread per name, however many connections are tried.
 */

#include "net/sock/address.h"

#include <pthread.h>
#include <stdint.h>

struct addrinfo;
struct rqli_lookup;

/* The lookups of a client that are under way. Zeroing it is not enough, because it has a mutex. */
struct rqli_resolver {
    pthread_mutex_t mutex;
    struct rqli_lookup *first; /* guarded by the mutex */
};

void rqli_resolver_init(struct rqli_resolver *self);

/* Does not wait for lookups: each frees itself when it ends. */
void rqli_resolver_fini(struct rqli_resolver *self);

/* Looks up the host of an address. Any thread may call it. Returns a lookup, which the caller gives
 * back with rqli_lookup_leave(). A numeric address needs no server and no time. NULL: *code_out is
 * getaddrinfo()'s code, EAI_AGAIN with errno ETIMEDOUT at the deadline, EAI_SYSTEM with the reason
 * in errno. */
struct rqli_lookup *rqli_resolve(struct rqli_resolver *self, const struct rqli_address *address,
                                 int64_t deadline_us, int *code_out);

/* Returns the IPv4 and IPv6 addresses, with the port. They live as long as the lookup. */
const struct addrinfo *rqli_lookup_addresses(const struct rqli_lookup *self);

void rqli_lookup_leave(struct rqli_lookup *self);

#endif
