#include "lock/leaving.h"

#include "base/clock.h"
#include "base/futex.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/wait.h"
#include "lock/withdraw.h"
#include "net/conn/conn_threads.h"
#include "net/op/op_threads.h"

/*
 * An acquisition that is given up leaves its queues, with one call for each lock. The calls are
 * answered before the caller is. A withdrawal that is not confirmed by then goes on in the
 * background.
 */

void rqli_leave_write(const struct rqli_acquire *self, size_t i, struct rqli_call *call)
{
    const rql_lock *lock = rqli_acquire_lock(self, rqli_withdrawing_request(&self->leaving, i));

    const struct rqli_withdrawn request = rqli_withdrawn_of(lock);

    rqli_held_write_withdrawal(&request, call);
}

void rqli_leave_read(struct rqli_acquire *self, size_t i, const struct rqli_batch *answer,
                     const struct rqli_reply *reply, const rql_error *fault)
{
    (void)answer;
    rqli_withdrawing_read(&self->leaving, i, reply, reply ? RQL_OK : fault->status);
}

/* A withdrawal has io_timeout_ms. If the deadline comes before that, it has the time to the
 * deadline and the grace after it. It has at least half of the grace, except after a try that
 * failed in the grace, after the deadline: a silent server is not waited for beyond its end. */
static int64_t leave_until_us(const struct rqli_acquire *self, int64_t now_us)
{
    int64_t until_us = rqli_after_ms(now_us, self->client->options.io_timeout_ms);
    int64_t grace_us = rqli_client_grace_us(self->client);

    if (until_us > self->request.limits.deadline_us) {
        until_us = self->request.limits.deadline_us + grace_us;
    }
    return rqli_later(until_us, self->had_grace ? now_us : now_us + grace_us / 2);
}

/* ---- together ---- */

/*
 * Threads that time out at the same moment have their requests withdrawn together. The first thread
 * leads: it asks for up to 64 locks in one round trip, and the other threads sleep until they have
 * their answers. If each thread of a crowd asked for itself, a busy machine would not let all of
 * them send, read and run within the grace, though the server has answered.
 *
 * All of them use one connection, so each withdrawal is sent after the tries of its request.
 */

enum { TOGETHER_MAX = RQL_SERIES_MAX };

/* The state of a leaver. */
enum { WAITS, LEADS, IS_ANSWERED };

struct rqli_leaver {
    struct rqli_acquire *acquire;
    struct rqli_leaver *next;
    rqli_signal word;
};

/* One round for several leavers, on the thread of the first one. */
struct together {
    struct rqli_op op; /* first */
    struct rqli_leaver *leaver[TOGETHER_MAX];
    size_t count;
    size_t n_calls; /* one for each lock of a series */
    bool has_asked;
    bool is_answered; /* at least one call is */
};

/* Returns the request that the call belongs to; *i becomes its index among the calls of that
 * request. */
static struct rqli_acquire *owner_of(const struct rqli_op *op, size_t *i)
{
    struct rqli_leaver *const *leaver = ((const struct together *)op)->leaver;

    while (*i >= (*leaver)->acquire->count) {
        *i -= (*leaver)->acquire->count;
        leaver++;
    }
    return (*leaver)->acquire;
}

static void write_leaving(struct rqli_op *op, size_t i, struct rqli_call *call)
{
    const struct rqli_acquire *acquire = owner_of(op, &i);

    rqli_leave_write(acquire, i, call);
}

/* Safe, because the owner of the request sleeps, or is this thread. */
static void read_leaving(struct rqli_op *op, size_t i, const struct rqli_batch *answer,
                         const struct rqli_reply *reply, const rql_error *fault)
{
    struct together *self = (struct together *)op;
    struct rqli_acquire *acquire = owner_of(op, &i);

    self->is_answered = self->is_answered || reply;
    rqli_leave_read(acquire, i, answer, reply, fault);
}

static enum rqli_op_next next_together(struct rqli_op *op)
{
    struct together *self = (struct together *)op;
    bool had_asked = self->has_asked;

    self->has_asked = true;
    return had_asked ? RQLI_OP_OVER : RQLI_OP_AGAIN;
}

/* The server has the whole grace to answer, however late this process sent the calls. Threads that
 * came later have slept while the round before was under way. If the server left that round without
 * an answer, they have no more time than is left of their own grace. */
static int64_t round_until_us(const struct together *self, int64_t grace_us, bool is_silent)
{
    int64_t until_us = RQLI_NEVER_US;

    for (size_t i = 0; i < self->count; i++) {
        until_us = rqli_earlier(until_us, self->leaver[i]->acquire->op.until_us);
    }
    return is_silent ? until_us : rqli_later(until_us, rqli_now_us() + grace_us);
}

/* Caller holds the mutex of the node. The first always fits: no series has more locks. */
static void take_leavers(struct together *self, struct rqli_leavers *leavers)
{
    while (leavers->first && self->n_calls + leavers->first->acquire->count <= TOGETHER_MAX) {
        self->n_calls += leavers->first->acquire->count;
        self->leaver[self->count++] = leavers->first;
        leavers->first = leavers->first->next;
    }
}

/* Caller holds the mutex of the node. Once a leaver has its word, this thread does not touch it any
 * more. */
