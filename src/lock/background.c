#include "lock/background.h"

#include "base/clock.h"
#include "lock/client.h"

#include <stdlib.h>

/*
 * The thread of a client. Its step works through what is due under the mutex, which is released
 * around every round trip and callback. So a duty may be dropped while its call is under way.
 *
 * The calls go to all nodes that are connected before the first answer is awaited. If one server
 * has all locks, the thread waits for its answer. Otherwise, and for durable locks, the thread
 * looks for answers for a short time and leaves the rest to a later step: neither a silent node nor
 * missing replicas may delay renewals that are due elsewhere.
 *
 * The caller of every static function here holds the mutex.
 */

/* While leases come and go the thread looks this often by itself, so that a short hold does not
 * have to wake it. The pause is shorter than the time after which a hand-over is claimed. */
enum { IDLE_LOOK_US = 150000 };

enum {
    ANSWER_LOOK_US = 2000, /* the wait for an answer may delay other renewals by this: less than any
                              margin of a lease */
    LONGEST_PAUSE_US = 100000, /* between two looks for an answer */
    /* Until a duty is begun again that found its batch under way or full, or no memory; and the
       longest pause of an urgent duty while its keys move. */
    BUSY_US = 100000,
    BUSY_URGENT_US = 20000,
};

/* Looks at: the servers, the answers to late releases, the holders of a drained client. */
enum { N_LOOKS = 3 };

/* A login takes three round trips, or six with TLS. It gets this many times the grace, which is two
 * round trips. */
enum { LOGIN_GRACES = 3 };

struct rqli_background *rqli_background_new(rql_client *client)
{
    struct rqli_background *self = calloc(1, sizeof *self);

    if (!self) {
        return NULL;
    }
    self->worker = (struct rqli_worker){.name = "rql-leases", .step = rqli_background_step};
    self->client = client;
    self->shared.batch.node = self->shared.durable.node = &client->fleet.first;
    self->shared.batch.next = &self->shared.durable;
    self->shared.durable.is_durable = true;
    self->shared.stop_us = RQLI_NEVER_US;
    (void)pthread_mutex_init(&self->shared.mutex, NULL);
    for (int i = 0; i < N_LOOKS; i++) {
        if (!rqli_timers_reserve(&self->shared.looks)) {
            return rqli_background_free(self);
        }
    }
    return self;
}

void rqli_background_start(struct rqli_background *self, int64_t until_us)
{
    bool is_started;

    if (rqli_worker_runs(&self->worker)) {
        return;
    }
    rqli_background_lock(self);
    is_started = rqli_worker_start(&self->worker);
    rqli_background_unlock(self);
    /* Without the mutex, which the first step of the thread takes. */
    if (is_started) {
        rqli_worker_await(&self->worker, until_us);
    }
}

/* ---- the queue ---- */

void rqli_background_fire_at(struct rqli_background *self, struct rqli_timers *timers,
                             struct rqli_due *due, int64_t at_us)
{
    rqli_timers_set(timers, due, at_us);
    (void)rqli_worker_rouse(&self->worker, at_us);
}

void rqli_background_look(struct rqli_background *self, struct rqli_due *look, int64_t at_us)
{
    if (look->place == 0 || at_us < look->at_us) {
        rqli_background_fire_at(self, &self->shared.looks, look, at_us);
    }
}

static struct rqli_timers *queue_of(struct rqli_background *self, const struct rqli_duty *duty)
{
    return duty->ops->is_urgent ? &self->shared.urgent : &self->shared.others;
}

bool rqli_background_reserve(struct rqli_background *self, const struct rqli_duty *duty)
{
    return rqli_worker_start(&self->worker) && rqli_timers_reserve(queue_of(self, duty));
}

void rqli_background_set(struct rqli_background *self, struct rqli_duty *duty, int64_t at_us)
{
    if (!duty->batch) {
        rqli_background_fire_at(self, queue_of(self, duty), &duty->due, at_us);
    }
}

