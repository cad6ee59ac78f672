#include "hold.h"

#include "call.h"
#include "exit.h"
#include "list.h"

#include <rql/share.h>
#include <stdlib.h>
#include <string.h>

/* Takes a hold out of the list that it is in. */
static void unlist(struct agent_hold *self)
{
    AGENT_UNLIST(self);
}

/* Returns false if the hold has no such name. */
static bool find_name(const struct agent_hold *self, const char *name, size_t *place)
{
    const char *own = self->names;

    for (*place = 0; *place < self->n_names; ++*place) {
        if (strcmp(own, name) == 0) {
            return true;
        }
        own += strlen(own) + 1;
    }
    return false;
}

struct agent_hold *agent_hold_find(const struct agent_conn *conn, const char *name, size_t *place)
{
    struct agent_hold *hold = conn->holds;

    while (hold && !find_name(hold, name, place)) {
        hold = hold->next;
    }
    return hold;
}

/* ---- a lock or a series ---- */

const rql_lock *agent_hold_lock(const struct agent_hold *self, size_t place)
{
    return self->series ? rql_series_lock(self->series, place) : self->lock;
}

static rql_lock_state state_of(const struct agent_hold *self)
{
    return self->series ? rql_series_get_state(self->series) : rql_lock_get_state(self->lock);
}

/* Leaves the locks on the server. */
static void forget_locks(struct agent_hold *self)
{
    self->lock = rql_lock_forget(self->lock);
    self->series = rql_series_forget(self->series);
}

/* ---- losses ---- */

/* That a hold was lost: one of its locks. The library's thread queues it once, and it outlives the
 * hold as long as it is queued. */
struct agent_loss {
    struct agent_loss *next;
    struct agent *agent;
    struct agent_hold *hold; /* NULL: it has ended */
    atomic_bool is_queued;   /* written before the hold can end, see on_loss() */
};

enum { LOSSES_AT_ONCE = 100 /* then other events have their turn */ };

/* Runs on the library's thread. The hold exists, because a call that ends its lock waits for this
 * one. */
static void on_loss(rql_lock *lock, void *data)
{
    struct agent_loss *self = data;
    struct agent *agent = self->agent;

    (void)lock;
    if (atomic_exchange(&self->is_queued, true)) {
        return;
    }
    self->next = atomic_load(&agent->losses);
    while (!atomic_compare_exchange_weak(&agent->losses, &self->next, self)) {
    }
    (void)uv_async_send(&agent->losses_async);
}

/* Frees a hold that is in no list any more. Its task is given back when a lock with this TTL has
 * ended on the server; 0: it is not there. */
static void give(struct agent_hold *self, int64_t ttl_ms)
{
    if (self->loss->is_queued) {
        self->loss->hold = NULL;
    } else {
        free(self->loss);
    }
    agent_process_leave(self->process);
    if (ttl_ms > 0) {
        agent_task_leave_later(self->task, ttl_ms, NULL);
    } else {
        agent_task_leave(self->task);
    }
    free(self->secrets);
    free(self);
}

/* Leaves the locks of a hold, which is in no list, to their TTL. */
static void forget(struct agent_hold *self)
{
    forget_locks(self);
    self->agent->n_held--;
    give(self, self->ttl_ms);
}

/* Notifies a client of RESP3 by a push for each lock: a series of which one lock is lost is lost as
 * a whole. The locks are not released: the server may still have them for a moment, and the client
 * has not read the push yet. A client of RESP2 can be notified by the end of the connection only;
 * its other locks are left to their TTL, because it may still be at work under them. */
static void report_loss(struct agent_hold *hold)
{
    struct agent_conn *conn = hold->conn;

    if (!conn->is_resp3) {
        agent_conn_close(conn, AGENT_BY_AGENT);
        return;
    }
    for (size_t i = 0; i < hold->n_names; i++) {
        const rql_lock *lock = agent_hold_lock(hold, i);

        agent_reply_begin(&conn->out, '>', 3);
        agent_reply_text(&conn->out, "rql.lost");
        agent_reply_text(&conn->out, rql_lock_name(lock));
        agent_reply_number(&conn->out, rql_lock_token(lock));
    }
    unlist(hold);
    forget(hold);
    agent_conn_flush(conn);
    conn->agent->ops->on_released(conn->agent);
}

