#include "look.h"

#include "cost.h"
#include "counts.h"
#include "format.h"
#include "locks.h"
#include "messages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const top_order_names[TOP_N_ORDERS] = {"waiting", "held", "left", "served", "name"};

/* ---- rows ---- */

static int compare_rows(const void *a, const void *b)
{
    const struct top_row *left = a;
    const struct top_row *right = b;

    return strcmp(left->name, right->name);
}

static int compare_to_row(const void *key, const void *element)
{
    const struct top_row *row = element;

    return strcmp(key, row->name);
}

static struct top_row *find(const struct top_look *self, const char *name)
{
    return self->n_rows > 0
               ? bsearch(name, self->rows, self->n_rows, sizeof *self->rows, compare_to_row)
               : NULL;
}

const struct top_row *top_look_find(const struct top_look *self, const char *name)
{
    return find(self, name);
}

static void sort_rows(struct top_look *self)
{
    if (self->n_rows > 1) {
        qsort(self->rows, self->n_rows, sizeof *self->rows, compare_rows);
    }
}

/* Makes a row for each lock, and one for each queue whose lock is free. */
static void fill_rows(struct top_look *self)
{
    size_t count;

    self->rows = cli_must(calloc(self->locks->count + self->queues->count + 1, sizeof *self->rows));
    for (size_t i = 0; i < self->locks->count; i++) {
        const rql_lock_info *lock = self->locks->item[i];

        if (lock->status != RQL_KEY_RELEASED) {
            self->rows[self->n_rows++] = (struct top_row){.name = lock->name, .lock = lock};
        }
    }
    sort_rows(self);
    count = self->n_rows;
    for (size_t i = 0; i < self->queues->count; i++) {
        const rql_queue_info *queue = self->queues->item[i];
        struct top_row *row = queue->status == RQL_KEY_RELEASED ? NULL : find(self, queue->name);

        if (row) {
            row->queue = queue;
        } else if (queue->status != RQL_KEY_RELEASED) {
            self->rows[count++] = (struct top_row){.name = queue->name, .queue = queue};
        }
    }
    self->n_rows = count;
    sort_rows(self);
}

/* ---- two looks ---- */

static bool is_still_there(const rql_queue_info *queue, const rql_request_info *request)
{
    for (size_t i = 0; queue && i < queue->n_requests; i++) {
        const rql_request_info *other = queue->requests[i];

        if (other->score_us == request->score_us &&
            strcmp(other->acquirer_id, request->acquirer_id) == 0) {
            return true;
        }
    }
    return false;
}

/* Returns whether another holder has the lock. Of several holders that is not known, but a request
 * that has left the front is one of them, or was withdrawn. */
static bool has_changed_hands(const struct top_row *before, const struct top_row *now)
{
    return !before->lock || !now->lock || cli_is_of_several(now->lock) ||
           before->lock->token != now->lock->token;
}

/* Returns how many have left the front of the queue while the lock changed hands. Those behind the
 * first that is still there may have been withdrawn. */
static size_t count_served(const struct top_row *before, const struct top_row *now)
{
    const rql_queue_info *queue = before->queue;
    size_t count = 0;

    if (!queue || !has_changed_hands(before, now)) {
        return 0;
    }
    while (count < queue->n_requests && !is_still_there(now->queue, queue->requests[count])) {
        count++;
    }
    return count;
}

/* The rate is the mean of the last looks, and a least one if it is in any of them. */
static void note_rate(struct top_row *row, const struct top_row *before, double rate, bool is_least)
{
    const size_t kept = before->n_rates < TOP_RATES ? before->n_rates : TOP_RATES - 1;
    double sum = 0;

    row->rates[0] = rate;
    row->least[0] = is_least;
    memcpy(row->rates + 1, before->rates, kept * sizeof *row->rates);
    memcpy(row->least + 1, before->least, kept * sizeof *row->least);
    row->n_rates = kept + 1;
    for (size_t i = 0; i < row->n_rates; i++) {
        sum += row->rates[i];
        row->is_least |= row->least[i];
    }
    row->served = sum / (double)row->n_rates;
}

