#include "lock/hosts.h"

#include <stdlib.h>
#include <string.h>

/*
 * Threads sorted by set of keys and number. A probe takes a plan under the mutex, asks the server
 * without it, and applies the result under the mutex again; in between threads may come and go, so
 * the plan is only of numbers. A thread that was met since the plan may be a host there once more,
 * and is not removed.
 *
 * Where there are partitions handles of locks are counted: who has one asks for a lock or holds it.
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

static bool is_before(const struct rqli_host *host, unsigned set, uint64_t thread)
{
    return host->set < set || (host->set == set && host->thread < thread);
}

/* Under the mutex. Where the thread is, or belongs. */
static size_t place_of(const struct rqli_hosts *self, unsigned set, uint64_t thread)
{
    size_t low = 0;
    size_t high = self->shared.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (is_before(&self->shared.item[middle], set, thread)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Under the mutex. */
static struct rqli_host *find(const struct rqli_hosts *self, const struct rqli_key_set *set,
                              uint64_t thread)
{
    unsigned index = rqli_key_set_index(set);
    size_t at = place_of(self, index, thread);

    return at < self->shared.count && self->shared.item[at].set == index &&
                   self->shared.item[at].thread == thread
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

/* Under the mutex. NULL: no memory; it comes in at its next use. */
static struct rqli_host *insert(struct rqli_hosts *self, const struct rqli_key_set *set,
                                uint64_t thread)
{
    unsigned index = rqli_key_set_index(set);
    size_t at = place_of(self, index, thread);

    if (!make_room(self)) {
        return NULL;
    }
    memmove(self->shared.item + at + 1, self->shared.item + at,
            (self->shared.count - at) * sizeof *self->shared.item);
    self->shared.item[at] = (struct rqli_host){.thread = thread, .set = (unsigned char)index};
    self->shared.count++;
    return &self->shared.item[at];
}

/* Under the mutex. Rouses who sends heartbeats: a host of which the server has never heard is never
 * found dead. */
static void call_for(struct rqli_hosts *self)
{
    if (self->shared.on_new) {
        self->shared.on_new(self->shared.context);
    }
}

/* Under the mutex. A host of a partition is told with the next heartbeat, or by who asks for a lock
 * that would outlive it: there are as many of those as locks are asked for. */
static struct rqli_host *enter(struct rqli_hosts *self, const struct rqli_key_set *set,
                               uint64_t thread)
{
    struct rqli_host *host = find(self, set, thread);

    if (host) {
        host->was_met = true;
        return host;
    }
    host = insert(self, set, thread);
    if (host && rqli_key_set_index(set) == RQLI_WHOLE) {
        call_for(self);
    }
    return host;
}

/* By the prober for each holder of a lock, too: a thread may have ended while another still holds
 * for it. */
void rqli_hosts_add(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread,
                    bool holds)
{
    struct rqli_host *host;

    (void)pthread_mutex_lock(&self->shared.mutex);
    host = enter(self, set, thread);
    if (host) {
        host->holds = host->holds || holds;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* On the way of every acquisition: without a swarm it costs one load. */
bool rqli_hosts_meet(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread)
{
    bool counts = rqli_key_set_index(set) != RQLI_WHOLE;
    struct rqli_host *host;

    if (!atomic_load_explicit(&self->is_open, memory_order_relaxed)) {
        return false;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    host = enter(self, set, thread);
    counts = counts && host;
    if (counts) {
        host->n_handles++;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return counts;
}

/* It may have gone by now, with its thread. */
void rqli_hosts_let_go(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread)
{
    struct rqli_host *host;

    (void)pthread_mutex_lock(&self->shared.mutex);
    host = find(self, set, thread);
    if (host && host->n_handles > 0) {
        host->n_handles--;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* From here on the server may know. */
bool rqli_hosts_must_tell(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread,
                          int64_t ttl_ms)
{
    struct rqli_host *host;
    bool is_new;

    if (rqli_key_set_index(set) == RQLI_WHOLE ||
        !atomic_load_explicit(&self->is_open, memory_order_relaxed) ||
        ttl_ms <= atomic_load_explicit(&self->zombie_ttl_ms, memory_order_relaxed)) {
        return false;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    host = find(self, set, thread);
    is_new = host && !host->is_known;
    if (is_new) {
        host->was_sent = true;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return is_new;
}

void rqli_hosts_on_told(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread)
{
    struct rqli_host *host;

    (void)pthread_mutex_lock(&self->shared.mutex);
    host = find(self, set, thread);
    if (host) {
        host->is_known = true;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* A thread that does not see yet that it is open comes in with its next acquisition. */
void rqli_hosts_open(struct rqli_hosts *self, int64_t zombie_ttl_ms, void (*on_new)(void *context),
                     void *context)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    atomic_store(&self->zombie_ttl_ms, zombie_ttl_ms);
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
static bool stays(const struct rqli_host *host, enum rqli_hosts_who who, bool (*lives)(uint64_t))
{
    if (who == RQLI_HOSTS_NONE) {
        return false;
    }
    return host->holds || (who != RQLI_HOSTS_HOLDERS &&
                           (host->set == RQLI_WHOLE || host->n_handles > 0) && lives(host->thread));
}

/* What a plan says of a host. NEW: no plan with it has been confirmed. GONE: it ends before anybody
 * could know it. */
enum kind { NEW, KNOWN, LEAVING, GONE };

static enum kind kind_of(const struct rqli_host *host, enum rqli_hosts_who who,
                         bool (*lives)(uint64_t))
{
    if (stays(host, who, lives)) {
        return host->is_known ? KNOWN : NEW;
    }
    return host->is_known || host->was_sent ? LEAVING : GONE;
}

/* Under the mutex. Each is judged once, for its thread may end in between; those that are gone are
 * forgotten. `holds` and `was_met` are counted anew for the next plan. */
static void judge(struct rqli_hosts *self, enum rqli_hosts_who who, bool (*lives)(uint64_t),
                  unsigned char *kinds)
{
    size_t kept = 0;

    for (size_t i = 0; i < self->shared.count; i++) {
        struct rqli_host host = self->shared.item[i];
        enum kind kind = kind_of(&host, who, lives);

        if (kind != GONE) {
            host.holds = false;
            host.was_met = false;
            kinds[kept] = (unsigned char)kind;
            self->shared.item[kept++] = host;
        }
    }
    self->shared.count = kept;
}

/* The hosts of one set of keys, as they were judged. */
struct judged {
    struct rqli_host *item;
    const unsigned char *kinds;
    size_t count;
};

/* Under the mutex. Ends as many as `of` kind there are. */
static size_t gather(const struct judged *self, enum kind of, uint64_t *out)
{
    size_t n = 0;

    for (size_t i = 0; i < self->count; i++) {
        if (self->kinds[i] == of) {
            out[n++] = self->item[i].thread;
        }
    }
    return n;
}

/* Under the mutex. Notes that the new ones are told: the swarm may have been shown them before. */
static struct rqli_hosts_group plan_group(const struct judged *hosts, enum rqli_hosts_who who,
                                          uint64_t *out)
{
    struct rqli_hosts_group group = {.set = &rqli_key_sets[hosts->item[0].set]};
    size_t n_known;

    group.n_new = gather(hosts, NEW, out);
    n_known = gather(hosts, KNOWN, out + group.n_new);
    group.tells_all = who != RQLI_HOSTS_NEW || n_known == 0;
    if (who != RQLI_HOSTS_NEW) {
        group.n_known = n_known;
        group.n_leaving = gather(hosts, LEAVING, out + rqli_hosts_group_stays(&group));
    }
    for (size_t i = 0; i < hosts->count; i++) {
        if (hosts->kinds[i] == NEW) {
            group.n_retried += hosts->item[i].was_sent;
            hosts->item[i].was_sent = true;
        }
    }
    return group;
}

/* Under the mutex. */
static void fill(struct rqli_hosts *self, const unsigned char *kinds, enum rqli_hosts_who who,
                 struct rqli_hosts_plan *out)
{
    const struct rqli_host *end = self->shared.item + self->shared.count;
    struct judged hosts = {.item = self->shared.item, .kinds = kinds};
    size_t first = 0;

    for (; hosts.item < end; hosts.item += hosts.count, hosts.kinds += hosts.count) {
        struct rqli_hosts_group *group = &out->groups[out->n_groups];

        hosts.count = 1;
        while (hosts.item + hosts.count < end && hosts.item[hosts.count].set == hosts.item->set) {
            hosts.count++;
        }
        *group = plan_group(&hosts, who, out->threads + first);
        group->first = first;
        first += rqli_hosts_group_size(group);
        out->n_groups += rqli_hosts_group_size(group) > 0;
    }
}

/* Room for one more than there are: with no host calloc() may return NULL, which is no lack of
 * memory; and fill() may begin a group that nobody is in. */
bool rqli_hosts_plan(struct rqli_hosts *self, enum rqli_hosts_who who,
                     bool (*lives)(uint64_t thread), struct rqli_hosts_plan *out)
{
    unsigned char *kinds;
    size_t room;

    *out = (struct rqli_hosts_plan){0};
    (void)pthread_mutex_lock(&self->shared.mutex);
    room = self->shared.count + 1;
    out->threads = calloc(room, sizeof *out->threads);
    out->groups = calloc(room < RQLI_KEY_SETS ? room : RQLI_KEY_SETS, sizeof *out->groups);
    kinds = calloc(room, 1);
    if (kinds && out->threads && out->groups && self->shared.count > 0) {
        judge(self, who, lives, kinds);
        fill(self, kinds, who, out);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    free(kinds);
    return kinds && out->threads && out->groups;
}

void rqli_hosts_plan_fini_p(struct rqli_hosts_plan *plan)
{
    free(plan->threads);
    free(plan->groups);
}

/* Under the mutex. The server has dropped the host: one that was met meanwhile is new to it, and
 * may have a lock by now. */
static void remove_one(struct rqli_hosts *self, struct rqli_host *host)
{
    size_t at = (size_t)(host - self->shared.item);

    if (host->was_met) {
        host->is_known = false;
        host->was_sent = false;
        call_for(self);
    } else {
        self->shared.count--;
        memmove(host, host + 1, (self->shared.count - at) * sizeof *host);
    }
}

/* The server has confirmed: the new ones are known, those that leave are gone there. */
void rqli_hosts_apply(struct rqli_hosts *self, const struct rqli_hosts_plan *plan,
                      const struct rqli_hosts_group *group)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    for (size_t i = 0; i < rqli_hosts_group_size(group); i++) {
        struct rqli_host *host = find(self, group->set, plan->threads[group->first + i]);

        if (host && i < rqli_hosts_group_stays(group)) {
            host->is_known = true;
        } else if (host) {
            remove_one(self, host);
        }
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

bool rqli_hosts_are_told(struct rqli_hosts *self, const struct rqli_key_set *set)
{
    bool are_told = false;

    (void)pthread_mutex_lock(&self->shared.mutex);
    for (size_t i = place_of(self, rqli_key_set_index(set), 0);
         i < self->shared.count && self->shared.item[i].set == rqli_key_set_index(set); i++) {
        are_told = are_told || self->shared.item[i].is_known || self->shared.item[i].was_sent;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return are_told;
}

/* Under the mutex. Is it known in a partition in front of its own? */
static bool is_counted(const struct rqli_hosts *self, const struct rqli_host *host)
{
    for (unsigned set = 0; host->set != RQLI_WHOLE && set < host->set; set++) {
        const struct rqli_host *other = find(self, &rqli_key_sets[set], host->thread);

        if (other && other->is_known) {
            return true;
        }
    }
    return false;
}

size_t rqli_hosts_known(struct rqli_hosts *self)
{
    size_t known = 0;

    (void)pthread_mutex_lock(&self->shared.mutex);
    for (size_t i = 0; i < self->shared.count; i++) {
        const struct rqli_host *host = &self->shared.item[i];

        known += host->is_known && !is_counted(self, host);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return known;
}
