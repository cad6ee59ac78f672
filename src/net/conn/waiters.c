/*
 * There are three tables, because a push names a nonce, a change names a lock, and an acquirer may
 * wait for a lock only once. The waiters for one lock form two rings, of those that share it and of
 * those that want it alone. A ring begins with the oldest, the leader; only leaders are in the
 * table by lock.
 */

#include "net/conn/waiters.h"

/* Lock names come from anywhere. The seed is our address in memory, so that an attacker cannot make
 * long chains on purpose. */
static uint64_t hash_lock(const struct rqli_waiters *self, struct rqli_slice lock_key)
{
    return rqli_hash_bytes((uint64_t)(uintptr_t)self, lock_key);
}

/* Nonces are random: half of the digits is hash enough. */
static uint64_t hash_digits(const char *digits)
{
    return rqli_hash_bytes(0, (struct rqli_slice){digits, RQLI_HEX_SIZE / 2});
}

/* ---- joining and leaving ---- */

static bool is_same(struct rqli_slice a, struct rqli_slice b)
{
    /* The key of a series is empty: NULL, with no length. */
    return a.length == b.length && (a.length == 0 || memcmp(a.data, b.data, a.length) == 0);
}

static bool is_in_ring(struct rqli_hash_entry *entry, struct rqli_slice lock_key, bool shares)
{
    const struct rqli_waiter *leader = RQLI_OWNER(entry, struct rqli_waiter, by_lock);

    return leader->shares == shares && is_same(leader->lock_key, lock_key);
}

/* Returns the oldest waiter for a lock, of one kind. The empty key stands for the waiters for
 * several locks. */
static struct rqli_waiter *leader_of(const struct rqli_waiters *self, struct rqli_slice lock_key,
                                     bool shares)
{
    struct rqli_hash_entry *entry = rqli_hash_map_find(&self->by_lock, hash_lock(self, lock_key));

    while (entry && !is_in_ring(entry, lock_key, shares)) {
        entry = rqli_hash_map_next(entry);
    }
    return entry ? RQLI_OWNER(entry, struct rqli_waiter, by_lock) : NULL;
}

static struct rqli_waiter *waiter_of(const struct rqli_waiters *self, const char *digits)
{
    struct rqli_hash_entry *entry = rqli_hash_map_find(&self->by_digits, hash_digits(digits));

    while (entry && memcmp(RQLI_OWNER(entry, struct rqli_waiter_nonce, by_digits)->digits, digits,
                           RQLI_HEX_SIZE - 1) != 0) {
        entry = rqli_hash_map_next(entry);
    }
    return entry ? RQLI_OWNER(entry, struct rqli_waiter_nonce, by_digits)->waiter : NULL;
}

/* A thread cannot wait twice; but a task of it, or a loop, could, and would wait for itself. */
static bool waits_already(const struct rqli_waiters *self, const char *acquirer,
                          const struct rqli_waiter_nonce *nonce)
{
    struct rqli_hash_entry *entry = rqli_hash_map_find(&self->by_acquirer, nonce->by_acquirer.hash);

    for (; entry; entry = rqli_hash_map_next(entry)) {
        const struct rqli_waiter_nonce *other =
            RQLI_OWNER(entry, struct rqli_waiter_nonce, by_acquirer);

        if (strcmp(other->waiter->acquirer, acquirer) == 0 &&
            is_same(other->lock_key, nonce->lock_key)) {
            return true;
        }
    }
    return false;
}

/* Any seed will do except that of the nonces. */
uint64_t rqli_waiter_hash(struct rqli_slice acquirer)
{
    return acquirer.length > 0 ? rqli_hash_bytes(1, acquirer) | 1 : 0;
}

void rqli_waiters_fini(struct rqli_waiters *self)
{
    rqli_hash_map_fini(&self->by_lock);
    rqli_hash_map_fini(&self->by_digits);
    rqli_hash_map_fini(&self->by_acquirer);
}

/* Adds the waiter behind the others for its lock. The ring begins with the leader, so its end is
 * directly in front of the leader. */
static void enter_bucket(struct rqli_waiters *self, struct rqli_waiter *waiter, uint64_t hash)
{
    struct rqli_waiter *leader = leader_of(self, waiter->lock_key, waiter->shares);

    waiter->is_first = !leader;
    if (leader) {
        if (!waiter->keeps_conn && !leader->keeps_conn) {
            waiter->conn = leader->conn;
        }
        waiter->ring_next = leader;
        waiter->ring_previous = leader->ring_previous;
        leader->ring_previous->ring_next = waiter;
        leader->ring_previous = waiter;
    } else {
        waiter->ring_next = waiter;
        waiter->ring_previous = waiter;
        rqli_hash_map_add(&self->by_lock, &waiter->by_lock, hash);
    }
}

