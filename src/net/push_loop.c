#include "net/push_loop.h"

#include "base/clock.h"
#include "base/threads.h"
#include "net/url.h"

/* The push connection of a loop, which runs on the loop's thread like its command connection. */

/* Subscribes to missing channels. The connection must be up. */
static void subscribe(struct rqli_push_loop *self)
{
    struct rqli_command command = {0};

    rqli_subscription_write(&self->subscription, rqli_conn_loop_socket(self->conn)->endpoint,
                            &command);
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
        rqli_subscription_take(&self->subscription, rqli_conn_loop_socket(self->conn)->endpoint,
                               (rqli_stats_shard)rqli_thread_number(), push,
                               rqli_conn_loop_heard_us(self->conn));
    } else {
        self->on_read(self->owner);
    }
}

bool rqli_push_loop_init(struct rqli_push_loop *self, struct uv_loop_s *loop,
                         const struct rqli_endpoint *endpoint,
                         void (*rouse)(struct rqli_waiters *waiters, struct rqli_waiter *waiter))
{
    self->listener = (struct rqli_conn_loop_listener){on_loop_opened, on_push, self};
    self->subscription.waiters.rouse = rouse;
    self->conn = rqli_conn_loop_new(loop, endpoint, &self->listener);
    return self->conn != NULL;
}

void rqli_push_loop_fini(struct rqli_push_loop *self)
{
    self->conn = rqli_conn_loop_free(self->conn);
    rqli_waiters_fini(&self->subscription.waiters);
}

struct rqli_push_view rqli_push_loop_view(const struct rqli_push_loop *self,
                                          const struct rqli_waiter *waiter)
{
    return rqli_subscription_view(&self->subscription, rqli_conn_loop_is_up(self->conn), waiter);
}

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

void rqli_push_loop_forget(struct rqli_push_loop *self, const struct rqli_key_set *set)
{
    rqli_subscription_forget(&self->subscription, set);
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
        rqli_subscription_on_pinged(
            &self->subscription, n_received,
            rqli_conn_loop_socket(self->conn)->endpoint->session->io_timeout_ms, now_us);
        (void)drop_if_lost(self, now_us);
    }
}