void rqli_background_drop(struct rqli_background *self, struct rqli_duty *duty)
{
    struct rqli_duty_batch *batch = duty->batch;

    for (size_t i = 0; batch && i < batch->count; i++) {
        if (batch->item[i].duty == duty) {
            batch->item[i].duty = NULL;
        }
    }
    duty->batch = NULL;
    rqli_timers_unreserve(queue_of(self, duty), &duty->due);
}

/* ---- until when ---- */

int64_t rqli_background_wait_until_us(struct rqli_background *self)
{
    int64_t now_us = rqli_now_us();
    int64_t loss_us = rqli_timers_first_us(&self->shared.losses);
    int64_t most_us = rqli_earlier(rqli_client_until_us(self->client, now_us),
                                   rqli_earlier(self->shared.stop_us, loss_us));
    int64_t until_us;

    if (!self->client->is_partitioned || !rqli_fleet_holds_apart(&self->client->fleet)) {
        return most_us;
    }
    /* Half of what the first lock has left, so that a node that does not answer costs no lock on
     * the other nodes. */
    most_us = rqli_earlier(most_us, now_us + (loss_us - now_us) / 2);
    until_us =
        rqli_earlier(rqli_timers_first_us(&self->shared.urgent), now_us + RQLI_SERVER_LOOK_US);
    until_us = rqli_later(until_us, now_us + LOGIN_GRACES * (rqli_client_grace_us(self->client)
                                                             << 2 * self->shared.n_cut_short));
    return rqli_earlier(until_us, most_us);
}

/* Returns how long the answer to a batch may take. A batch in which nothing is urgent takes until
 * the next renewal is due, which is sent after it on the same connection, or the usual grace,
 * whichever is later. If the renewal may be due at another server, it gets no more time than the
 * renewal can spare. */
static int64_t answer_until_us(struct rqli_background *self, const struct rqli_duty_batch *batch)
{
    int64_t most_us = rqli_background_wait_until_us(self);
    int64_t until_us = rqli_later(rqli_now_us() + rqli_client_grace_us(self->client),
                                  rqli_timers_first_us(&self->shared.urgent));

    return batch->is_urgent ? most_us : rqli_earlier(until_us, most_us);
}

/* ---- what is due, by node ---- */

/* Returns the batch for a node and kind of duty, made if there is none. NULL: no memory. */
static struct rqli_duty_batch *batch_for(struct rqli_background *self, struct rqli_node *node,
                                         bool is_durable)
{
    struct rqli_duty_batch **at = &self->shared.batch.next;

    if (node == self->shared.batch.node && !is_durable) {
        return &self->shared.batch;
    }
    while (*at && ((*at)->node != node || (*at)->is_durable != is_durable)) {
        at = &(*at)->next;
    }
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (*at) {
            (*at)->node = node;
            (*at)->is_durable = is_durable;
        }
    }
    return *at;
}

static struct rqli_conn *conn_of(const struct rqli_duty_batch *self)
{
    return self->is_durable ? self->node->conns.durable : self->node->background;
}

/* Returns whether the batch can be sent without delaying others. Releases the mutex meanwhile. */
static bool is_ready(struct rqli_background *self, const struct rqli_duty_batch *batch)
{
    bool is_up = true;

    if (self->client->is_partitioned) {
        rqli_background_unlock(self);
        is_up = rqli_conn_is_up(conn_of(batch));
        rqli_background_lock(self);
    }
    return is_up;
}

static bool is_full(const struct rqli_duty_batch *self)
{
    return self->count == RQLI_DUTIES_MAX;
}

/* Adds a duty to the batch of its node. Returns false if that is full and is sent at once, so that
 * more have to be looked for later. A duty whose batch is under way waits: a second batch would
 * only queue behind it at the server. */