static void compare(struct top_look *self, const struct top_look *before, struct top_row *row)
{
    static const struct top_row nothing = {.name = ""};
    const struct top_row *old = before ? top_look_find(before, row->name) : NULL;
    const int64_t between_ms = before ? self->begun_ms - before->begun_ms : 0;
    size_t count;

    row->served = -1;
    row->expect_ms = -1;
    if (between_ms <= 0 || before->status != RQL_OK) {
        return;
    }
    old = old ? old : &nothing;
    count = count_served(old, row);
    note_rate(row, old, (double)count * 1000 / (double)between_ms,
              count > 0 && count == old->queue->n_requests);
    self->served = (self->served > 0 ? self->served : 0) + row->served;
    if (row->served > 0 && row->waiting > 0) {
        row->expect_ms = (int64_t)((double)row->waiting * 1000 / row->served);
    }
}

/* The same wait in two looks is no passing one. */
static void find_convoy(struct top_look *self, const struct top_look *before, struct top_row *row)
{
    if (row->queue && row->lock && before && before->status == RQL_OK) {
        row->convoy = cli_convoy_find(&self->waits, &before->waits, &self->names, row->name);
    }
}

static void describe(struct top_row *row)
{
    const rql_lock_info *lock = row->lock;

    row->waiting = row->queue ? (int64_t)row->queue->n_requests : 0;
    row->held_ms = lock ? cli_age_ms(lock->acquired_at_us, lock->server_us) : -1;
    row->left_ms = lock ? lock->remaining_ms : -1;
    row->is_endless = lock && lock->status == RQL_KEY_ALIVE && lock->remaining_ms == RQL_FOREVER;
}

/* ---- a look ---- */

/* Reads the swarm. Without the rights, or with a server that has none, nothing is known of it.
 * While no name is known, this alone shows that the server does not answer. */
static void read_hosts(struct top_look *self, struct cli_session *session)
{
    rql_error error = {.status = RQL_OK};
    rql_status status = rql_swarm_hosts(session->client, session->args->options.zombie_ttl_ms,
                                        &self->hosts, &error);

    if (status == RQL_OK) {
        status = rql_swarm_flusher(session->client, self->flusher, &error);
    }
    if (status != RQL_OK) {
        self->flusher[0] = '\0';
    }
    if (cli_may_pass(status)) {
        self->status = status;
        self->error = error;
    }
}

static void read_holders(struct top_look *self, struct cli_session *session, const char *name)
{
    self->holders_of = cli_must(strdup(name));
    self->status = rql_lock_holders(session->client, name, &self->holders, &self->error);
    /* Another program's lock may have a name that the library does not take. */
    self->status = self->status == RQL_E_INVALID ? RQL_OK : self->status;
}

/* Queues are read first: a waiter that is granted the lock meanwhile is in both, and never in
 * none. */
static void read_all(struct top_look *self, struct cli_session *session,
                     const struct top_known *known, const char *name)
{
    self->status =
        rql_queues_read(session->client, known->names, known->count, &self->queues, &self->error);
    if (self->status == RQL_OK) {
        self->status =
            rql_locks_read(session->client, known->names, known->count, &self->locks, &self->error);
    }
    if (self->status == RQL_OK && name) {
        read_holders(self, session, name);
    }
    if (self->status == RQL_OK) {
        cli_names_read(&self->names, session);
        read_hosts(self, session);
    }
}

static void sum_up(struct top_look *self, const struct top_look *before)
{
    fill_rows(self);
    cli_waits_init(&self->waits, self->locks, self->queues);
    for (size_t i = 0; i < self->n_rows; i++) {
        struct top_row *row = &self->rows[i];

        describe(row);
        compare(self, before, row);
        find_convoy(self, before, row);
        self->n_locks += row->lock && row->lock->status == RQL_KEY_ALIVE;
        self->n_waiting += row->waiting;
    }
}

/* The time of a server without locks is that of its hosts. */
static void note_time(struct top_look *self)
{
    self->server_us = self->hosts ? self->hosts->server_us : -1;
    for (size_t i = 0; i < self->locks->count; i++) {
        const int64_t server_us = self->locks->item[i]->server_us;

        self->server_us = server_us > self->server_us ? server_us : self->server_us;
    }
}

