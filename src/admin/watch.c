#include "admin/info.h"
#include "admin/watch_state.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/result.h"
#include "base/worker.h"
#include "lock/client.h"

#include <stdlib.h>
#include <string.h>

/*
 * A thread that reads locks and reports how two readings differ. The queues are read before the
 * locks, so that a request that has left its queue is found as a holder.
 */

enum {
    LEAST_US = 50000,   /* between two readings */
    MOST_US = 1000000,  /* the same, while nothing changes */
    PASS_US = 10000000, /* between two passes over all keys */
    SPARING = 10,       /* a reading takes at most one part of so many of the time */
    PASS_SPARING = 100, /* and a pass */
};

/* What was read at one time. */
struct reading {
    rql_queue_info_list *queues; /* owned, as all of it */
    rql_lock_info_list *locks;
    rql_holder_list **holders;    /* of locks of several; freed one by one */
    struct rqli_watched *watched; /* by name */
    size_t count;
};

struct rql_watch {
    struct rqli_worker worker; /* first */
    rql_client *client;
    rql_change_fn on_change;
    void *user_data;
    unsigned generation; /* of the process */
    atomic_bool is_over;

    /* Of the thread: */
    char **names; /* owned; those of the caller, or of the last pass */
    size_t n_names;
    bool watches_all;
    bool is_away;     /* the last reading had no answer */
    bool has_changed; /* something was reported since the last reading */
    int64_t interval_us;
    int64_t next_pass_us;
    struct reading last; /* zeroed: there was none */
};

static void reading_fini(struct reading *self)
{
    for (size_t i = 0; i < self->count; i++) {
        (void)rql_free(self->holders[i]);
    }
    (void)rql_free(self->queues);
    (void)rql_free(self->locks);
    free(self->holders);
    free(self->watched);
    *self = (struct reading){0};
}

/* ---- names ---- */

static void free_names(char **names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(names[i]);
    }
    free(names);
}

/* Returns the name of the lock that a key belongs to; "": it is no key of a lock or a queue. */
static const char *name_in(const char *key)
{
    const struct rqli_slice text = rqli_slice_of(key);
    const struct rqli_slice name = rqli_name_in(text, RQLI_KEY_LOCK);

    return name.length > 0 ? name.data : rqli_name_in(text, RQLI_KEY_QUEUE).data;
}

/* Adds a copy. Returns false if there is no memory. */
static bool add_name(char **names, size_t *count, const char *name)
{
    char *copy = strdup(name);

    if (copy) {
        names[(*count)++] = copy;
    }
    return copy != NULL;
}

/* Takes the names in these keys. A lock that was read last stays among them, so that its end is
 * reported. */
static rql_status take_names(rql_watch *self, const rql_text_list *keys, rql_error *error)
{
    char **names = calloc(keys->count + self->last.count + 1, sizeof *names);
    bool is_complete = names != NULL;
    size_t count = 0;

    for (size_t i = 0; is_complete && i < keys->count; i++) {
        const char *name = name_in(keys->item[i]);

        is_complete = *name == '\0' || add_name(names, &count, name);
    }
    for (size_t i = 0; is_complete && i < self->last.count; i++) {
        const struct rqli_watched *watched = &self->last.watched[i];

        is_complete = (!watched->lock && !watched->queue) || add_name(names, &count, watched->name);
    }
    if (!is_complete) {
        free_names(names, count);
        return rqli_fail_nomem(error);
    }
    free_names(self->names, self->n_names);
    self->names = names;
    self->n_names = count;
    return RQL_OK;
}

/* Finds the names of all locks and queues. */
static rql_status make_pass(rql_watch *self, rql_error *error)
{
    const int64_t begun_us = rqli_now_us();
    RQLI_AUTO(rql_free) rql_text_list *keys = NULL;
    rql_status status = rql_keys_list(self->client, &keys, error);
    int64_t pause_us;

    status = status ? status : take_names(self, keys, error);
    if (!status) {
        pause_us = PASS_SPARING * (rqli_now_us() - begun_us);
        self->next_pass_us = begun_us + (pause_us > PASS_US ? pause_us : PASS_US);
    }
    return status;
}

/* ---- a reading ---- */

static int compare_watched(const void *a, const void *b)
{
    const struct rqli_watched *left = a;
    const struct rqli_watched *right = b;

    return strcmp(left->name, right->name);
}

static const struct rqli_watched *find(const struct reading *self, const char *name)
{
    const struct rqli_watched wanted = {.name = name};

    return self->count > 0
               ? bsearch(&wanted, self->watched, self->count, sizeof wanted, compare_watched)
               : NULL;
}