/* Checks all nonces before it enters the first, so that a refusal leaves nothing to undo. `hash` is
 * that of the last lock; a waiter with a lock_key has only one nonce, for that lock. */
rql_status rqli_waiters_join(struct rqli_waiters *self, struct rqli_waiter *waiter)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < waiter->n_nonces; i++) {
        struct rqli_waiter_nonce *nonce = &waiter->nonces[i];

        hash = hash_lock(self, nonce->lock_key);
        nonce->by_acquirer.hash = rqli_hash_bytes(hash, rqli_slice_of(waiter->acquirer));
        if (waits_already(self, waiter->acquirer, nonce)) {
            return RQL_E_BUSY;
        }
    }
    for (size_t i = 0; i < waiter->n_nonces; i++) {
        struct rqli_waiter_nonce *nonce = &waiter->nonces[i];

        nonce->waiter = waiter;
        rqli_hash_map_add(&self->by_digits, &nonce->by_digits, hash_digits(nonce->digits));
        rqli_hash_map_add(&self->by_acquirer, &nonce->by_acquirer, nonce->by_acquirer.hash);
    }
    enter_bucket(self, waiter,
                 waiter->lock_key.length > 0 ? hash : hash_lock(self, waiter->lock_key));
    rqli_dlist_add(&self->all, &waiter->link);
    waiter->stay = RQLI_WAITER_ASKS;
    return RQL_OK;
}

/* The next waiter in the ring takes a leader's place in the table. Waiters for several locks lead
 * in any case, so nothing changes for the next one there. */
struct rqli_waiter *rqli_waiters_leave(struct rqli_waiters *self, struct rqli_waiter *waiter)
{
    struct rqli_waiter *leader = NULL;

