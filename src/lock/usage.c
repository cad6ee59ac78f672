#include "lock/usage.h"

#include "base/must.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sum {
    struct rqli_hash_entry entry; /* while it waits */
    struct rqli_dlink link;
    int64_t day;
    struct rqli_use use;
    char field[];
};

static struct sum *sum_of(struct rqli_dlink *link)
{
    return RQLI_OWNER(link, struct sum, link);
}

static uint64_t hash_of(int64_t day, const char *field)
{
    return rqli_hash_bytes((uint64_t)day, rqli_slice_of(field));
}

static struct sum *find(const struct rqli_usage *self, int64_t day, const char *field)
{
    struct rqli_hash_entry *at = rqli_hash_map_find(&self->by_field, hash_of(day, field));

    for (; at; at = rqli_hash_map_next(at)) {
        struct sum *sum = RQLI_OWNER(at, struct sum, entry);

        if (sum->day == day && strcmp(sum->field, field) == 0) {
            return sum;
        }
    }
    return NULL;
}

/* A sum begins to wait. */
static void queue(struct rqli_usage *self, struct sum *sum)
{
    rqli_hash_map_add(&self->by_field, &sum->entry, hash_of(sum->day, sum->field));
    rqli_dlist_add(&self->waiting, &sum->link);
    self->n_waiting++;
}

static struct sum *begin(struct rqli_usage *self, int64_t day, const char *field)
{
    const size_t size = strlen(field) + 1;
    struct sum *sum = malloc(sizeof *sum + size);

    if (sum) {
        *sum = (struct sum){.day = day};
        memcpy(sum->field, field, size);
        queue(self, sum);
    }
    return sum;
}

bool rqli_usage_add(struct rqli_usage *self, int64_t day, const char *field,
                    const struct rqli_use *use)
{
    struct sum *sum = find(self, day, field);

    if (!sum && self->n_waiting >= RQLI_USAGE_MAX) {
        field = RQLI_USAGE_OTHER;
        sum = find(self, day, field);
    }
    if (!sum) {
        sum = begin(self, day, field);
    }
    if (!sum) {
        return false;
    }
    sum->use.holds += use->holds;
    sum->use.held_us += use->held_us;
    sum->use.waited_us += use->waited_us;
    sum->use.lost += use->lost;
    return true;
}

static void forget(struct rqli_usage *self, struct sum *sum)
{
    rqli_hash_map_remove(&self->by_field, &sum->entry);
    self->n_waiting--;
}

static size_t write_sum(const struct sum *sum, char *out)
{
    const struct rqli_use *use = &sum->use;
    const int length = snprintf(
        out, RQLI_USAGE_SUM_SIZE, "%zu %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %s",
        strlen(sum->field), use->holds, use->held_us, use->waited_us, use->lost, sum->field);

    RQLI_MUST(length < RQLI_USAGE_SUM_SIZE);
    return (size_t)length;
}

size_t rqli_usage_write(struct rqli_usage *self, char *text, size_t size, int64_t *day_out)
{
    struct rqli_dlink *at = self->waiting.first;
    size_t length = 0;

    RQLI_MUST(at && !self->sent.first);
    *day_out = sum_of(at)->day;
    while (at && length + RQLI_USAGE_SUM_SIZE <= size) {
        struct sum *sum = sum_of(at);

        at = at->next;
        if (sum->day == *day_out) {
            length += write_sum(sum, text + length);
            forget(self, sum);
            rqli_dlist_remove(&self->waiting, &sum->link);
            rqli_dlist_add(&self->sent, &sum->link);
        }
    }
    return length;
}

int64_t rqli_usage_end_sent(struct rqli_usage *self)
{
    struct rqli_dlink *link;
    int64_t n_holds = 0;

    while ((link = rqli_dlist_take_first(&self->sent)) != NULL) {
        n_holds += sum_of(link)->use.holds;
        free(sum_of(link));
    }
    return n_holds;
}

int64_t rqli_usage_take_back(struct rqli_usage *self)
{
    struct rqli_dlink *link;
    int64_t n_lost = 0;

    while ((link = rqli_dlist_take_first(&self->sent)) != NULL) {
        struct sum *sum = sum_of(link);

        if (self->n_waiting < RQLI_USAGE_MAX && !find(self, sum->day, sum->field)) {
            queue(self, sum);
            continue;
        }
        n_lost += rqli_usage_add(self, sum->day, sum->field, &sum->use) ? 0 : sum->use.holds;
        free(sum);
    }
    return n_lost;
}

int64_t rqli_usage_drop(struct rqli_usage *self)
{
    struct rqli_dlink *link;
    int64_t n_holds = rqli_usage_end_sent(self);

    while ((link = rqli_dlist_take_first(&self->waiting)) != NULL) {
        n_holds += sum_of(link)->use.holds;
        forget(self, sum_of(link));
        free(sum_of(link));
    }
    return n_holds;
}

void rqli_usage_fini(struct rqli_usage *self)
{
    (void)rqli_usage_drop(self);
    rqli_hash_map_fini(&self->by_field);
}