static bool add_to_batch(struct rqli_background *self, struct rqli_duty *duty)
{
    struct rqli_node *node = rqli_fleet_node(&self->client->fleet, duty->set);
    bool is_durable = duty->durability && rqli_durability_is_wanted(duty->durability);
    struct rqli_duty_batch *batch = batch_for(self, node, is_durable);

    if (!batch || batch->sent || is_full(batch)) {
        rqli_background_set(self, duty,
                            rqli_now_us() + (duty->ops->is_urgent ? BUSY_URGENT_US : BUSY_US));
    } else {
        if (is_durable) {
            rqli_durability_join(&batch->wanted, duty->durability);
        }
        batch->is_urgent = batch->is_urgent || duty->ops->is_urgent;
        batch->item[batch->count++].duty = duty;
        duty->batch = batch;
    }
    return is_durable || !batch || batch->sent || !is_full(batch) || !is_ready(self, batch);
}

/* Begins the duties of a queue that are due, until a batch is full: those left in the queue keep
 * their times, and the next step comes at once. */
static void collect_duties(struct rqli_background *self, struct rqli_timers *queue)
{
    int64_t now_us = rqli_now_us();
    bool goes_on = true;

    while (goes_on) {
        struct rqli_duty *duty = (struct rqli_duty *)rqli_timers_take_due(queue, now_us);

        goes_on = duty && (!duty->ops->begin(duty, now_us) || add_to_batch(self, duty));
    }
}

/* ---- the calls ---- */

/* Writes the calls of a batch. Returns false if no duty is left in it. */
static bool write_batch(struct rqli_background *self, struct rqli_duty_batch *batch)
{
    struct rqli_command *command = &batch->sent->command;
    rql_client *client = self->client;

    rqli_command_reset(command);
    for (size_t i = 0; i < batch->count; i++) {
        struct rqli_duty *duty = batch->item[i].duty;
        struct rqli_call call;

        if (duty) {
            batch->item[i].reply_at = command->n_commands;
            duty->ops->write(duty, &call);
            rqli_call_write(&call, command, rqli_conn_scripts(batch->sent->carrier));
        }
    }
    if (command->n_commands == 0) {
        return false;
    }
    if (rqli_client_wants_name(client)) {
        rqli_client_name_write(&client->name, command);
    }
    return true;
}

/* Returns an open connection of the callers that can carry an urgent batch, or NULL. Caller does
 * not hold the mutex. */
static struct rqli_conn *find_spare(const struct rqli_duty_batch *batch)
{
    bool is_wanted =
        batch->is_urgent && !batch->is_durable && !rqli_conn_is_up(batch->node->background);

    return is_wanted ? rqli_conns_find_up(&batch->node->conns) : NULL;
}

/* Connects for a batch. No lock is lost because a server or process has too many connections, while
 * a caller's connection works. The attempt to open another one then takes no more than half of the
 * time before the next loss. */
static rql_status connect_for(struct rqli_background *self, const struct rqli_duty_batch *batch,
                              int64_t until_us, struct rqli_conn **out)
{
    int64_t now_us = rqli_now_us();
    int64_t loss_us = rqli_timers_first_us(&self->shared.losses);
    int64_t half_us = now_us + (loss_us - now_us) / 2;
    struct rqli_conn *spare;
    rql_status status;

    *out = conn_of(batch);
    rqli_background_unlock(self);
    if (loss_us != RQLI_NEVER_US) {
        rqli_conn_hurry(*out, RQLI_SERVER_LOOK_US); /* the next look waits for this connection */
    }
    spare = find_spare(batch);
    status = rqli_conn_connect(*out, spare ? rqli_earlier(until_us, half_us) : until_us, NULL);
    if (status && spare) {
        *out = spare;
        status = RQL_OK;
    }
    rqli_background_lock(self);
    return status;
}

/* Connects and sends a batch, and waits for nothing else. Holds the mutex only while the calls are
 * written. Returns RQL_CANCELLED if all duties were dropped while the thread connected. */
