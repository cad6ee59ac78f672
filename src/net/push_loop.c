#include "net/push_loop.h"

#include "base/clock.h"
#include "base/random.h"
#include "net/url.h"
#include "observe/stats.h"

static void on_opened(void *data, const struct rqli_clock_reading *reading, const rql_error *fault)
{
    struct rqli_push_loop *self = data;

    (void)reading;
    (void)fault;
    if (rqli_conn_loop_is_up(self->conn)) {
        self->subscription = (struct rqli_subscription){0};
        rqli_waiters_hint_all(&self->waiters); /* what was said before is lost */
    }
}

static void on_push(void *data, const struct rqli_reply *push)
{
    struct rqli_push_loop *self = data;
    struct rqli_pushed pushed = {.kind = RQLI_PUSHED_NOTHING};

    if (!push) {
        self->on_read(self->owner);
        return;
    }
    pushed = rqli_push_read(push);
    if (pushed.kind != RQLI_PUSHED_NOTHING) {
        rqli_stats_count(rqli_conn_loop_socket(self->conn)->endpoint->stats,
                         (rqli_stats_shard)rqli_thread_id(), RQLI_STAT_PUSHES, 1);
        rqli_waiters_deliver(&self->waiters, &pushed, rqli_conn_loop_heard_us(self->conn));
    }
}

bool rqli_push_loop_init(struct rqli_push_loop *self, struct uv_loop_s *loop,
                         const struct rqli_endpoint *endpoint,
                         void (*rouse)(struct rqli_waiters *waiters, struct rqli_waiter *waiter))
{
    self->listener = (struct rqli_conn_loop_listener){on_opened, on_push, self};
    self->waiters.rouse = rouse;
    self->conn = rqli_conn_loop_new(loop, endpoint, &self->listener);
    return self->conn != NULL;
}

void rqli_push_loop_fini(struct rqli_push_loop *self)
{
    self->conn = rqli_conn_loop_free(self->conn);
    rqli_waiters_fini(&self->waiters);
}

struct rqli_push_view rqli_push_loop_view(const struct rqli_push_loop *self,
                                          const struct rqli_waiter *waiter)
{
    bool is_up = rqli_conn_loop_is_up(self->conn);

    return (struct rqli_push_view){
        .leads = rqli_waiter_leads(waiter),
        .is_listening = is_up,
        .generation = rqli_conn_loop_generation(self->conn),
        .client_id = is_up ? rqli_conn_loop_socket(self->conn)->seat.client_id : 0,
    };
}

/* What has come and was not read yet is our fault, not its. */
static bool drop_if_silent(struct rqli_push_loop *self, int64_t now_us)
{
    int64_t heard_us = rqli_conn_loop_heard_us(self->conn);
    bool is_silent = rqli_subscription_is_silent(&self->subscription, heard_us, now_us) &&
                     !rqli_socket_has_bytes(rqli_conn_loop_socket(self->conn));

    if (is_silent) {
        rqli_conn_loop_drop(self->conn);
    }
    return is_silent;
}

bool rqli_push_loop_wants_ping(struct rqli_push_loop *self)
{
    int64_t now_us = rqli_now_us();

    return rqli_conn_loop_is_up(self->conn) && !drop_if_silent(self, now_us) &&
           rqli_subscription_wants_ping(&self->subscription, rqli_conn_loop_heard_us(self->conn),
                                        now_us);
}

void rqli_push_loop_on_pinged(struct rqli_push_loop *self, int64_t n_received)
{
    int64_t now_us = rqli_now_us();

    if (rqli_conn_loop_is_up(self->conn)) {
        rqli_subscription_on_pinged(&self->subscription, n_received,
                                    rqli_conn_loop_socket(self->conn)->endpoint->io_timeout_ms,
                                    now_us);
        (void)drop_if_silent(self, now_us);
    }
}
