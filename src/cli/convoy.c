#include "convoy.h"

#include "format.h"
#include "outer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHAIN_MAX = 32, /* locks of a chain */
    DEPTH_MAX = 8,  /* runs inside of each other that are followed, at least */
};

struct cli_waiter {
    const rql_queue_info *queue;
    const rql_request_info *request;
};

/* A request or a grant of a run inside of another one. The first of each token also has the wait of
 * all that run inside of that grant. */
struct cli_under {
    int64_t token;             /* of the grant that the other one holds */
    struct cli_waiter wait;    /* the request; its queue is NULL if no request is known */
    const rql_lock_info *lock; /* the grant, or NULL */
};

/* ---- a reading ---- */

static int compare_locks(const void *a, const void *b)
{
    const rql_lock_info *const *left = a;
    const rql_lock_info *const *right = b;

    return strcmp((*left)->name, (*right)->name);
}

static int compare_waiters(const void *a, const void *b)
{
    const struct cli_waiter *left = a;
    const struct cli_waiter *right = b;

    return strcmp(left->request->acquirer_id, right->request->acquirer_id);
}

static int compare_unders(const void *a, const void *b)
{
    const struct cli_under *left = a;
    const struct cli_under *right = b;

    return (left->token > right->token) - (left->token < right->token);
}

/* Adds one for each token in the metadata. */
static void add_unders(struct cli_waits *self, const rql_meta *meta, size_t n_meta,
                       struct cli_under under)
{
    const char *at = cli_meta_value(meta, n_meta, CLI_UNDER);
    char *end;

    for (; at && *at != '\0'; at = end) {
        under.token = strtoll(at, &end, 10);
        if (end == at) {
            return;
        }
        self->unders =
            cli_must(reallocarray(self->unders, self->n_unders + 1, sizeof *self->unders));
        self->unders[self->n_unders++] = under;
    }
}

static void add_lock(struct cli_waits *self, const rql_lock_info *lock)
{
    if (lock->status == RQL_KEY_ALIVE) {
        self->locks[self->n_locks++] = lock;
        add_unders(self, lock->meta, lock->n_meta, (struct cli_under){.lock = lock});
    }
}

static void add_requests(struct cli_waits *self, const rql_queue_info *queue)
{
    for (size_t i = 0; i < queue->n_requests; i++) {
        const rql_request_info *request = queue->requests[i];
        const struct cli_waiter waiter = {.queue = queue, .request = request};

        self->waiters[self->n_waiters++] = waiter;
        add_unders(self, request->meta, request->n_meta, (struct cli_under){.wait = waiter});
    }
}

static void sort(void *items, size_t count, size_t size, int (*compare)(const void *, const void *))
{
    if (count > 1) {
        qsort(items, count, size, compare);
    }
}

/* ---- the waits of a reading ---- */

static const rql_lock_info *find_lock(const struct cli_waits *self, const char *name)
{
    const rql_lock_info wanted = {.name = name};
    const rql_lock_info *key = &wanted;
    const rql_lock_info **found =
        bsearch(&key, self->locks, self->n_locks, sizeof(void *), compare_locks);

    return found ? *found : NULL;
}

static const struct cli_waiter *find_waiter(const struct cli_waits *self, const char *acquirer_id)
{
    const rql_request_info wanted = {.acquirer_id = acquirer_id};
    const struct cli_waiter key = {.request = &wanted};

    return bsearch(&key, self->waiters, self->n_waiters, sizeof *self->waiters, compare_waiters);
}

/* Returns the acquirer that has the lock to itself, or NULL. */
static const char *owner_of(const rql_lock_info *lock)
{
    return lock->is_kept || cli_is_of_several(lock) ? NULL : lock->acquirer_id;
}

/* Returns the first one of this token, or NULL. */
static const struct cli_under *find_under(const struct cli_waits *self, int64_t token)
{
    size_t low = 0;
    size_t high = self->n_unders;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;

        if (self->unders[middle].token < token) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < self->n_unders && self->unders[low].token == token ? &self->unders[low] : NULL;
}

/* Returns the request for which the holder of the lock waits: its own, or that of a run inside of
 * it. */
static const struct cli_waiter *wait_of(const struct cli_waits *self, const rql_lock_info *lock)
{
    const char *owner = owner_of(lock);
    const struct cli_waiter *own = owner ? find_waiter(self, owner) : NULL;
    const struct cli_under *under =
        !own && owner && lock->token > 0 ? find_under(self, lock->token) : NULL;

    return under && under->wait.queue ? &under->wait : own;
}

/* Gives the first one of each token the wait of any. Returns whether a wait was found that was not
 * known before. */
static bool find_waits_inside(struct cli_waits *self)
{
    struct cli_under *first = self->unders;
    bool is_new = false;

    for (size_t i = 0; i < self->n_unders; i++) {
        struct cli_under *under = &self->unders[i];
        const struct cli_waiter *wait = under->lock ? wait_of(self, under->lock) : &under->wait;

        first = under->token == first->token ? first : under;
        if (!first->wait.queue && wait) {
            first->wait = *wait;
            is_new = true;
        }
    }
    return is_new;
}

