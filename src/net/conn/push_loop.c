#include "net/conn/push_loop.h"

#include "base/clock.h"
#include "base/threads.h"
#include "net/sock/site.h"

/* The push connection of a loop, which runs on the loop's thread like its command connection. */

/* Subscribes to missing channels. The connection must be up. */
static void subscribe(struct rqli_push_loop *self)
{
    struct rqli_command command = {0};

    rqli_subscription_write(&self->subscription, rqli_conn_loop_socket(self->conn)->site, &command);
    rqli_conn_loop_tell(self->conn, &command);
    rqli_command_fini(&command);
}

static void on_loop_opened(void *data, const struct rqli_clock_reading *reading,
                           const rql_error *fault)
{
    struct rqli_push_loop *self = data;

    (void)reading;
    (void)fault; /* waiters poll meanwhile, and find out themselves what is wrong */
    if (rqli_conn_loop_is_up(self->conn)) {
        rqli_subscription_on_opened(&self->subscription, rqli_conn_loop_socket(self->conn));
        subscribe(self);
    } else {
        rqli_subscription_on_failed(&self->subscription);
    }
}

static void on_push(void *data, const struct rqli_reply *push)
{
    struct rqli_push_loop *self = data;

    if (push) {
        rqli_subscription_take(&self->subscription, rqli_conn_loop_socket(self->conn)->site,
                               (rqli_stats_shard)rqli_thread_number(), push,
                               rqli_conn_loop_heard_us(self->conn));
    } else {
        self->on_read(self);
    }
}

/* ---- waiters ---- */

static struct rqli_push_loop *self_of(struct rqli_pushes *pushes)
{
    return RQLI_OWNER(pushes, struct rqli_push_loop, pushes);
}

static rql_status join(struct rqli_pushes *pushes, struct rqli_waiter *waiter,
                       bool *is_listening_out)
{
    *is_listening_out = false; /* a waiter of a loop joins before it asks, and misses no push */
    return rqli_waiters_join(&self_of(pushes)->subscription.waiters, waiter);
}

static void leave(struct rqli_pushes *pushes, struct rqli_waiter *waiter)
{
    struct rqli_push_loop *self = self_of(pushes);
    struct rqli_waiter *leader = rqli_waiters_leave(&self->subscription.waiters, waiter);

    if (leader) {
        self->on_lead(leader);
    }
}

static struct rqli_push_view view_of(struct rqli_pushes *pushes, const struct rqli_waiter *waiter)
{
    const struct rqli_push_loop *self = self_of(pushes);

    return rqli_subscription_view(&self->subscription, rqli_conn_loop_is_up(self->conn), waiter);
}

static void forget(struct rqli_pushes *pushes, const struct rqli_key_set *set)
{
    rqli_subscription_forget(&self_of(pushes)->subscription, set);
}

/* No waiter of a loop sleeps in a read. */
static bool hint_others(struct rqli_pushes *pushes, const struct rqli_waiter *waiter)
{
    rqli_waiters_hint_others(&self_of(pushes)->subscription.waiters, waiter);
    return false;
}

static struct rqli_waiter *choose(struct rqli_pushes *pushes, struct rqli_slice lock_key,
                                  uint64_t in_front)
{
    return rqli_waiters_choose(&self_of(pushes)->subscription.waiters, lock_key, in_front);
}

static void hand_over(struct rqli_pushes *pushes, struct rqli_waiter *chosen,
                      struct rqli_transfer *transfer)
{
    rqli_waiters_hand_over(&self_of(pushes)->subscription.waiters, chosen, transfer);
}

bool rqli_push_loop_init(struct rqli_push_loop *self, struct uv_loop_s *loop,
                         const struct rqli_site *site)
{
    static const struct rqli_pushes_ops ops = {.join = join,
                                               .leave = leave,
                                               .view = view_of,
                                               .forget = forget,
                                               .hint_others = hint_others,
                                               .choose = choose,
                                               .hand_over = hand_over};

    self->pushes.ops = &ops;
    atomic_init(&self->pushes.is_used, true);
    self->listener = (struct rqli_conn_loop_listener){on_loop_opened, on_push, self};
    self->conn = rqli_conn_loop_new(loop, site, &self->listener);
    return self->conn != NULL;
}

void rqli_push_loop_fini(struct rqli_push_loop *self)
{
    self->conn = rqli_conn_loop_free(self->conn);
    rqli_waiters_fini(&self->subscription.waiters);
}

/* ---- whether pushes still come ---- */

/* Does the same as end_if_lost(), but drops the connection at once: no other thread reads here. */
static bool drop_if_lost(struct rqli_push_loop *self, int64_t now_us)
{
    bool is_lost =
        rqli_subscription_is_lost(&self->subscription, rqli_conn_loop_socket(self->conn), now_us);

    if (is_lost) {
        rqli_conn_loop_drop(self->conn);
    }
    return is_lost;
}

bool rqli_push_loop_wants_ping(struct rqli_push_loop *self, const struct rqli_waiter *waiter)
{
    int64_t now_us = rqli_now_us();

    if (rqli_subscription_want(&self->subscription, waiter->set) &&
        rqli_conn_loop_is_up(self->conn)) {
        subscribe(self);
    }
    return rqli_conn_loop_is_up(self->conn) && !drop_if_lost(self, now_us) &&
           rqli_subscription_hears(&self->subscription, waiter) &&
           rqli_subscription_wants_ping(&self->subscription, now_us);
}

void rqli_push_loop_on_pinged(struct rqli_push_loop *self, int64_t n_received)
{
    int64_t now_us = rqli_now_us();

    if (rqli_conn_loop_is_up(self->conn)) {
        rqli_subscription_on_pinged(&self->subscription, n_received,
                                    rqli_conn_loop_socket(self->conn)->site->session->io_timeout_ms,
                                    now_us);
        (void)drop_if_lost(self, now_us);
    }
}