static void notify_leaver(struct rqli_leaver *leaver, int32_t word,
                          struct rqli_wake_list *wake_list)
{
    atomic_store_explicit(&leaver->word, word, memory_order_release);
    rqli_wake_list_add(wake_list, &leaver->word);
}

/* Wakes the other threads of the round. The first of those that came meanwhile leads next. */
static void finish_round(struct together *self, struct rqli_leavers *leavers,
                         pthread_mutex_t *mutex)
{
    struct rqli_wake_list wake_list = {.count = 0};

    (void)pthread_mutex_lock(mutex);
    leavers->is_silent = !self->is_answered;
    for (size_t i = 1; i < self->count; i++) { /* the first is the caller */
        notify_leaver(self->leaver[i], IS_ANSWERED, &wake_list);
    }
    leavers->is_led = leavers->first != NULL;
    if (leavers->first) {
        notify_leaver(leavers->first, LEADS, &wake_list);
    }
    rqli_wake_list_unlock(&wake_list, mutex);
}

static void lead_round(struct rqli_acquire *acquire, struct rqli_leavers *leavers)
{
    static const struct rqli_op_ops ops = {
        .write = write_leaving, .read = read_leaving, .next = next_together};
    pthread_mutex_t *mutex = &acquire->node->shared.mutex;
    struct together self = {.op = {.ops = &ops, .route = acquire->op.route}};
    bool is_silent;

    (void)pthread_mutex_lock(mutex);
    is_silent = leavers->is_silent;
    take_leavers(&self, leavers);
    (void)pthread_mutex_unlock(mutex);
    self.op.n_calls = self.n_calls;
    self.op.until_us = round_until_us(&self, rqli_client_grace_us(acquire->client), is_silent);
    (void)rqli_op_run(&self.op);
    finish_round(&self, leavers, mutex);
}

/* Returns whether the caller leads. */
static bool join_leavers(struct rqli_leaver *self, struct rqli_leavers *leavers)
{
    pthread_mutex_t *mutex = &self->acquire->node->shared.mutex;
    bool leads;

    (void)pthread_mutex_lock(mutex);
    *(leavers->first ? &leavers->last->next : &leavers->first) = self;
    leavers->last = self;
    leads = !leavers->is_led;
    leavers->is_silent = leavers->is_silent && !leads; /* no round has just failed */
    leavers->is_led = true;
    (void)pthread_mutex_unlock(mutex);
    return leads;
}

static void leave_together(struct rqli_acquire *self)
{
    struct rqli_leavers *leavers = &rqli_conn_notes(self->op.route.conn)->leavers;
    struct rqli_leaver own = {.acquire = self};
    int32_t word = join_leavers(&own, leavers) ? LEADS : WAITS;

    while (word == WAITS) {
        rqli_signal_wait(&own.word, WAITS, RQLI_NEVER_US);
        word = atomic_load_explicit(&own.word, memory_order_acquire);
    }
    if (word == LEADS) {
        lead_round(self, leavers);
    }
}

/* ---- from begin to end ---- */

/* Threads that time out may do so in a crowd. A try that has used up the grace of its call is
 * withdrawn alone, because it has no time to wait for other threads. But a try that waits for
 * replicas has left some of the grace. */
static bool may_leave_together(const struct rqli_acquire *self, int64_t now_us)
{
    bool is_out_of_time =
        self->request.limits.deadline_us <= now_us + rqli_client_grace_us(self->client);

    return self->wait->may_sleep && is_out_of_time && (!self->had_grace || self->waiter.keeps_conn);
}

static void begin_leaving(struct rqli_acquire *self, int64_t now_us)
{
    self->phase = RQLI_ACQUIRE_LEAVE;
    self->op.gives_back = true;
    self->op.durability = NULL;
    self->op.grace_us = rqli_client_grace_us(self->client);
    self->op.again_us = 0;
    if (self->waiter.keeps_conn) {
        self->wait->leave_durable(self);
    }
    self->op.until_us = leave_until_us(self, now_us);
    rqli_withdrawing_begin(&self->leaving, self->count);
}

/* The background goes on with the withdrawals that the server has not confirmed. */
static void end_leaving(struct rqli_acquire *self)
{
    bool is_confirmed = true;

    for (size_t i = 0; i < self->count; i++) {
        if ((self->leaving.confirmed >> i & 1) == 0) {
            rqli_withdraw_lock_later(rqli_acquire_lock(self, i), self->options->ttl_ms);
            is_confirmed = false;
        }
    }
    rqli_request_on_left(&self->request, is_confirmed);
}

/* True: there are calls to send. The server gets the withdrawal after the calls that were sent
 * before it, or by now refuses the try that waits for replicas. */
bool rqli_leave_next(struct rqli_acquire *self)
{
    bool goes_on = self->phase != RQLI_ACQUIRE_LEAVE;
    int64_t now_us = rqli_now_us();

    if (goes_on) {
        begin_leaving(self, now_us);
    }
    if (goes_on && may_leave_together(self, now_us)) {
        leave_together(self);
        goes_on = false;
    }
    if (!goes_on && !rqli_withdrawing_next(&self->leaving, rqli_now_us(), self->op.until_us,
                                           &self->op.again_us)) {
        end_leaving(self);
        return false;
    }
    self->op.n_calls = rqli_withdrawing_calls(&self->leaving);
    return true;
}
