#include "net/fleet/node.h"

#include "base/clock.h"
#include "base/pause.h"
#include "net/conn/push_threads.h"
#include "net/conn/subscription.h"
#include "net/sock/master.h"

#include <stddef.h>
#include <stdio.h>

enum {
    MOMENT_US = 20000, /* to open one more to a near server; for a far one, one is enough */
    FEW = 20,          /* callers at the same time, at most, that need not wait for each other */
    MANY = 28,         /* callers at the same time, at least, that are served best together */
};

/* Opens no connection yet. False: no memory; they must be ended all the same. */
static bool conns_init(struct rqli_conns *self, const struct rqli_site *site, unsigned limit)
{
    self->limit = limit;
    atomic_init(&self->n_used, 1);
    for (unsigned i = 0; i < limit; i++) {
        self->each[i] = rqli_conn_new(site);
        if (!self->each[i]) {
            return false;
        }
    }
    self->durable = rqli_conn_new(site);
    if (self->durable) { /* an unknown call there would wait for replicas first */
        rqli_conn_forget_scripts(self->durable);
    }
    return self->durable != NULL;
}

/* Returns the number of the calling thread. Threads that were begun one after the other have
 * numbers in a row, and so connections of their own as long as there are enough. */
static unsigned number_of_thread(void)
{
    static atomic_uint last;
    static _Thread_local unsigned own; /* 0: not given yet */

    if (own == 0) {
        own = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    }
    return own;
}

/* From now on n_used connections are used, each with an expected peak of n_met callers; 0: not
 * known yet. */
static void use_conns(struct rqli_conns *self, unsigned n_used, unsigned n_met)
{
    for (unsigned i = 0; i < n_used; i++) {
        rqli_conn_note_met(self->each[i], n_met);
    }
    atomic_store_explicit(&self->n_used, n_used, memory_order_relaxed);
}

/* Opens no additional connection for a while. */
static void wait_for_spare(struct rqli_conns *self)
{
    atomic_store_explicit(&self->again_us, rqli_now_us() + RQLI_PAUSE_SPARE.first_us,
                          memory_order_relaxed);
}

/* Opens one more connection, within a moment or not at all: the caller's commands need not wait for
 * a connection that is only an additional one, and do not fail with it. */
static void open_one_more(struct rqli_conns *self, unsigned n_used)
{
    int64_t now_us = rqli_now_us();

    if (now_us < atomic_load_explicit(&self->again_us, memory_order_relaxed)) {
        return;
    }
    if (rqli_conn_connect(self->each[n_used], now_us + MOMENT_US, NULL) == RQL_OK) {
        use_conns(self, n_used + 1, 0);
    } else {
        wait_for_spare(self);
    }
}

/* Returns the sum of the peak numbers of callers on these connections. */
static unsigned count_met(const struct rqli_conns *self, unsigned n_used)
{
    unsigned n_met = 0;

    for (unsigned i = 0; i < n_used; i++) {
        n_met += rqli_conn_n_met(self->each[i]);
    }
    return n_met;
}

/* Why the number of used connections changes. */
enum change {
    STAYS,
    IS_CROWDED,  /* one more is of use */
    ARE_MANY,    /* all share the first one */
    CANNOT_OPEN, /* so do they if an additional one has ended, and no other can be opened */
};

/* Changes the number of used connections. Only one thread does so at once, and a thread whose
 * n_used is out of date changes nothing. */
static void adapt_n_used(struct rqli_conns *self, unsigned n_used, enum change change)
{
    if (atomic_exchange_explicit(&self->is_changing, true, memory_order_acquire)) {
        return;
    }
    if (atomic_load_explicit(&self->n_used, memory_order_relaxed) == n_used) {
        if (change == IS_CROWDED) {
            open_one_more(self, n_used);
        } else {
            use_conns(self, 1, change == ARE_MANY ? MANY : 0);
        }
        if (change == CANNOT_OPEN) {
            wait_for_spare(self);
        }
    }
    atomic_store_explicit(&self->is_changing, false, memory_order_release);
}