/* Reads the holders of a lock of several. Another program's lock may have a name that librql does
 * not take. */
static rql_status read_holders(rql_watch *self, const rql_lock_info *lock, rql_holder_list **out,
                               rql_error *error)
{
    const struct rqli_reader reader = {.client = self->client, .where = lock->key, .error = error};

    return rqli_read_holders(&reader, rqli_slice_of(lock->key), out);
}

/* The lists have an item for each name, in the same order. */
static rql_status fill(rql_watch *self, struct reading *out, rql_error *error)
{
    const size_t count = out->locks->count;
    rql_status status = RQL_OK;

    out->holders = calloc(count + 1, sizeof(void *));
    out->watched = calloc(count + 1, sizeof *out->watched);
    if (!out->holders || !out->watched) {
        return rqli_fail_nomem(error);
    }
    out->count = count;
    for (size_t i = 0; !status && i < count; i++) {
        const rql_lock_info *lock = out->locks->item[i];
        const rql_queue_info *queue = out->queues->item[i];

        if (lock->status == RQL_KEY_ALIVE && rqli_lock_info_is_of_several(lock)) {
            status = read_holders(self, lock, &out->holders[i], error);
        }
        out->watched[i] =
            (struct rqli_watched){.name = lock->name,
                                  .lock = lock->status == RQL_KEY_ALIVE ? lock : NULL,
                                  .holders = out->holders[i],
                                  .queue = queue->status == RQL_KEY_ALIVE ? queue : NULL,
                                  .server_us = lock->server_us,
                                  .held_us = lock->server_us};
    }
    return status;
}

/* Returns whether the lock, or the list of its holders, could not be read as a whole: it is
 * damaged, or holds more than a listing reads. */
static bool is_unread(const struct reading *self, size_t index)
{
    const rql_holder_list *holders = self->holders[index];

    return self->locks->item[index]->status == RQL_KEY_MALFORMED ||
           (holders && holders->status == RQL_KEY_MALFORMED);
}

/* Takes these holders out of a reading, whose lock still borrows them. */
static rql_holder_list *take_holders(struct reading *from, const rql_holder_list *holders)
{
    rql_holder_list *taken = NULL;

    for (size_t i = 0; i < from->count && !taken; i++) {
        if (from->holders[i] == holders) {
            taken = from->holders[i];
            from->holders[i] = NULL;
        }
    }
    return taken;
}

/* Keeps the holders that were read last of each lock of several that cannot be read now, because
 * they need not have left. Nothing fails after that in this reading. */
static void keep_unread(rql_watch *self, struct reading *now)
{
    for (size_t i = 0; i < now->count; i++) {
        struct rqli_watched *watched = &now->watched[i];
        const struct rqli_watched *before = find(&self->last, watched->name);

        if (before && before->holders && is_unread(now, i)) {
            (void)rql_free(now->holders[i]);
            now->holders[i] = take_holders(&self->last, before->holders);
            watched->lock = now->locks->item[i];
            watched->holders = now->holders[i];
            watched->held_us = before->held_us;
        }
    }
}

static rql_status read_all(rql_watch *self, struct reading *out, rql_error *error)
{
    const char *const *names;
    rql_status status = RQL_OK;

    if (self->watches_all && rqli_now_us() >= self->next_pass_us) {
        status = make_pass(self, error);
    }
    names = (const char *const *)self->names;
    if (!status) {
        status = rql_queues_read(self->client, names, self->n_names, &out->queues, error);
    }
    if (!status) {
        status = rql_locks_read(self->client, names, self->n_names, &out->locks, error);
    }
    status = status ? status : fill(self, out, error);
    if (!status) {
        keep_unread(self, out);
        qsort(out->watched, out->count, sizeof *out->watched, compare_watched);
    }
    return status;
}

/* ---- reports ---- */

/* Passes a change on, and notes that there was one. */
static void pass_on(const rql_change *change, void *user_data)
{
    rql_watch *self = user_data;

    self->has_changed = true;
    self->on_change(change, self->user_data);
}

/* A lock that is not among those of the reading before was free. */
static void report(rql_watch *self, const struct reading *now, bool is_first)
{
    for (size_t i = 0; i < now->count && !atomic_load(&self->is_over); i++) {
        const struct rqli_watched *watched = &now->watched[i];
        const struct rqli_watched nothing = {.name = watched->name,
                                             .server_us = watched->server_us};
        const struct rqli_watched *before = find(&self->last, watched->name);
        const bool is_free = !watched->lock && !watched->queue;

        if (!is_first) {
            rqli_watched_compare(before ? before : &nothing, watched, pass_on, self);
        } else if (!self->watches_all || !is_free) {
            rqli_watched_report(watched, pass_on, self);
        }
    }
}

