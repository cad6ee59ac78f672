#include "net/conns.h"

#include <stddef.h>

bool rqli_conns_init(struct rqli_conns *self, const struct rqli_endpoint *endpoint, unsigned limit)
{
    self->limit = limit;
    atomic_init(&self->n_used, 1);
    for (unsigned i = 0; i < limit; i++) {
        self->each[i] = rqli_conn_new(endpoint);
        if (!self->each[i]) {
            return false;
        }
    }
    return true;
}

void rqli_conns_fini(struct rqli_conns *self)
{
    for (unsigned i = 0; i < self->limit; i++) {
        self->each[i] = rqli_conn_free(self->each[i]);
    }
}

void rqli_conns_abandon(struct rqli_conns *self)
{
    for (unsigned i = 0; i < self->limit; i++) {
        rqli_conn_abandon(self->each[i]);
    }
}

/* Threads that were begun one after the other have numbers in a row, and so connections of their
 * own as long as these suffice. */
static unsigned number_of_thread(void)
{
    static atomic_uint last;
    static _Thread_local unsigned own; /* 0: not given yet */

    if (own == 0) {
        own = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    }
    return own;
}

/* Several that find at once that threads have met add one between them. */
struct rqli_conn *rqli_conns_choose(struct rqli_conns *self)
{
    unsigned n_used = atomic_load_explicit(&self->n_used, memory_order_relaxed);
    struct rqli_conn *conn = self->each[number_of_thread() % n_used];

    if (n_used < self->limit && rqli_conn_take_crowded(conn) &&
        atomic_compare_exchange_strong_explicit(&self->n_used, &n_used, n_used + 1,
                                                memory_order_relaxed, memory_order_relaxed)) {
        conn = self->each[number_of_thread() % (n_used + 1)];
    }
    return conn;
}

struct rqli_conn *rqli_conns_find(const struct rqli_conns *self, const void *carrier)
{
    for (unsigned i = 0; i < self->limit; i++) {
        if (self->each[i] == carrier) {
            return self->each[i];
        }
    }
    return NULL;
}