/* A hold that was left or is being released has no client to notify. One whose grant is not handled
 * yet is reported then. */
static void handle_loss(struct agent_loss *self)
{
    struct agent_hold *hold = self->hold;

    self->is_queued = false;
    if (!hold) {
        free(self);
        return;
    }
    hold->is_lost = true;
    if (hold->phase == AGENT_HOLD_HELD) {
        report_loss(hold);
    }
}

void agent_holds_on_losses(uv_async_t *async)
{
    struct agent *agent = async->data;

    for (int i = 0; i < LOSSES_AT_ONCE; i++) {
        struct agent_loss *loss;

        if (!agent->noticed) {
            agent->noticed = atomic_exchange(&agent->losses, NULL);
        }
        loss = agent->noticed;
        if (!loss) {
            return;
        }
        agent->noticed = loss->next;
        handle_loss(loss);
    }
    (void)uv_async_send(async);
}

/* ---- release ---- */

/* Replies if the last release of the call has ended. */
static void go_on(struct agent_ending *self)
{
    struct agent_conn *conn = self->conn;

    if (self->left > 0) {
        return;
    }
    if (conn && self->fault.status != RQL_OK) {
        agent_reply_fault(&conn->out, self->fault.status, self->fault.message);
    } else if (conn && self->n_released == 0) {
        agent_reply_not_held(&conn->out, NULL);
    } else if (conn) {
        agent_reply_number(&conn->out, self->n_released);
    }
    if (conn) {
        agent_conn_go_on(conn);
    }
    free(self);
}

static void on_released(rql_status status, const rql_error *error, void *data)
{
    struct agent_hold *self = data;
    struct agent_ending *ending = self->ending;
    struct agent *agent = self->agent;

    if (ending) {
        ending->left--;
        ending->n_released += status == RQL_OK;
        if (status < 0 && ending->fault.status == RQL_OK) {
            ending->fault = *error;
        }
        go_on(ending);
    }
    agent->n_held--;
    give(self, status < 0 ? self->ttl_ms : 0); /* without an answer it may still be there */
    agent->ops->on_released(agent);
}

static void begin_release(struct agent_hold *self)
{
    const rql_done done = {.fn = on_released, .user_data = self};
    rql_loop *loop = self->agent->loop;
    rql_status status;

    self->phase = AGENT_HOLD_ENDS;
    status = self->series ? rql_series_release_async(loop, self->series, NULL, &done, NULL)
                          : rql_lock_release_async(loop, self->lock, &done, NULL);
    if (status != RQL_OK) {
        cli_die_nomem(); /* no other fault is left: the loop is open */
    }
    self->lock = NULL;
    self->series = NULL;
}

void agent_hold_release(struct agent_hold *self, struct agent_ending *ending)
{
    const bool is_held = state_of(self) != RQL_GONE;

    unlist(self);
    self->conn = NULL;
    self->ending = is_held ? ending : NULL;
    begin_release(self);
    if (self->ending) {
        self->ending->left++;
    }
}

/* ---- acquire ---- */

static const char process_has_ended[] = "the process that asked for it has ended";

/* The ordinary ends of a wait: no error, but null. */
static bool is_refusal(rql_status status)
{
    return status == RQL_TIMED_OUT || status == RQL_RETRY_LIMIT || status == RQL_FAIL_FAST_NO_TRY ||
           status == RQL_FAIL_FAST_AFTER_TRY;
}

static void reply_lock(struct agent_reply *out, const struct agent_hold *hold, const rql_lock *lock)
{
    const bool is_detached = hold->kind == AGENT_HOLD_DETACHED;
    size_t n_slots = 0;
    const int *slots = rql_lock_slots(lock, &n_slots);

    agent_reply_begin(out, '*', is_detached ? 4 : 3);
    agent_reply_number(out, rql_lock_token(lock));
    agent_reply_number(out, rql_lock_remaining_ms(lock));
    agent_reply_begin(out, '*', n_slots);
    for (size_t i = 0; i < n_slots; i++) {
        agent_reply_number(out, slots[i]);
    }
    if (is_detached) {
        agent_reply_text(out, rql_lock_secret(lock));
    }
}

