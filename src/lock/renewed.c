#include "lock/renewed.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BUCKETS = 16 };

void rqli_renewed_fini(struct rqli_renewed *self)
{
    free(self->buckets);
    *self = (struct rqli_renewed){0};
}

/* FNV-1a. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static rql_lock **bucket_of(const struct rqli_renewed *self, const char *name, const char *acquirer)
{
    uint64_t hash = hash_text(hash_text(UINT64_C(0xcbf29ce484222325), name), acquirer);

    return &self->buckets[hash % self->n_buckets];
}

static void put(const struct rqli_renewed *self, rql_lock *lock)
{
    rql_lock **bucket = bucket_of(self, lock->name, lock->acquirer);

    lock->kept.next_renewed = *bucket;
    *bucket = lock;
}

static bool grow(struct rqli_renewed *self)
{
    struct rqli_renewed grown = {.n_buckets = self->n_buckets ? self->n_buckets * 2 : FIRST_BUCKETS,
                                 .count = self->count};

    grown.buckets = calloc(grown.n_buckets, sizeof(rql_lock *));
    if (!grown.buckets) {
        return false;
    }
    for (size_t i = 0; i < self->n_buckets; i++) {
        rql_lock *lock = self->buckets[i];

        while (lock) {
            rql_lock *next = lock->kept.next_renewed;

            put(&grown, lock);
            lock = next;
        }
    }
    free(self->buckets);
    *self = grown;
    return true;
}

bool rqli_renewed_add(struct rqli_renewed *self, rql_lock *lock)
{
    if (self->count == self->n_buckets && !grow(self)) {
        return false;
    }
    put(self, lock);
    lock->kept.is_renewed = true;
    self->count++;
    return true;
}

void rqli_renewed_remove(struct rqli_renewed *self, rql_lock *lock)
{
    rql_lock **at;

    if (!lock->kept.is_renewed) {
        return;
    }
    at = bucket_of(self, lock->name, lock->acquirer);
    while (*at != lock) {
        at = &(*at)->kept.next_renewed;
    }
    *at = lock->kept.next_renewed;
    lock->kept.is_renewed = false;
    self->count--;
}

bool rqli_renewed_has(const struct rqli_renewed *self, const char *name, const char *acquirer,
                      int64_t now_us)
{
    const rql_lock *lock = self->count > 0 ? *bucket_of(self, name, acquirer) : NULL;

    while (lock && !(lock->kept.lease.renews && strcmp(lock->name, name) == 0 &&
                     strcmp(lock->acquirer, acquirer) == 0 &&
                     rqli_lease_state(&lock->kept.lease, now_us) != RQL_GONE)) {
        lock = lock->kept.next_renewed;
    }
    return lock != NULL;
}
