#include "link/links.h"

#include "base/clock.h"

enum {
    OPENING_US = 20000,  /* a caller's time for opening one: a few round trips */
    PAUSE_US = 10000000, /* after one could not be opened */
    CROWD_US = 2000,     /* after so many callers that they share: they will be as many again */
    FRESH_US = 30000000, /* idle for longer: opened anew */
};

bool rqli_links_init(struct rqli_links *self, const struct rqli_endpoint *endpoint)
{
    bool is_whole = true;

    for (size_t i = 0; i < RQLI_LINKS; i++) {
        self->link[i] = rqli_link_new(endpoint);
        is_whole = is_whole && self->link[i];
    }
    return is_whole;
}

void rqli_links_fini(struct rqli_links *self)
{
    for (size_t i = 0; i < RQLI_LINKS; i++) {
        self->link[i] = rqli_link_free(self->link[i]);
    }
}

static void use_none_before(struct rqli_links *self, int64_t until_us)
{
    atomic_store_explicit(&self->none_before_us, until_us, memory_order_relaxed);
}

/* The number of one of the others that nobody uses; 0: there are too many callers. Their numbers
 * are of the past when they are compared, which costs time, at worst. */
static size_t find_idle(const struct rqli_links *self, unsigned callers)
{
    size_t idle = 0;

    for (size_t i = 1; i < RQLI_LINKS; i++) {
        unsigned here = rqli_link_callers(self->link[i]);

        idle = here == 0 && idle == 0 ? i : idle;
        callers += here;
    }
    return callers < RQLI_LINKS ? idle : 0;
}

static bool bring_up(struct rqli_links *self, size_t number, int64_t now_us)
{
    struct rqli_link *link = self->link[number];
    int64_t chosen_us =
        atomic_exchange_explicit(&self->chosen_us[number], now_us, memory_order_relaxed);

    if (now_us - chosen_us > FRESH_US) {
        rqli_link_drop_idle(link);
    }
    if (rqli_link_connect(link, now_us + OPENING_US, NULL) != RQL_OK) {
        use_none_before(self, now_us + PAUSE_US);
        return false;
    }
    return true;
}

struct rqli_link *rqli_links_choose(struct rqli_links *self)
{
    struct rqli_link *first = self->link[0];
    unsigned callers = rqli_link_callers(first);
    int64_t now_us;
    size_t idle;

    if (callers == 0 || rqli_link_spins(first)) {
        return first;
    }
    now_us = rqli_now_us();
    if (now_us < atomic_load_explicit(&self->none_before_us, memory_order_relaxed)) {
        return first;
    }
    idle = find_idle(self, callers);
    if (idle == 0) {
        use_none_before(self, now_us + CROWD_US);
    }
    return idle > 0 && bring_up(self, idle, now_us) ? self->link[idle] : first;
}

struct rqli_link_counts rqli_links_counts(const struct rqli_links *self)
{
    struct rqli_link_counts sum = {0};

    for (size_t i = 0; i < RQLI_LINKS; i++) {
        struct rqli_link_counts counts = rqli_link_counts(self->link[i]);

        sum.commands += counts.commands;
        sum.connections += counts.connections;
    }
    return sum;
}

void rqli_links_abandon(const struct rqli_links *self)
{
    for (size_t i = 0; i < RQLI_LINKS; i++) {
        rqli_link_abandon(self->link[i]);
    }
}