static void reply_granted(struct agent_reply *out, const struct agent_hold *hold)
{
    if (hold->kind == AGENT_HOLD_FENCE) {
        agent_reply_begin(out, '*', 2);
        agent_reply_text(out, rql_lock_secret(hold->lock));
        agent_reply_number(out, rql_lock_token(hold->lock));
        return;
    }
    if (hold->series) {
        agent_reply_begin(out, '*', 1 + hold->n_names);
        agent_reply_number(out, hold->series_id);
    }
    for (size_t i = 0; i < hold->n_names; i++) {
        reply_lock(out, hold, agent_hold_lock(hold, i));
    }
}

/* Leaves the locks of a hold, which is in no list, to their secrets: each has the task until it is
 * released, or has ended. */
static void detach(struct agent_hold *self)
{
    for (size_t i = 0; i < self->n_names; i++) {
        agent_task_leave_later(agent_task_share(self->task), self->ttl_ms,
                               rql_lock_secret(agent_hold_lock(self, i)));
    }
    forget_locks(self);
    self->agent->n_held--;
    give(self, 0);
}

static void on_granted(struct agent_hold *self)
{
    self->phase = AGENT_HOLD_HELD;
    self->agent->n_held++;
    reply_granted(&self->conn->out, self);
    if (self->kind != AGENT_HOLD_OF_CONN) {
        unlist(self);
        detach(self);
    } else if (self->is_lost) {
        report_loss(self);
    }
}

/* All requests are cancelled when the agent is about to end, and those of a process when it has
 * ended: another process that has the connection reads the reply. */
static void reply_refused(struct agent_conn *conn, rql_status status, const rql_error *error)
{
    if (is_refusal(status)) {
        agent_reply_null(&conn->out, conn->is_resp3);
    } else if (status == RQL_CANCELLED && conn->agent->phase != AGENT_SERVES) {
        agent_reply_ending(&conn->out);
    } else if (status == RQL_CANCELLED) {
        agent_reply_fault(&conn->out, status, process_has_ended);
    } else {
        agent_reply_fault(&conn->out, status, error ? error->message : NULL);
    }
}

/* A request whose connection or process has ended may have been granted before it was withdrawn;
 * and what was granted may not have been claimed. */
static void on_acquired(struct agent_hold *self, rql_status status, const rql_error *error)
{
    struct agent_conn *conn = self->conn;
    struct agent *agent = self->agent;
    const bool is_wanted = conn && self->phase == AGENT_HOLD_WAITS;

    self->request = NULL;
    if (status == RQL_OK && is_wanted) {
        on_granted(self);
    } else if (self->lock || self->series) {
        if (conn) {
            unlist(self);
            reply_refused(conn, is_wanted ? status : RQL_CANCELLED, error);
        }
        self->agent->n_held++;
        begin_release(self);
    } else {
        if (conn) {
            unlist(self);
            reply_refused(conn, status, error);
        }
        give(self, status == RQL_E_UNKNOWN ? self->ttl_ms : 0);
    }
    agent->n_waiting--;
    if (conn) {
        agent_conn_go_on(conn);
    }
    agent->ops->on_released(agent);
}

/* A claim that fails says nothing more of a lock of the connection than the lock itself: it may be
 * lost, which is noticed. The loss of any other one is not. */
static void on_claimed(rql_status status, const rql_error *error, void *data)
{
    struct agent_hold *self = data;

    if (self->kind == AGENT_HOLD_OF_CONN) {
        on_acquired(self, RQL_OK, NULL);
    } else {
        on_acquired(self, status, error);
    }
}

/* A lock that is handed over lasts for a second until it is renewed for the first time. A client
 * that lets others inherit the connection relies on it for longer from the start, and a lock that
 * nothing keeps is renewed no other time. */
static bool begin_claim(struct agent_hold *self)
{
    const rql_done done = {.fn = on_claimed, .user_data = self};
    rql_lock_facts facts;

    rql_lock_describe(self->lock, &facts);
    return facts.handed_over && self->conn &&
           (self->conn->inherits || self->kind != AGENT_HOLD_OF_CONN) &&
           rql_lock_extend_async(self->agent->loop, self->lock, facts.ttl_ms, &done, NULL) ==
               RQL_OK;
}

static void on_lock(rql_status status, rql_lock *lock, const rql_error *error, void *data)
{
    struct agent_hold *self = data;

    self->lock = lock;
    self->request = NULL;
    if (status != RQL_OK || !begin_claim(self)) {
        on_acquired(self, status, error);
    }
}

