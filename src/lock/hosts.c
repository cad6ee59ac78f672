#include "lock/hosts.h"

#include <stdlib.h>
#include <string.h>

/*
 * Threads sorted by set of keys and number. A probe takes a plan under the mutex, asks the server
 * without it, and applies the result under the mutex again. Threads may come and go in between, so
 * the plan holds only numbers. A thread that used the client since the plan may be a host there
 * again, and is not removed.
 *
 * With partitions, handles of locks are counted: a thread that has one asks for a lock or holds it.
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

/* Returns the index at which the thread is, or belongs. Caller holds self->shared.mutex. */
static size_t place_of(const struct rqli_hosts *self, unsigned set, uint64_t thread)
{
    size_t low = 0;
    size_t high = self->shared.count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct rqli_host *host = &self->shared.item[middle];

        if (host->set < set || (host->set == set && host->thread < thread)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Returns NULL if the thread is no host there. Caller holds self->shared.mutex. */
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

/* Returns NULL without memory; the thread is then added at its next use. Caller holds
 * self->shared.mutex. */
static struct rqli_host *insert(struct rqli_hosts *self, const struct rqli_key_set *set,
                                uint64_t thread)
{
    unsigned index = rqli_key_set_index(set);
    size_t at = place_of(self, index, thread);

    if (self->shared.count == self->shared.capacity) {
        size_t capacity = self->shared.capacity > 0 ? 2 * self->shared.capacity : 16;
        struct rqli_host *item = realloc(self->shared.item, capacity * sizeof *item);

        if (!item) {
            return NULL;
        }
        self->shared.item = item;
        self->shared.capacity = capacity;
    }
    memmove(self->shared.item + at + 1, self->shared.item + at,
            (self->shared.count - at) * sizeof *self->shared.item);
    self->shared.item[at] = (struct rqli_host){.thread = thread, .set = (unsigned char)index};
    self->shared.count++;
    return &self->shared.item[at];
}

/* Wakes the sender of heartbeats, because a host that the server has never known is never found
 * dead. Caller holds self->shared.mutex. */
static void call_for(struct rqli_hosts *self)
{
    if (self->shared.on_new) {
        self->shared.on_new(self->shared.context);
    }
}

/* Adds the host if it is new. A new host of a partition is reported with the next heartbeat, or by
 * a request for a lock that would outlive the host. It wakes no sender, because there are as many
 * of these hosts as requests for locks. Caller holds self->shared.mutex. */
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

/* The prober also calls this for each holder of a lock, because the thread that took the lock may
 * have ended while another thread still holds it. */
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

/* Every acquisition calls this. Without a swarm it costs one load. */
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

/* The host may be gone by now, with its thread. */
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

/* From here on the server may know the host. */
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
    is_new = host && host->state != RQLI_HOST_KNOWN;
    if (is_new) {
        host->state = RQLI_HOST_SENT;
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
        host->state = RQLI_HOST_KNOWN;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* A thread that does not yet see that the table is open is added at its next acquisition. */
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

/* Afterwards on_new neither runs nor is called, because it is called under the mutex only. The
 * hosts stay, so that a last plan can report that they leave. */
void rqli_hosts_close(struct rqli_hosts *self)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.on_new = NULL;
    atomic_store(&self->is_open, false);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* The part of a plan that a host is in. GONE: in none, because it ends before the server could know
 * it. */
enum share { NEW, KNOWN, LEAVING, GONE };

/* `lives` asks the system whether the thread still exists. */
static enum share share_of(const struct rqli_host *host, enum rqli_hosts_who who,
                           bool (*lives)(uint64_t))
{
    bool is_used = host->set == RQLI_WHOLE || host->n_handles > 0;
    bool stays = who != RQLI_HOSTS_NONE &&
                 (host->holds || (who != RQLI_HOSTS_HOLDERS && is_used && lives(host->thread)));

    if (stays) {
        return host->state == RQLI_HOST_KNOWN ? KNOWN : NEW;
    }
    return host->state == RQLI_HOST_NEW ? GONE : LEAVING;
}

/* Decides on each host once, because its thread may end in between, and drops those that are gone.
 * Clears `holds` and `was_met`, which are set again for the next plan. Caller holds
 * self->shared.mutex. */
static void judge(struct rqli_hosts *self, enum rqli_hosts_who who, bool (*lives)(uint64_t))
{
    size_t kept = 0;

    for (size_t i = 0; i < self->shared.count; i++) {
        struct rqli_host host = self->shared.item[i];

        host.share = (unsigned char)share_of(&host, who, lives);
        if (host.share != GONE) {
            host.holds = false;
            host.was_met = false;
            self->shared.item[kept++] = host;
        }
    }
    self->shared.count = kept;
}

/* Stores the threads with this share, and returns their number. Caller holds the mutex of the
 * hosts. */
static size_t gather(const struct rqli_host *hosts, size_t count, enum share share, uint64_t *out)
{
    size_t n = 0;

    for (size_t i = 0; i < count; i++) {
        if (hosts[i].share == share) {
            out[n++] = hosts[i].thread;
        }
    }
    return n;
}

/* Plans the hosts of one set of keys. Marks the new ones as sent, so that a repeated probe knows
 * that the server may have seen them. Caller holds the mutex of the hosts. */
static struct rqli_hosts_group plan_group(struct rqli_host *hosts, size_t count,
                                          enum rqli_hosts_who who, uint64_t *out)
{
    struct rqli_hosts_group group = {.set = &rqli_key_sets[hosts->set]};
    size_t n_known;

    group.n_new = gather(hosts, count, NEW, out);
    n_known = gather(hosts, count, KNOWN, out + group.n_new);
    group.tells_all = who != RQLI_HOSTS_NEW || n_known == 0;
    if (who != RQLI_HOSTS_NEW) {
        group.n_known = n_known;
        group.n_leaving = gather(hosts, count, LEAVING, out + rqli_hosts_group_stays(&group));
    }
    for (size_t i = 0; i < count; i++) {
        if (hosts[i].share == NEW) {
            group.n_retried += hosts[i].state == RQLI_HOST_SENT;
            hosts[i].state = RQLI_HOST_SENT;
        }
    }
    return group;
}

/* Caller holds self->shared.mutex. */
static void plan_groups(struct rqli_hosts *self, enum rqli_hosts_who who,
                        struct rqli_hosts_plan *out)
{
    struct rqli_host *end = self->shared.item + self->shared.count;
    size_t first = 0;
    size_t count;

    for (struct rqli_host *hosts = self->shared.item; hosts < end; hosts += count) {
        struct rqli_hosts_group *group = &out->groups[out->n_groups];

        count = 1;
        while (hosts + count < end && hosts[count].set == hosts->set) {
            count++;
        }
        *group = plan_group(hosts, count, who, out->threads + first);
        group->first = first;
        first += rqli_hosts_group_size(group);
        out->n_groups += rqli_hosts_group_size(group) > 0;
    }
}

/* Makes room for one more than there are. With no host calloc() might return NULL, which would not
 * mean lack of memory; and plan_groups() may begin a group that stays empty. */
bool rqli_hosts_plan(struct rqli_hosts *self, enum rqli_hosts_who who,
                     bool (*lives)(uint64_t thread), struct rqli_hosts_plan *out)
{
    size_t room;
    bool has_room;

    *out = (struct rqli_hosts_plan){0};
    (void)pthread_mutex_lock(&self->shared.mutex);
    room = self->shared.count + 1;
    out->threads = calloc(room, sizeof *out->threads);
    out->groups = calloc(room < RQLI_KEY_SETS ? room : RQLI_KEY_SETS, sizeof *out->groups);
    has_room = out->threads && out->groups;
    if (has_room && self->shared.count > 0) {
        judge(self, who, lives);
        plan_groups(self, who, out);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return has_room;
}

void rqli_hosts_plan_fini_p(struct rqli_hosts_plan *plan)
{
    free(plan->threads);
    free(plan->groups);
}

/* Removes a host that the server has dropped. A host that was used meanwhile is new to the server,
 * and may have a lock by now. Caller holds self->shared.mutex. */
static void remove_one(struct rqli_hosts *self, struct rqli_host *host)
{
    size_t at = (size_t)(host - self->shared.item);

    if (host->was_met) {
        host->state = RQLI_HOST_NEW;
        call_for(self);
    } else {
        self->shared.count--;
        memmove(host, host + 1, (self->shared.count - at) * sizeof *host);
    }
}

/* The server has confirmed the group: it knows the new hosts, and has dropped those that leave. */
void rqli_hosts_apply(struct rqli_hosts *self, const struct rqli_hosts_plan *plan,
                      const struct rqli_hosts_group *group)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    for (size_t i = 0; i < rqli_hosts_group_size(group); i++) {
        struct rqli_host *host = find(self, group->set, plan->threads[group->first + i]);

        if (host && i < rqli_hosts_group_stays(group)) {
            host->state = RQLI_HOST_KNOWN;
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
        are_told = are_told || self->shared.item[i].state != RQLI_HOST_NEW;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return are_told;
}

/* Returns whether the server knows this thread in an earlier set of keys, too. Caller holds
 * self->shared.mutex. */
static bool is_counted(const struct rqli_hosts *self, const struct rqli_host *host)
{
    for (unsigned set = 0; host->set != RQLI_WHOLE && set < host->set; set++) {
        const struct rqli_host *other = find(self, &rqli_key_sets[set], host->thread);

        if (other && other->state == RQLI_HOST_KNOWN) {
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

        known += host->state == RQLI_HOST_KNOWN && !is_counted(self, host);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return known;
}
