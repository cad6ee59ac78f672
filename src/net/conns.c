#include "net/conns.h"

#include "base/clock.h"

#include <stddef.h>

enum {
    MOMENT_US = 20000,  /* to open one more, where the server is near; if it is far one does */
    AGAIN_US = 1000000, /* between two attempts */
};

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
    self->durable = rqli_conn_new(endpoint);
    return self->durable != NULL;
}

void rqli_conns_fini(struct rqli_conns *self)
{
    for (unsigned i = 0; i < self->limit; i++) {
        self->each[i] = rqli_conn_free(self->each[i]);
    }
    self->durable = rqli_conn_free(self->durable);
}

void rqli_conns_abandon(struct rqli_conns *self)
{
    for (unsigned i = 0; i < self->limit; i++) {
        rqli_conn_abandon(self->each[i]);
    }
    rqli_conn_abandon(self->durable);
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

/* By the thread that has found that some have met, within a moment or not at all: what it is about
 * to ask need not wait for a connection that is only one more, and does not fail with it. */
static bool open_one_more(struct rqli_conns *self)
{
    int64_t now_us = rqli_now_us();
    unsigned n_used;
    bool is_open = false;

    if (now_us < atomic_load_explicit(&self->again_us, memory_order_relaxed) ||
        atomic_exchange_explicit(&self->is_opening, true, memory_order_acquire)) {
        return false;
    }
    n_used = atomic_load_explicit(&self->n_used, memory_order_relaxed);
    if (n_used < self->limit) {
        is_open = rqli_conn_connect(self->each[n_used], now_us + MOMENT_US, NULL) == RQL_OK;
    }
    if (is_open) {
        atomic_store_explicit(&self->n_used, n_used + 1, memory_order_relaxed);
    } else {
        atomic_store_explicit(&self->again_us, now_us + AGAIN_US, memory_order_relaxed);
    }
    atomic_store_explicit(&self->is_opening, false, memory_order_release);
    return is_open;
}

struct rqli_conn *rqli_conns_choose(struct rqli_conns *self)
{
    unsigned n_used = atomic_load_explicit(&self->n_used, memory_order_relaxed);
    struct rqli_conn *conn = self->each[number_of_thread() % n_used];

    if (n_used < self->limit && rqli_conn_take_crowded(conn) && open_one_more(self)) {
        n_used = atomic_load_explicit(&self->n_used, memory_order_relaxed);
        conn = self->each[number_of_thread() % n_used];
    }
    return conn;
}

/* All of them are asked: each that has ended is closed by that. */
bool rqli_conns_see_end(struct rqli_conns *self)
{
    bool has_ended = rqli_conn_end_if_ended(self->durable);

    for (unsigned i = 0; i < self->limit; i++) {
        has_ended |= rqli_conn_end_if_ended(self->each[i]);
    }
    return has_ended;
}

void rqli_conns_end_unused(struct rqli_conns *self, int64_t unused_us)
{
    rqli_conn_end_if_unused(self->durable, unused_us);
    for (unsigned i = 0; i < self->limit; i++) {
        rqli_conn_end_if_unused(self->each[i], unused_us);
    }
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