static void on_series(rql_status status, rql_series *series, const rql_error *error, void *data)
{
    struct agent_hold *self = data;

    self->series = series;
    on_acquired(self, status, error);
}

/* Finds the process that the hold is to end with. False: an error was written. */
static bool watch_process(struct agent_conn *conn, struct agent_process **out)
{
    switch (agent_conn_watch(conn, out)) {
    case AGENT_WATCHED:
    case AGENT_NOT_WATCHED:
        return true;
    case AGENT_HAS_ENDED:
        agent_reply_fault(&conn->out, RQL_CANCELLED, process_has_ended);
        return false;
    case AGENT_TOO_MANY:
        break;
    }
    agent_reply_fault(&conn->out, RQL_QUEUE_FULL, "no more processes can be watched");
    return false;
}

static size_t count_holds(const struct agent_conn *conn)
{
    size_t count = 0;

    for (const struct agent_hold *hold = conn->holds; hold; hold = hold->next) {
        count += hold->n_names;
    }
    return count;
}

/* Makes a hold. A lock that outlives its connection has a task of its own: to the connection it is
 * another's. */
static struct agent_hold *new_hold(struct agent_conn *conn, const struct agent_wish *wish,
                                   struct agent_process *process)
{
    struct agent_hold *self;
    size_t size = 0;
    char *cursor;

    for (size_t i = 0; i < wish->n_names; i++) {
        size += strlen(wish->names[i]) + 1;
    }
    self = cli_must(calloc(1, sizeof *self + size));
    *self = (struct agent_hold){.agent = conn->agent,
                                .conn = conn,
                                .phase = AGENT_HOLD_WAITS,
                                .kind = wish->kind,
                                .process = process,
                                .series_id = wish->is_series ? ++conn->last_series : 0,
                                .loss = cli_must(calloc(1, sizeof *self->loss)),
                                .ttl_ms = wish->options.ttl_ms,
                                .task = wish->kind == AGENT_HOLD_OF_CONN
                                            ? agent_task_share(conn->task)
                                            : agent_task_take(&conn->agent->tasks),
                                .n_names = wish->n_names};
    *self->loss = (struct agent_loss){.agent = conn->agent, .hold = self};
    cursor = self->names;
    for (size_t i = 0; i < wish->n_names; i++) {
        cursor = stpcpy(cursor, wish->names[i]) + 1;
    }
    return self;
}

/* Begins the request. */
static rql_status acquire(struct agent_hold *self, const struct agent_wish *wish, rql_error *error)
{
    rql_lock_options options = wish->options;
    rql_series_acquiring all = {.done = on_series, .user_data = self};
    rql_acquiring one = {.done = on_lock, .user_data = self};
    rql_series_options series;
    rql_status status;

    options.task = self->task->number;
    options.auto_extend = self->kind == AGENT_HOLD_OF_CONN;
    options.on_lost = self->kind == AGENT_HOLD_OF_CONN ? on_loss : NULL;
    options.on_lost_data = self->loss;
    if (!wish->is_series) {
        status = rql_lock_acquire_async(self->agent->loop, wish->names[0], &options, &one, error);
        self->request = one.request;
        return status;
    }
    rql_series_options_init(&series);
    series.names = wish->names;
    series.n_names = wish->n_names;
    series.lock = &options;
    status = rql_series_acquire_async(self->agent->loop, &series, &all, error);
    self->request = all.request;
    return status;
}

void agent_hold_begin(struct agent_conn *conn, const struct agent_wish *wish)
{
    struct agent_process *process = NULL;
    struct agent_hold *self;
    rql_error error;

    if (count_holds(conn) + wish->n_names > AGENT_HOLDS_MAX) {
        agent_reply_fault(&conn->out, RQL_QUEUE_FULL, "this connection holds too many locks");
        return;
    }
    if (wish->kind == AGENT_HOLD_OF_CONN && !conn->inherits && !watch_process(conn, &process)) {
        return;
    }
    self = new_hold(conn, wish, process);
    if (acquire(self, wish, &error) != RQL_OK) {
        agent_reply_fault(&conn->out, error.status, error.message);
        give(self, 0);
        return;
    }
    conn->agent->n_waiting++;
    AGENT_LIST(&conn->holds, self);
    conn->phase = AGENT_CONN_BUSY;
}

/* ---- ends ---- */