void cli_waits_init(struct cli_waits *self, const rql_lock_info_list *locks,
                    const rql_queue_info_list *queues)
{
    size_t n_requests = 0;
    int depth = 0;

    for (size_t i = 0; i < queues->count; i++) {
        n_requests += queues->item[i]->n_requests;
    }
    *self = (struct cli_waits){
        .locks = cli_must(calloc(locks->count + 1, sizeof(void *))),
        .waiters = cli_must(calloc(n_requests + 1, sizeof *self->waiters)),
    };
    for (size_t i = 0; i < locks->count; i++) {
        add_lock(self, locks->item[i]);
    }
    for (size_t i = 0; i < queues->count; i++) {
        add_requests(self, queues->item[i]);
    }
    sort(self->locks, self->n_locks, sizeof(void *), compare_locks);
    sort(self->waiters, self->n_waiters, sizeof *self->waiters, compare_waiters);
    sort(self->unders, self->n_unders, sizeof *self->unders, compare_unders);
    /* Any client can write which runs are inside of each other. A pass takes time in proportion to
     * what was read, so no client can make this slow. */
    while (find_waits_inside(self) && ++depth < DEPTH_MAX) {
    }
}

void cli_waits_free_p(struct cli_waits *self)
{
    free(self->locks);
    free(self->waiters);
    free(self->unders);
    *self = (struct cli_waits){.n_locks = 0};
}

rql_status cli_wait_reading_read(struct cli_wait_reading *self, rql_client *client,
                                 rql_error *error)
{
    rql_status status = rql_queues_inspect(client, &self->queues, error);

    status = status == RQL_OK ? rql_locks_inspect(client, &self->locks, error) : status;
    if (status == RQL_OK) {
        cli_waits_init(&self->waits, self->locks, self->queues);
    }
    return status;
}

void cli_wait_reading_free_p(struct cli_wait_reading *self)
{
    cli_waits_free_p(&self->waits);
    (void)rql_free(self->locks);
    (void)rql_free(self->queues);
}

/* ---- two readings ---- */

/* Returns the request for which the holder of this lock has waited since the earlier reading. */
static const struct cli_waiter *lasting_wait_of(const struct cli_waits *now,
                                                const struct cli_waits *before,
                                                const rql_lock_info *lock)
{
    const struct cli_waiter *wait = wait_of(now, lock);
    const rql_lock_info *old_lock = wait ? find_lock(before, lock->name) : NULL;
    const struct cli_waiter *old = old_lock ? wait_of(before, old_lock) : NULL;

    return old && old_lock->token == lock->token &&
                   strcmp(old_lock->acquirer_id, lock->acquirer_id) == 0 &&
                   old->request->score_us == wait->request->score_us &&
                   strcmp(old->queue->name, wait->queue->name) == 0
               ? wait
               : NULL;
}

/* ---- the words ---- */

static void say_next(FILE *out, const struct cli_names *names, const char *name,
                     const rql_lock_info *lock)
{
    char holder[CLI_NAME_SIZE];
    char held[CLI_DURATION_SIZE];

    (void)fprintf(out, ", which waits for %s", name);
    if (!lock) {
        return;
    }
    if (lock->is_kept) {
        (void)fputs(", kept after its release", out);
    } else {
        (void)fprintf(out, ", held for %s by %s",
                      cli_format_duration(cli_age_ms(lock->acquired_at_us, lock->server_us), held),
                      cli_lock_holder(names, lock, holder));
    }
}

static bool is_among(const rql_lock_info *const *locks, int count, const rql_lock_info *lock)
{
    for (int i = 0; i < count; i++) {
        if (locks[i] == lock) {
            return true;
        }
    }
    return false;
}

/* Follows the chain that begins with this wait. Returns whether it leads into a circle. */
static bool say_chain(FILE *out, const struct cli_waits *now, const struct cli_waits *before,
                      const struct cli_names *names, const rql_lock_info *lock)
{
    const rql_lock_info *chain[CHAIN_MAX];
    const struct cli_waiter *wait;
    char holder[CLI_NAME_SIZE];

    (void)fprintf(out, "waits behind %s", cli_lock_holder(names, lock, holder));
    for (int i = 0; i < CHAIN_MAX && lock && (wait = lasting_wait_of(now, before, lock)) != NULL;
         i++) {
        chain[i] = lock;
        lock = find_lock(now, wait->queue->name);
        if (lock && is_among(chain, i + 1, lock)) {
            (void)fprintf(out, ", which waits for %s: a circle, in which no wait ends", lock->name);
            return true;
        }
        say_next(out, names, wait->queue->name, lock);
    }
    return false;
}

struct cli_convoy cli_convoy_find(const struct cli_waits *now, const struct cli_waits *before,
                                  const struct cli_names *names, const char *name)
{
    const rql_lock_info *lock = before ? find_lock(now, name) : NULL;
    struct cli_convoy self = {.text = NULL};
    size_t size = 0;
    FILE *out;

    if (!lock || !lasting_wait_of(now, before, lock)) {
        return self;
    }
    out = cli_must(open_memstream(&self.text, &size));
    self.is_circle = say_chain(out, now, before, names, lock);
    (void)cli_must(fclose(out) == 0 ? self.text : NULL);
    return self;
}