struct top_look *top_look_new(struct cli_session *session, struct top_known *known,
                              const struct top_look *before, const char *name)
{
    struct top_look *self = cli_must(calloc(1, sizeof *self));

    self->served = -1;
    self->server_us = -1;
    self->status = top_known_update(known, session, &self->error);
    self->begun_ms = cli_now_ms();
    if (self->status == RQL_OK) {
        const struct top_cost cost = top_cost_begin(session->client);

        read_all(self, session, known, name);
        self->cost_ms = top_cost_end(&cost, session->client);
    }
    if (self->status == RQL_OK) {
        note_time(self);
        sum_up(self, before);
    }
    return self;
}

void top_look_free(struct top_look *self)
{
    if (self) {
        for (size_t i = 0; i < self->n_rows; i++) {
            cli_convoy_free_p(&self->rows[i].convoy);
        }
        cli_waits_free_p(&self->waits);
        (void)rql_free(self->locks);
        (void)rql_free(self->queues);
        (void)rql_free(self->holders);
        (void)rql_free(self->hosts);
        free(self->holders_of);
        cli_names_free_p(&self->names);
        free(self->rows);
        free(self);
    }
}

const char *top_row_holder(const struct top_look *self, const struct top_row *row,
                           char out[CLI_NAME_SIZE])
{
    if (row->lock && cli_is_damaged(row->lock->status)) {
        return cli_status_text(row->lock->status);
    }
    if (!row->lock && cli_is_damaged(row->queue->status)) {
        (void)snprintf(out, CLI_NAME_SIZE, "queue: %s", cli_status_text(row->queue->status));
        return out;
    }
    return cli_lock_holder(&self->names, row->lock, out);
}

const rql_host_info *top_look_host(const struct top_look *self, const char *host_id)
{
    for (size_t i = 0; self->hosts && host_id && i < self->hosts->count; i++) {
        if (strcmp(self->hosts->item[i]->host_id, host_id) == 0) {
            return self->hosts->item[i];
        }
    }
    return NULL;
}

/* ---- orders ---- */

static double value_of(const struct top_row *row, enum top_order order)
{
    switch (order) {
    case TOP_WAITING:
        return (double)row->waiting;
    case TOP_HELD:
        return (double)row->held_ms;
    case TOP_LEFT:
        return row->is_endless ? HUGE_VAL : (double)row->left_ms;
    case TOP_SERVED:
        return row->served;
    case TOP_NAME:
    case TOP_N_ORDERS:
        break;
    }
    return 0;
}

/* The larger key comes first. */
static int compare_keys(const void *a, const void *b)
{
    const struct top_row *const *left = a;
    const struct top_row *const *right = b;

    if ((*left)->key < (*right)->key || (*left)->key > (*right)->key) {
        return (*left)->key < (*right)->key ? 1 : -1;
    }
    return strcmp((*left)->name, (*right)->name);
}

static bool is_shown(const struct top_row *row, const struct top_filter *filter, int64_t server_us)
{
    const rql_queue_info *queue = row->queue;
    const int64_t waited_ms =
        queue && queue->n_requests > 0 ? cli_age_ms(queue->requests[0]->score_us, server_us) : -1;

    return cli_glob_matches(filter->glob, row->name) &&
           (row->held_ms >= filter->older_than_ms || waited_ms >= filter->older_than_ms);
}

const struct top_row **top_look_sort(struct top_look *self, enum top_order order, bool is_reversed,
                                     const struct top_filter *filter, size_t *count)
{
    static const struct top_filter none = {.glob = NULL, .older_than_ms = INT64_MIN};
    const struct top_row **rows =
        cli_must(calloc(self->n_rows > 0 ? self->n_rows : 1, sizeof(struct top_row *)));

    *count = 0;
    for (size_t i = 0; i < self->n_rows; i++) {
        const double key = order == TOP_NAME ? -(double)i : value_of(&self->rows[i], order);

        self->rows[i].key = is_reversed ? -key : key;
        if (is_shown(&self->rows[i], filter ? filter : &none, self->server_us)) {
            rows[(*count)++] = &self->rows[i];
        }
    }
    if (*count > 1) {
        qsort(rows, *count, sizeof(struct top_row *), compare_keys);
    }
    return rows;
}