static void end_expired(uv_handle_t *handle)
{
    struct agent_hold *self = handle->data;

    give(self, self->ttl_ms);
}

/* Ends a hold that was left: its TTL is over, or its process. */
static void drop(struct agent_hold *self)
{
    unlist(self);
    uv_close((uv_handle_t *)&self->expiry, end_expired);
}

static void on_expiry(uv_timer_t *timer)
{
    drop(timer->data);
}

/* Leaves the locks to their TTL, without renewal. Their secrets release them if the process ends
 * first. */
static void leave(struct agent_hold *self)
{
    self->secrets = cli_must(calloc(self->n_names, sizeof *self->secrets));
    for (size_t i = 0; i < self->n_names; i++) {
        memcpy(self->secrets[i], rql_lock_secret(agent_hold_lock(self, i)), RQL_SECRET_SIZE);
    }
    forget_locks(self);
    self->conn = NULL;
    self->phase = AGENT_HOLD_LEFT;
    self->agent->n_held--;
    AGENT_LIST(&self->agent->left, self);
    (void)uv_timer_init(&self->agent->uv, &self->expiry);
    self->expiry.data = self;
    (void)uv_timer_start(&self->expiry, on_expiry, (uint64_t)self->ttl_ms, 0);
}

/* Withdraws a request. Its outcome comes later, and finds no connection. */
static void withdraw(struct agent_hold *self)
{
    self->conn = NULL;
    (void)rql_request_cancel(self->request);
}

void agent_holds_end(struct agent_conn *conn, enum agent_end end)
{
    while (conn->holds) {
        struct agent_hold *hold = conn->holds;

        if (hold->phase == AGENT_HOLD_HELD && end == AGENT_BY_CLIENT) {
            conn->agent->n_ended++;
            agent_hold_release(hold, NULL);
            continue;
        }
        unlist(hold);
        if (hold->phase == AGENT_HOLD_HELD) {
            leave(hold);
        } else {
            withdraw(hold);
        }
    }
}

/* A request that waits is withdrawn; its connection, if another process has it, gets an error. */
static void end_of_process(struct agent_conn *conn, const struct agent_process *process)
{
    struct agent_hold *next;

    for (struct agent_hold *hold = conn->holds; hold; hold = next) {
        next = hold->next;
        if (hold->process == process && hold->phase == AGENT_HOLD_HELD) {
            conn->agent->n_ended++;
            agent_hold_release(hold, NULL);
        } else if (hold->process == process && hold->phase == AGENT_HOLD_WAITS) {
            hold->phase = AGENT_HOLD_ENDS;
            (void)rql_request_cancel(hold->request);
        }
    }
}

static void release_left(const struct agent_hold *self)
{
    const char *name = self->names;

    for (size_t i = 0; i < self->n_names; i++) {
        agent_call_release(self->agent, NULL, name, self->secrets[i]);
        name += strlen(name) + 1;
    }
}

void agent_holds_on_process_ended(struct agent_process *process, void *data)
{
    struct agent *agent = data;
    struct agent_hold *next;

    for (struct agent_conn *conn = agent->conns; conn; conn = conn->next) {
        end_of_process(conn, process);
    }
    for (struct agent_hold *hold = agent->left; hold; hold = next) {
        next = hold->next;
        if (hold->process == process) {
            release_left(hold);
            drop(hold);
        }
    }
}

struct agent_hold *agent_hold_waiting(const struct agent_conn *conn)
{
    struct agent_hold *hold = conn->holds;

    while (hold && hold->phase != AGENT_HOLD_WAITS) {
        hold = hold->next;
    }
    return hold;
}

void agent_holds_withdraw_all(struct agent *agent)
{
    for (struct agent_conn *conn = agent->conns; conn; conn = conn->next) {
        const struct agent_hold *hold = agent_hold_waiting(conn);

        if (hold) {
            (void)rql_request_cancel(hold->request);
        }
    }
}

void agent_holds_forget_left(struct agent *agent)
{
    while (agent->left) {
        drop(agent->left);
    }
}

static void free_losses(struct agent_loss *loss)
{
    while (loss) {
        struct agent_loss *next = loss->next;

        free(loss);
        loss = next;
    }
}

void agent_losses_end(struct agent *agent)
{
    free_losses(agent->noticed);
    free_losses(atomic_exchange(&agent->losses, NULL));
    agent->noticed = NULL;
}