static rql_status send_batch(struct rqli_background *self, struct rqli_duty_batch *batch,
                             int64_t until_us)
{
    struct rqli_conn *conn;
    rql_status status = connect_for(self, batch, until_us, &conn);

    if (status) {
        return status;
    }
    batch->sent = rqli_batch_take(conn);
    if (!batch->sent) {
        return RQL_E_NOMEM;
    }
    if (!write_batch(self, batch)) {
        return RQL_CANCELLED;
    }
    batch->sent->durability = batch->is_durable ? &batch->wanted : NULL;
    rqli_background_unlock(self);
    status = rqli_batch_send(batch->sent, 0, NULL);
    rqli_background_lock(self);
    return status;
}

/* ---- the answers ---- */

/* Returns true if the call has done nothing, and is sent again, at once or soon. */
static bool repeat_call(struct rqli_background *self, const struct rqli_duty_batch *batch,
                        struct rqli_duty *duty, const struct rqli_reply *reply)
{
    enum rqli_verdict verdict;

    duty->retries.until_us = RQLI_NEVER_US;
    verdict =
        rqli_call_verdict(&self->client->fleet, batch->node, duty->set, reply, &duty->retries);
    if (verdict == RQLI_DONE || verdict == RQLI_FAULT) {
        duty->retries = (struct rqli_retries){0};
        return false;
    }
    if (verdict == RQLI_HERE) {
        rqli_conn_forget_scripts(batch->sent->carrier);
    }
    rqli_background_set(self, duty,
                        duty->ops->is_urgent
                            ? rqli_earlier(duty->retries.again_us, rqli_now_us() + BUSY_URGENT_US)
                            : duty->retries.again_us);
    return true;
}

/* A batch is over: each of its duties reads its reply. Duties that others drop meanwhile are
 * forgotten. */
static void end_batch(struct rqli_background *self, struct rqli_duty_batch *batch,
                      rql_status status)
{
    if (status && status != RQL_CANCELLED) {
        rqli_fleet_on_silence(&self->client->fleet, batch->node);
    }
    for (size_t i = 0; i < batch->count; i++) {
        struct rqli_duty *duty = batch->item[i].duty;
        const struct rqli_reply *reply =
            duty && !status ? &batch->sent->reply[batch->item[i].reply_at] : NULL;

        if (duty) {
            duty->batch = NULL;
        }
        if (duty && !(reply && repeat_call(self, batch, duty, reply))) {
            duty->ops->read(duty, reply ? batch->sent : NULL, reply, status);
        }
    }
    rqli_background_unlock(self);
    rqli_batch_give(batch->sent);
    rqli_background_lock(self);
    batch->sent = NULL;
    batch->wanted = (struct rqli_durability){0};
    batch->is_urgent = false;
    batch->count = 0;
}

/* Returns whether an urgent duty waits for the end of a batch without one, which has had its time:
 * a withdrawal without an answer must hold up no renewal. */
static bool holds_up_urgent(struct rqli_background *self, const struct rqli_duty_batch *batch)
{
    int64_t now_us = rqli_now_us();

    return !batch->is_urgent &&
           now_us >= batch->sent->sent_us + rqli_client_grace_us(self->client) &&
           rqli_timers_first_us(&self->shared.urgent) <= now_us + BUSY_URGENT_US;
}

/* Takes the answer to a batch that was sent, if it has come. Releases the mutex while it waits. */
static void take_answer(struct rqli_background *self, struct rqli_duty_batch *batch)
{
    bool is_looked_at = batch->is_durable || self->client->is_partitioned;
    int64_t until_us =
        is_looked_at ? batch->sent->sent_us + ANSWER_LOOK_US : answer_until_us(self, batch);
    rql_status status;

    rqli_background_unlock(self);
    status = rqli_batch_await(batch->sent, until_us, NULL);
    rqli_background_lock(self);
    if (!is_looked_at || rqli_batch_is_over(batch->sent) || holds_up_urgent(self, batch)) {
        end_batch(self, batch, status);
    }
}