static enum change change_for(const struct rqli_conns *self, unsigned n_used,
                              struct rqli_conn *conn)
{
    unsigned n_met = rqli_conn_n_met(conn);

    if (n_used > 1 && n_met >= MANY / n_used && count_met(self, n_used) >= MANY) {
        return ARE_MANY;
    }
    if (conn != self->each[0] && rqli_conn_is_failing(conn) &&
        !rqli_conn_is_failing(self->each[0])) {
        return CANNOT_OPEN;
    }
    return n_used < self->limit && n_met <= FEW && rqli_conn_take_crowded(conn) ? IS_CROWDED
                                                                                : STAYS;
}

struct rqli_conn *rqli_conns_choose(struct rqli_conns *self)
{
    unsigned n_used = atomic_load_explicit(&self->n_used, memory_order_relaxed);
    struct rqli_conn *conn = self->each[number_of_thread() % n_used];
    enum change change = change_for(self, n_used, conn);

    if (change == STAYS) {
        return conn;
    }
    adapt_n_used(self, n_used, change);
    if (change == CANNOT_OPEN) {
        return self->each[0];
    }
    n_used = atomic_load_explicit(&self->n_used, memory_order_relaxed);
    return self->each[number_of_thread() % n_used];
}

struct rqli_conn *rqli_conns_find_up(const struct rqli_conns *self)
{
    const unsigned n_used = atomic_load(&self->n_used);

    for (unsigned i = 0; i < n_used; i++) {
        if (self->each[i] && rqli_conn_is_up(self->each[i])) {
            return self->each[i];
        }
    }
    return NULL;
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

/* ---- a node ---- */

bool rqli_node_init(struct rqli_node *self, unsigned connections)
{
    bool has_conns = conns_init(&self->conns, &self->site, connections);

    (void)pthread_mutex_init(&self->shared.mutex, NULL);
    self->background = rqli_conn_new(&self->site);
    self->pushes = rqli_push_threads_new(&self->site);
    return has_conns && self->background && self->pushes;
}

void rqli_node_fini(struct rqli_node *self)
{
    struct rqli_conns *conns = &self->conns;

    rqli_push_threads_free(self->pushes);
    self->background = rqli_conn_free(self->background);
    for (unsigned i = 0; i < conns->limit; i++) {
        conns->each[i] = rqli_conn_free(conns->each[i]);
    }
    conns->durable = rqli_conn_free(conns->durable);
    (void)pthread_mutex_destroy(&self->shared.mutex);
}

/* A master's name that is longer than any host's is cut off here. */
void rqli_node_name(struct rqli_node *self)
{
    if (self->site.master) {
        (void)snprintf(self->name, sizeof self->name, "%s", self->site.master->name);
    } else {
        (void)rqli_address_print(&self->site.address, self->name);
    }
}

void rqli_node_abandon(struct rqli_node *self)
{
    for (unsigned i = 0; i < self->conns.limit; i++) {
        rqli_conn_abandon(self->conns.each[i]);
    }
    rqli_conn_abandon(self->conns.durable);
    rqli_conn_abandon(self->background);
    rqli_push_threads_abandon(self->pushes);
}

/* Checks all of them, without stopping at the first: the check closes each that has ended, and each
 * reports it once. */
bool rqli_node_sees_end(struct rqli_node *self)
{
    bool has_ended = rqli_conn_end_if_ended(self->background);

    has_ended |= rqli_conn_end_if_ended(self->conns.durable);
    for (unsigned i = 0; i < self->conns.limit; i++) {
        has_ended |= rqli_conn_end_if_ended(self->conns.each[i]);
    }
    return has_ended;
}

void rqli_node_end_unused(struct rqli_node *self, int64_t unused_us)
{
    for (unsigned i = 0; i < self->conns.limit; i++) {
        rqli_conn_end_if_unused(self->conns.each[i], unused_us);
    }
    rqli_conn_end_if_unused(self->conns.durable, unused_us);
    rqli_conn_end_if_unused(self->background, unused_us);
    if (!rqli_conn_is_up(self->conns.each[0])) {
        rqli_push_threads_end_if_unused(self->pushes);
    }
}