    waiter->stay = RQLI_WAITER_AWAY;
    waiter->watches = false; /* later changes are not recorded for it */
    for (size_t i = 0; i < waiter->n_nonces; i++) {
        rqli_hash_map_remove(&self->by_digits, &waiter->nonces[i].by_digits);
        rqli_hash_map_remove(&self->by_acquirer, &waiter->nonces[i].by_acquirer);
    }
    if (waiter->is_first) {
        rqli_hash_map_remove(&self->by_lock, &waiter->by_lock);
        leader = waiter->ring_next != waiter ? waiter->ring_next : NULL;
    }
    if (leader) {
        leader->is_first = true;
        leader->succeeds = waiter->lock_key.length > 0;
        rqli_hash_map_add(&self->by_lock, &leader->by_lock, waiter->by_lock.hash);
    }
    /* A ring has no end. NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    waiter->ring_next->ring_previous = waiter->ring_previous;
    waiter->ring_previous->ring_next = waiter->ring_next;
    rqli_dlist_remove(&self->all, &waiter->link);
    return waiter->lock_key.length > 0 ? leader : NULL;
}

/* Returns the next waiter in its bucket, or NULL. */
static struct rqli_waiter *after(const struct rqli_waiter *waiter)
{
    return waiter->ring_next->is_first ? NULL : waiter->ring_next;
}

/* ---- pushes and hints ---- */

/* A watch ends with the first hint: it is used up, or its connection may be gone. */
static void hint(struct rqli_waiters *self, struct rqli_waiter *waiter)
{
    waiter->watches = false;
    waiter->hinted = true;
    self->rouse(self, waiter);
}

/* A hinted waiter may leave during the call, but no other one does: see rqli_waiters::rouse. No
 * watch is left, because a waiter that becomes the leader begins its own. */
static void hint_each(struct rqli_waiters *self, const struct rqli_key_set *set, bool only_leaders)
{
    struct rqli_waiter *waiter = rqli_waiters_first(self);

    while (waiter) {
        struct rqli_waiter *next = rqli_waiter_next(waiter);

        waiter->watches = false;
        if ((!set || waiter->set == set) && (!only_leaders || rqli_waiter_leads(waiter))) {
            hint(self, waiter);
        }
        waiter = next;
    }
}

void rqli_waiters_hint_all(struct rqli_waiters *self, const struct rqli_key_set *set)
{
    hint_each(self, set, false);
}

void rqli_waiters_hint_leaders(struct rqli_waiters *self, const struct rqli_key_set *set)
{
    hint_each(self, set, true);
}

void rqli_waiters_hint_successors(struct rqli_waiters *self)
{
    struct rqli_waiter *waiter = rqli_waiters_first(self);

    while (waiter) {
        struct rqli_waiter *next = rqli_waiter_next(waiter);

        if (waiter->succeeds) {
            waiter->succeeds = false;
            hint(self, waiter);
        }
        waiter = next;
    }
}

void rqli_waiters_hint_others(struct rqli_waiters *self, const struct rqli_waiter *waiter)
{
    bool are_all = waiter->lock_key.length == 0;
    struct rqli_waiter *other =
        are_all ? rqli_waiters_first(self) : leader_of(self, waiter->lock_key, waiter->shares);

    /* The leader does this once for all, instead of each waiter for all others. */
    if (!rqli_waiter_leads(waiter)) {
        return;
    }
    while (other) {
        struct rqli_waiter *next = are_all ? rqli_waiter_next(other) : after(other);

        if (other != waiter) {
            hint(self, other);
        }
        other = next;
    }
}

/* Hints the watchers of one lock, of one kind, or, for the empty key, those that wait for several.
 */
static void hint_watchers(struct rqli_waiters *self, struct rqli_slice lock_key, bool shares)
{
    struct rqli_waiter *waiter = leader_of(self, lock_key, shares);

    while (waiter) {
        struct rqli_waiter *next = after(waiter);

        if (waiter->watches) {
            hint(self, waiter);
        }
        waiter = next;
    }
}

void rqli_waiters_deliver(struct rqli_waiters *self, const struct rqli_pushed *pushed,
                          int64_t received_us)
{
    struct rqli_waiter *waiter = NULL;

    if (pushed->kind == RQLI_PUSHED_CHANGE && pushed->lock_key.data) {
        hint_watchers(self, pushed->lock_key, false);
        hint_watchers(self, pushed->lock_key, true);
        hint_watchers(self, (struct rqli_slice){0}, false);
    } else if (pushed->kind == RQLI_PUSHED_CHANGE) {
        rqli_waiters_hint_leaders(self, NULL); /* all keys may have changed */
    } else if (pushed->kind == RQLI_PUSHED_GRANT || pushed->kind == RQLI_PUSHED_HINT) {
        waiter = waiter_of(self, pushed->nonce);
    }
    /* A hint without a waiter came too late, which is no loss. A grant without a waiter was the
     * answer to a poll before its push came, or its request was withdrawn: either way leave.lua and
     * the poll know better than the push. */
    if (!waiter) {
        return;
    }
    if (pushed->kind == RQLI_PUSHED_GRANT &&
        (waiter->stay == RQLI_WAITER_CHOSEN || waiter->handed)) {
        return; /* the reply to its transfer decides, and ends this grant */
    }
    if (pushed->kind == RQLI_PUSHED_HINT) {
        /* Not hint(): this says nothing about a watched key, so the watch continues. */
        waiter->hinted = true;
    } else {
        waiter->push = pushed->push;
        waiter->push.received_us = received_us;
        waiter->pushed = true;
    }
    self->rouse(self, waiter);
}

/* ---- hand-overs inside the client ---- */

/* How many of the longest waiting are examined. */
enum { CHOOSE_AMONG = 8 };

static bool may_be_chosen(const struct rqli_waiter *waiter, uint64_t in_front)
{
    return waiter->stay == RQLI_WAITER_SLEEPS && waiter->may_be_handed &&
           waiter->in_front == in_front && !waiter->pushed && !waiter->hinted && !waiter->handed;
}

struct rqli_waiter *rqli_waiters_choose(struct rqli_waiters *self, struct rqli_slice lock_key,
                                        uint64_t in_front)
{
    struct rqli_waiter *waiter = leader_of(self, lock_key, false);

    for (int n = 1; waiter && n < CHOOSE_AMONG && !may_be_chosen(waiter, in_front); n++) {
        waiter = after(waiter);
    }
    if (!waiter || !may_be_chosen(waiter, in_front)) {
        return NULL;
    }
    waiter->stay = RQLI_WAITER_CHOSEN;
    return waiter;
}

void rqli_waiters_hand_over(struct rqli_waiters *self, struct rqli_waiter *chosen,
                            struct rqli_transfer *transfer)
{
    chosen->stay = RQLI_WAITER_SLEEPS;
    if (transfer) {
        chosen->handed = transfer;
        chosen->pushed = true;
        self->rouse(self, chosen);
    } else {
        hint(self, chosen);
    }
}