static void begin_batch(struct rqli_background *self, struct rqli_duty_batch *batch)
{
    rql_status status = send_batch(self, batch, answer_until_us(self, batch));

    if (status) {
        end_batch(self, batch, status);
    }
}

/* Notes how an attempt to connect ended: if a login takes longer than a node may hold up the
 * others, it has more time at each attempt. */
static void note_attempt(struct rqli_background *self, const struct rqli_duty_batch *batch)
{
    enum { MOST = 4 };

    unsigned *n = &self->shared.n_cut_short;

    if (is_ready(self, batch)) {
        *n = 0;
    } else if (*n < MOST) {
        ++*n;
    }
}

static bool is_unsent(const struct rqli_duty_batch *self)
{
    return self->count > 0 && !self->sent;
}

/* Does one step for the durable batches, or for the others. Nodes that are not connected come last,
 * because connecting may take until something is due elsewhere. */
static void send_all(struct rqli_background *self, bool is_durable)
{
    struct rqli_duty_batch *batch;

    for (batch = &self->shared.batch; batch; batch = batch->next) {
        if (batch->is_durable == is_durable && is_unsent(batch) && is_ready(self, batch)) {
            begin_batch(self, batch);
        }
    }
    for (batch = &self->shared.batch; batch; batch = batch->next) {
        if (batch->is_durable == is_durable && batch->sent) {
            take_answer(self, batch);
        }
    }
    for (batch = &self->shared.batch; batch; batch = batch->next) {
        if (batch->is_durable == is_durable && is_unsent(batch)) {
            begin_batch(self, batch);
            note_attempt(self, batch);
        }
    }
}

/* Returns until when the server has to have answered; then its connection is given up. */
static int64_t silent_us(const struct rqli_background *self, const struct rqli_duty_batch *batch)
{
    int64_t limit_ms = self->client->options.io_timeout_ms;

    if (batch->is_durable) {
        limit_ms += rqli_durability_longest_ms(&batch->wanted);
    }
    return rqli_after_ms(batch->sent->sent_us, limit_ms);
}

/* Returns when to look for an answer again. An answer that takes long is looked for less and less
 * often, because a silent server must not keep the thread busy. A look just before the next loss
 * makes an answer count that has come since the last look. */
static int64_t next_look_us(const struct rqli_background *self, const struct rqli_duty_batch *batch,
                            int64_t now_us)
{
    int64_t pause_us = rqli_earlier(now_us - batch->sent->sent_us, LONGEST_PAUSE_US);
    int64_t look_us = now_us + rqli_later(pause_us, ANSWER_LOOK_US);
    int64_t before_loss_us = rqli_timers_first_us(&self->shared.losses) - ANSWER_LOOK_US;
    int64_t at_end_us = silent_us(self, batch);

    look_us = before_loss_us > now_us ? rqli_earlier(look_us, before_loss_us) : look_us;
    return at_end_us > now_us ? rqli_earlier(look_us, at_end_us) : look_us;
}

/* ---- the step ---- */

/* Returns when the thread has to look again: at the earliest of the times that are due. While
 * leases come and go it looks every 150 ms, which is cheaper than a wake-up for each of them. */
static int64_t plan_next_step(struct rqli_background *self)
{
    int64_t now_us = rqli_now_us();
    int64_t due_us = self->shared.stop_us;

    due_us = rqli_earlier(due_us, rqli_timers_first_us(&self->shared.losses));
    due_us = rqli_earlier(due_us, rqli_timers_first_us(&self->shared.looks));
    due_us = rqli_earlier(due_us, rqli_timers_first_us(&self->shared.urgent));
    due_us = rqli_earlier(due_us, rqli_timers_first_us(&self->shared.others));
    for (const struct rqli_duty_batch *batch = &self->shared.batch; batch; batch = batch->next) {
        if (batch->sent) {
            due_us = rqli_earlier(due_us, next_look_us(self, batch, now_us));
        }
    }
    if (self->shared.n_added > 0) {
        due_us = rqli_earlier(due_us, now_us + IDLE_LOOK_US);
    }
    self->shared.n_added = 0;
    return due_us;
}

