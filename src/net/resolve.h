#ifndef RQLI_RESOLVE_H
#define RQLI_RESOLVE_H

/*
 * Names to addresses, before an absolute deadline. getaddrinfo() cannot be interrupted and may take
 * half a minute, so a name is looked up by a thread of its own, which outlives a caller whose
 * deadline has passed. While a lookup is under way, further callers join it: however many
 * connections are tried, there is one thread a name.
 */

#include "net/address.h"

#include <pthread.h>
#include <stdint.h>

struct addrinfo;
struct rqli_lookup;

/* The lookups of a client that are under way. Zeroed is not enough: it has a mutex. */
struct rqli_resolver {
    pthread_mutex_t mutex;
    struct rqli_lookup *first; /* under the mutex */
};

void rqli_resolver_init(struct rqli_resolver *self);

/* Waits for no lookup: each frees itself when it ends. */
void rqli_resolver_fini(struct rqli_resolver *self);

/* Looks up the host of an address. Returns a lookup, to be given back with rqli_lookup_leave(); a
 * numeric address asks no server and takes no time. NULL: *code_out is getaddrinfo()'s, EAI_AGAIN
 * with errno ETIMEDOUT at the deadline, EAI_SYSTEM with the reason in errno. Any thread. */
struct rqli_lookup *rqli_resolve(struct rqli_resolver *self, const struct rqli_address *address,
                                 int64_t deadline_us, int *code_out);

/* IPv4 and IPv6 addresses, with the port; they live as long as the lookup. */
const struct addrinfo *rqli_lookup_addresses(const struct rqli_lookup *self);

void rqli_lookup_leave(struct rqli_lookup *self);

#endif
