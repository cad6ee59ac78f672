#include "net/push_loop.h"

#include "base/clock.h"
#include "base/ident.h"
#include "net/subscription.h"
#include "net/url.h"
#include "net/uv_socket.h"
#include "observe/stats.h"

#include <stddef.h>
#include <stdlib.h>

struct rqli_push_loop {
    struct rqli_uv_socket uv; /* first: its ops are given it */
    struct rqli_subscription subscription;
    struct rqli_waiters waiters;
    const struct rqli_push_loop_listener *listener;
    uint64_t generation;
};

static bool open_subscription(struct rqli_uv_socket *uv, int64_t deadline_us)
{
    return rqli_subscription_open(&((struct rqli_push_loop *)uv)->subscription, deadline_us);
}

/* On the loop's thread. */
static void count(const struct rqli_push_loop *self, enum rqli_stat what)
{
    rqli_stats_count(self->subscription.sock.endpoint->stats, (rqli_stats_shard)rqli_thread_id(),
                     what, 1);
}

static void on_opened(struct rqli_uv_socket *uv, bool is_open)
{
    struct rqli_push_loop *self = (struct rqli_push_loop *)uv;

    if (is_open) {
        self->generation++;
        count(self, RQLI_STAT_CONNECTIONS);
        rqli_waiters_hint_all(&self->waiters); /* what was said before is lost */
    }
}

static void on_readable(struct rqli_uv_socket *uv)
{
    rqli_push_loop_read((struct rqli_push_loop *)uv);
}

static const struct rqli_uv_socket_ops ops = {open_subscription, on_opened, on_readable, NULL};

static void rouse(struct rqli_waiters *waiters, struct rqli_waiter *waiter)
{
    const struct rqli_push_loop *self =
        (const struct rqli_push_loop *)((const char *)waiters -
                                        offsetof(struct rqli_push_loop, waiters));

    self->listener->rouse(waiter);
}

struct rqli_push_loop *rqli_push_loop_new(struct uv_loop_s *loop,
                                          const struct rqli_endpoint *endpoint,
                                          const struct rqli_push_loop_listener *listener)
{
    struct rqli_push_loop *self = calloc(1, sizeof *self);

    if (self) {
        rqli_uv_socket_init(&self->uv, &ops, &self->subscription.sock, loop);
        self->subscription.sock.endpoint = endpoint;
        self->subscription.sock.fd = -1;
        self->waiters.rouse = rouse;
        self->listener = listener;
    }
    return self;
}

struct rqli_push_loop *rqli_push_loop_free(struct rqli_push_loop *self)
{
    if (self) {
        rqli_subscription_fini(&self->subscription);
        rqli_waiters_fini(&self->waiters);
        free(self);
    }
    return NULL;
}

void rqli_push_loop_close(struct rqli_push_loop *self, void (*closed)(void *data), void *data)
{
    rqli_uv_socket_close(&self->uv, closed, data);
}

void rqli_push_loop_abandon(struct rqli_push_loop *self)
{
    rqli_uv_socket_abandon(&self->uv);
}

rql_status rqli_push_loop_join(struct rqli_push_loop *self, struct rqli_waiter *waiter)
{
    return rqli_waiters_join(&self->waiters, waiter);
}

struct rqli_waiter *rqli_push_loop_leave(struct rqli_push_loop *self, struct rqli_waiter *waiter)
{
    return rqli_waiters_leave(&self->waiters, waiter);
}

void rqli_push_loop_hint_others(struct rqli_push_loop *self, const struct rqli_waiter *waiter)
{
    rqli_waiters_hint_others(&self->waiters, waiter);
}

struct rqli_push_view rqli_push_loop_view(const struct rqli_push_loop *self,
                                          const struct rqli_waiter *waiter)
{
    return (struct rqli_push_view){
        .leads = rqli_waiter_leads(waiter),
        .is_listening = rqli_uv_socket_is_up(&self->uv),
        .generation = self->generation,
        .client_id = self->subscription.sock.seat.client_id,
    };
}

/* False: the connection made no sense. */
static bool take_pushes(struct rqli_push_loop *self)
{
    struct rqli_pushed pushed;
    int state = rqli_subscription_next(&self->subscription, &pushed);

    while (state > 0) {
        if (pushed.kind != RQLI_PUSHED_NOTHING) {
            count(self, RQLI_STAT_PUSHES);
            rqli_waiters_deliver(&self->waiters, &pushed, self->subscription.heard_us);
        }
        rqli_subscription_forget(&self->subscription);
        state = rqli_subscription_next(&self->subscription, &pushed);
    }
    return state == 0;
}

void rqli_push_loop_read(struct rqli_push_loop *self)
{
    enum rqli_socket_read got = RQLI_SOCKET_NOTHING;

    if (rqli_uv_socket_is_up(&self->uv)) {
        got = rqli_socket_read(&self->subscription.sock, 0, 0);
    }
    if (got == RQLI_SOCKET_BROKEN || (got == RQLI_SOCKET_BYTES && !take_pushes(self))) {
        rqli_uv_socket_drop(&self->uv);
    }
    if (got == RQLI_SOCKET_BYTES) {
        self->listener->on_read(self->listener->self);
    }
}

void rqli_push_loop_rest(struct rqli_push_loop *self)
{
    rqli_uv_socket_drop(&self->uv);
}

static bool drop_if_silent(struct rqli_push_loop *self, int64_t now_us)
{
    bool is_silent = rqli_subscription_is_silent(&self->subscription, now_us);

    if (is_silent) {
        rqli_uv_socket_drop(&self->uv);
    }
    return is_silent;
}

bool rqli_push_loop_wants_ping(struct rqli_push_loop *self)
{
    int64_t now_us = rqli_now_us();

    return rqli_uv_socket_is_up(&self->uv) && !drop_if_silent(self, now_us) &&
           rqli_subscription_wants_ping(&self->subscription, now_us);
}

void rqli_push_loop_on_pinged(struct rqli_push_loop *self, int64_t n_received)
{
    int64_t now_us = rqli_now_us();

    if (rqli_uv_socket_is_up(&self->uv)) {
        rqli_subscription_on_pinged(&self->subscription, n_received, now_us);
        (void)drop_if_silent(self, now_us);
    }
}

int64_t rqli_push_loop_due_us(const struct rqli_push_loop *self, bool wanted)
{
    return wanted && self->waiters.first ? rqli_uv_socket_due_us(&self->uv) : RQLI_NEVER_US;
}

void rqli_push_loop_tend(struct rqli_push_loop *self, int64_t now_us, bool wanted)
{
    if (rqli_push_loop_due_us(self, wanted) <= now_us) {
        rqli_uv_socket_tend(&self->uv, now_us);
    }
}