/* Returns whether there is something that the end of the client waits for. A withdrawal that is
 * settled has a last call to come, which the end does not wait for. */
static bool owes(const struct rqli_background *self)
{
    return self->n_late > 0 || self->n_withdrawals > 0 || self->shared.n_adopted > 0 ||
           self->shared.n_records > 0;
}

/* Ends what is open when the client ends, and its time is over or nothing is owed any more: each
 * duty learns that there is no time for it any more. */
static void end_duties(struct rqli_background *self)
{
    for (struct rqli_duty_batch *batch = &self->shared.batch; batch; batch = batch->next) {
        if (batch->sent) {
            end_batch(self, batch, RQL_E_UNKNOWN);
        }
    }
    if (owes(self)) {
        rqli_timers_fire(&self->shared.looks, RQLI_NEVER_US);
    }
    for (;;) {
        struct rqli_duty *duty =
            (struct rqli_duty *)rqli_timers_take_due(&self->shared.others, RQLI_NEVER_US);

        if (!duty) {
            return;
        }
        (void)duty->ops->begin(duty, RQLI_NEVER_US);
    }
}

/* Reports losses first, so that no slow renewal delays a report. A look fires once in a step at
 * most, however often it is due. */
int64_t rqli_background_step(struct rqli_worker *worker)
{
    struct rqli_background *self = (struct rqli_background *)worker;
    int64_t again_us = RQLI_WORKER_OVER;

    rqli_background_lock(self);
    rqli_timers_fire(&self->shared.looks, rqli_now_us());
    rqli_timers_fire(&self->shared.losses, rqli_now_us());
    collect_duties(self, &self->shared.urgent);
    collect_duties(self, &self->shared.others);
    send_all(self, false);
    send_all(self, true);
    rqli_timers_fire(&self->shared.losses, rqli_now_us());
    if (rqli_background_is_ending(self) && (!owes(self) || rqli_now_us() >= self->shared.stop_us)) {
        end_duties(self);
    } else {
        again_us = plan_next_step(self);
    }
    rqli_background_unlock(self);
    return again_us;
}

/* ---- the end ---- */

/* Duties that are open get io_timeout_ms. After the thread has ended no other thread comes here. It
 * was never started if there was no thread to be had; then it has nothing. */
void rqli_background_stop(struct rqli_background *self)
{
    rqli_background_lock(self);
    self->shared.stop_us = rqli_after_ms(rqli_now_us(), self->client->options.io_timeout_ms);
    if (self->shared.late_look.place) {
        rqli_background_look(self, &self->shared.late_look, 0);
    }
    rqli_background_unlock(self);
    /* Without the mutex, which the last steps of the thread take. */
    rqli_worker_stop(&self->worker);
}

struct rqli_background *rqli_background_free(struct rqli_background *self)
{
    struct rqli_duty_batch *other;

    if (!self) {
        return NULL;
    }
    rqli_batch_give(self->shared.batch.sent);
    rqli_batch_give(self->shared.durable.sent);
    other = self->shared.durable.next;
    while (other) {
        struct rqli_duty_batch *next = other->next;

        rqli_batch_give(other->sent);
        free(other);
        other = next;
    }
    rqli_timers_fini(&self->shared.losses);
    rqli_timers_fini(&self->shared.looks);
    rqli_timers_fini(&self->shared.urgent);
    rqli_timers_fini(&self->shared.others);
    rqli_hash_map_fini(&self->shared.withdrawals);
    (void)pthread_mutex_destroy(&self->shared.mutex);
    free(self);
    return NULL;
}