/* Reports that the server has gone, or has come back. */
static void report_server(rql_watch *self, rql_change_kind kind, const rql_error *error)
{
    const rql_change change = {.size = sizeof change,
                               .kind = kind,
                               .at_us = -1,
                               .token = -1,
                               .waited_ms = -1,
                               .held_ms = -1,
                               .remaining_ms = -1,
                               .share_units = -1,
                               .share_limit = -1,
                               .n_holders = -1,
                               .waiting = -1,
                               .error = error};

    if (self->is_away != (kind == RQL_CHANGE_AWAY)) {
        self->is_away = !self->is_away;
        self->on_change(&change, self->user_data);
    }
}

static int64_t next_interval_us(const rql_watch *self)
{
    const int64_t next_us = self->has_changed ? LEAST_US : 2 * self->interval_us;

    return next_us < MOST_US ? next_us : MOST_US;
}

static int64_t step(struct rqli_worker *worker)
{
    rql_watch *self = (rql_watch *)worker;
    const int64_t begun_us = rqli_now_us();
    const bool is_first = !self->last.watched;
    struct reading now = {0};
    rql_error error = {.status = RQL_OK};
    int64_t spare_us;

    if (atomic_load(&self->is_over)) {
        return RQLI_WORKER_OVER;
    }
    self->has_changed = false;
    if (read_all(self, &now, &error) == RQL_OK) {
        report_server(self, RQL_CHANGE_BACK, NULL);
        report(self, &now, is_first);
        reading_fini(&self->last);
        self->last = now;
    } else {
        reading_fini(&now);
        report_server(self, RQL_CHANGE_AWAY, &error);
    }
    spare_us = SPARING * (rqli_now_us() - begun_us);
    self->interval_us = next_interval_us(self);
    return begun_us + (spare_us > self->interval_us ? spare_us : self->interval_us);
}

/* ---- calls ---- */

void rql_watch_options_init_sized(rql_watch_options *options, size_t size)
{
    if (options && size >= sizeof options->size) {
        memset(options, 0, size);
        options->size = size;
    }
}

static rql_status copy_names(rql_watch *self, const rql_watch_options *options, rql_error *error)
{
    rql_status status = RQL_OK;

    self->watches_all = !options->names;
    if (self->watches_all) {
        return RQL_OK;
    }
    self->names = calloc(options->n_names + 1, sizeof *self->names);
    if (!self->names) {
        return rqli_fail_nomem(error);
    }
    for (size_t i = 0; !status && i < options->n_names; i++) {
        status = rqli_name_check(options->names[i], error);
        if (!status && !add_name(self->names, &self->n_names, options->names[i])) {
            status = rqli_fail_nomem(error);
        }
    }
    return status;
}

/* Frees everything. The thread does not run. */
static rql_watch *free_watch(rql_watch *self)
{
    free_names(self->names, self->n_names);
    reading_fini(&self->last);
    free(self);
    return NULL;
}

rql_status rql_watch_open(rql_client *client, const rql_watch_options *options, rql_watch **out,
                          rql_error *error)
{
    RQLI_DEFER_CANCEL;
    rql_status status = rqli_client_check(client, error);
    rql_watch *self;

    if (!status &&
        (!out || !options || !rqli_is_set_up(options, sizeof *options) || !options->on_change)) {
        status = rqli_fail(error, RQL_E_INVALID,
                           "out or on_change is NULL, or the options are not set up");
    }
    status = status ? status : rqli_check_known(options, sizeof *options, error);
    if (status || !out || !options) { /* the last two are for the analyzer */
        return status;
    }
    self = calloc(1, sizeof *self);
    if (!self) {
        return rqli_fail_nomem(error);
    }
    self->worker.name = "rql-watch";
    self->worker.step = step;
    self->client = client;
    self->on_change = options->on_change;
    self->user_data = options->user_data;
    self->generation = rqli_fork_generation();
    status = copy_names(self, options, error);
    if (!status && !rqli_worker_start(&self->worker)) {
        status = rqli_fail(error, RQL_E_NOMEM, "watch: no thread is available");
    }
    if (status) {
        (void)free_watch(self);
        return status;
    }
    *out = self;
    return RQL_OK;
}

/* In the child of a fork() the thread does not exist, and what it used is left as it is. */
rql_watch *rql_watch_close(rql_watch *watch)
{
    RQLI_DEFER_CANCEL;

    if (!watch || watch->generation != rqli_fork_generation()) {
        return NULL;
    }
    atomic_store(&watch->is_over, true);
    rqli_worker_stop(&watch->worker);
    return free_watch(watch);
}
