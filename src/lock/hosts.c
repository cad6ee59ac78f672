#include "lock/hosts.h"

#include <stdlib.h>
#include <string.h>

/*
 * Threads sorted by number. A probe takes a plan under the mutex, asks the server without it, and
 * applies the result under the mutex again; in between threads may come and go, so the plan is only
 * of numbers. A number that was met since the plan may belong to a new thread, and is not removed.
 */

struct rqli_hosts *rqli_hosts_new(void)
{
    struct rqli_hosts *self = calloc(1, sizeof *self);

    if (self) {
        (void)pthread_mutex_init(&self->shared.mutex, NULL);
    }
    return self;
}

struct rqli_hosts *rqli_hosts_free(struct rqli_hosts *self)
{
    if (self) {
        free(self->shared.item);
        (void)pthread_mutex_destroy(&self->shared.mutex);
        free(self);
    }
    return NULL;
}

/* Under the mutex. Where the thread is, or belongs. */
static size_t place_of(const struct rqli_hosts *self, pid_t thread)
{
    size_t low = 0;
    size_t high = self->shared.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (self->shared.item[middle].thread < thread) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Under the mutex. */
static struct rqli_host *find(const struct rqli_hosts *self, pid_t thread)
{
    size_t at = place_of(self, thread);

    return at < self->shared.count && self->shared.item[at].thread == thread
               ? &self->shared.item[at]
               : NULL;
}

/* Under the mutex. */
static bool make_room(struct rqli_hosts *self)
{
    size_t capacity = self->shared.capacity > 0 ? 2 * self->shared.capacity : 16;
    struct rqli_host *item;

    if (self->shared.count < self->shared.capacity) {
        return true;
    }
    item = realloc(self->shared.item, capacity * sizeof *item);
    if (item) {
        self->shared.item = item;
        self->shared.capacity = capacity;
    }
    return item != NULL;
}

/* Under the mutex. Without memory it comes in at its next use. on_new rouses who sends
 * heartbeats: a host of which the server has never heard is never found dead. */
static void insert(struct rqli_hosts *self, pid_t thread, bool holds)
{
    size_t at = place_of(self, thread);

    if (!make_room(self)) {
        return;
    }
    memmove(self->shared.item + at + 1, self->shared.item + at,
            (self->shared.count - at) * sizeof *self->shared.item);
    self->shared.item[at] = (struct rqli_host){.thread = thread, .holds = holds};
    self->shared.count++;
    if (self->shared.on_new) {
        self->shared.on_new(self->shared.context);
    }
}

/* By the prober for each holder of a lock, too: a thread may have ended while another still holds
 * for it. */
void rqli_hosts_add(struct rqli_hosts *self, pid_t thread, bool holds)
{
    struct rqli_host *host;

    (void)pthread_mutex_lock(&self->shared.mutex);
    host = find(self, thread);
    if (host) {
        host->holds = host->holds || holds;
        host->was_met = true;
    } else {
        insert(self, thread, holds);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* On the way of every acquisition: without a swarm it costs one load. */
void rqli_hosts_meet(struct rqli_hosts *self, pid_t thread)
{
    if (atomic_load_explicit(&self->is_open, memory_order_relaxed)) {
        rqli_hosts_add(self, thread, false);
    }
}

/* A thread that does not see yet that it is open comes in with its next acquisition. */
void rqli_hosts_open(struct rqli_hosts *self, void (*on_new)(void *context), void *context)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.on_new = on_new;
    self->shared.context = context;
    atomic_store(&self->is_open, true);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Afterwards on_new neither runs nor comes: it is called under the mutex only. The hosts stay, so
 * that a last plan can say that they leave. */
void rqli_hosts_close(struct rqli_hosts *self)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.on_new = NULL;
    atomic_store(&self->is_open, false);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* `lives` asks the system whether the thread is still there. */
static bool stays(const struct rqli_host *host, enum rqli_hosts_who who, bool (*lives)(pid_t))
{
    if (who == RQLI_HOSTS_NONE) {
        return false;
    }
    return host->holds || (who != RQLI_HOSTS_HOLDERS && lives(host->thread));
}

/* Under the mutex. Those that end before anybody knew them are forgotten. */
static void forget_unknown(struct rqli_hosts *self, enum rqli_hosts_who who, bool (*lives)(pid_t))
{
    size_t kept = 0;

    for (size_t i = 0; i < self->shared.count; i++) {
        struct rqli_host host = self->shared.item[i];

        if (host.is_known || stays(&host, who, lives)) {
            self->shared.item[kept++] = host;
        }
    }
    self->shared.count = kept;
}

/* What a plan says of a host. NEW: no plan with it has been confirmed. It stays in any case, for
 * forget_unknown() has dropped those that do not. */
enum kind { NEW, KNOWN, LEAVING };

static enum kind kind_of(const struct rqli_host *host, enum rqli_hosts_who who,
                         bool (*lives)(pid_t))
{
    if (!host->is_known) {
        return NEW;
    }
    return stays(host, who, lives) ? KNOWN : LEAVING;
}

/* Under the mutex. Ends as many as `of` kind there are behind the others; each asked once. */
static size_t gather(const struct rqli_hosts *self, const unsigned char *kinds, enum kind of,
                     pid_t *out)
{
    size_t n = 0;

    for (size_t i = 0; i < self->shared.count; i++) {
        if (kinds[i] == of) {
            out[n++] = self->shared.item[i].thread;
        }
    }
    return n;
}

/* Under the mutex. */
static void fill(struct rqli_hosts *self, const unsigned char *kinds, enum rqli_hosts_who who,
                 struct rqli_hosts_plan *out)
{
    out->n_new = gather(self, kinds, NEW, out->threads);
    if (who != RQLI_HOSTS_NEW) {
        out->n_known = gather(self, kinds, KNOWN, out->threads + out->n_new);
        out->n_leaving = gather(self, kinds, LEAVING, out->threads + out->n_new + out->n_known);
    }
}

/* Under the mutex. Returns how many of the new ones the swarm has been shown before. */
static size_t note_sent(struct rqli_hosts *self, const unsigned char *kinds)
{
    size_t n_retried = 0;

    for (size_t i = 0; i < self->shared.count; i++) {
        if (kinds[i] == NEW) {
            n_retried += self->shared.item[i].was_sent;
            self->shared.item[i].was_sent = true;
        }
    }
    return n_retried;
}

/* `holds` and `was_met` are counted anew for the next plan. A known one is judged once, for its
 * thread may end in between. Room for one more than there are: with no host calloc() may return
 * NULL, which is no lack of memory. */
bool rqli_hosts_plan(struct rqli_hosts *self, enum rqli_hosts_who who, bool (*lives)(pid_t thread),
                     struct rqli_hosts_plan *out)
{
    unsigned char *kinds;

    *out = (struct rqli_hosts_plan){0};
    (void)pthread_mutex_lock(&self->shared.mutex);
    forget_unknown(self, who, lives);
    out->threads = calloc(self->shared.count + 1, sizeof *out->threads);
    kinds = calloc(self->shared.count + 1, 1);
    for (size_t i = 0; kinds && i < self->shared.count; i++) {
        kinds[i] = (unsigned char)kind_of(&self->shared.item[i], who, lives);
        self->shared.item[i].holds = false;
        self->shared.item[i].was_met = false;
    }
    if (kinds && out->threads) {
        fill(self, kinds, who, out);
        out->n_retried = note_sent(self, kinds);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    free(kinds);
    return kinds && out->threads;
}

void rqli_hosts_plan_fini_p(struct rqli_hosts_plan *plan)
{
    free(plan->threads);
}

/* Under the mutex. The server has dropped the host: one that was met meanwhile is new to it. */
static void remove_one(struct rqli_hosts *self, pid_t thread)
{
    struct rqli_host *host = find(self, thread);
    size_t at;

    if (host && host->was_met) {
        host->is_known = false;
        host->was_sent = false;
    } else if (host) {
        at = (size_t)(host - self->shared.item);
        self->shared.count--;
        memmove(host, host + 1, (self->shared.count - at) * sizeof *host);
    }
}

/* The server has confirmed: the new ones are known, those that leave are gone there. */
void rqli_hosts_apply(struct rqli_hosts *self, const struct rqli_hosts_plan *plan)
{
    size_t n_staying = plan->n_new + plan->n_known;

    (void)pthread_mutex_lock(&self->shared.mutex);
    for (size_t i = 0; i < n_staying; i++) {
        struct rqli_host *host = find(self, plan->threads[i]);

        if (host) {
            host->is_known = true;
        }
    }
    for (size_t i = n_staying; i < n_staying + plan->n_leaving; i++) {
        remove_one(self, plan->threads[i]);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

size_t rqli_hosts_known(struct rqli_hosts *self)
{
    size_t known = 0;

    (void)pthread_mutex_lock(&self->shared.mutex);
    for (size_t i = 0; i < self->shared.count; i++) {
        known += self->shared.item[i].is_known;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return known;
}

size_t rqli_hosts_count(struct rqli_hosts *self)
{
    size_t count;

    (void)pthread_mutex_lock(&self->shared.mutex);
    count = self->shared.count;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return count;
}
