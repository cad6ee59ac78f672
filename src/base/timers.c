#include "base/timers.h"

#include "base/clock.h"
#include "base/must.h"

#include <stdlib.h>

/*
 * A binary heap by time. Each item knows its place, so that any of them can be moved or removed.
 * Room is reserved when an item is registered, so setting its time later cannot fail.
 */

enum { FIRST_CAPACITY = 64 };

/* items[0] stays empty: then parent and children are at half and double the place. */
bool rqli_timers_reserve(struct rqli_timers *self)
{
    size_t capacity = self->capacity ? self->capacity * 2 : FIRST_CAPACITY;
    struct rqli_due **items;

    if (self->reserved + 1 >= self->capacity) {
        items = realloc(self->items, capacity * sizeof(struct rqli_due *));
        if (!items) {
            return false;
        }
        self->items = items;
        self->capacity = capacity;
    }
    self->reserved++;
    return true;
}

void rqli_timers_unreserve(struct rqli_timers *self, struct rqli_due *due)
{
    /* The item may still be in the heap, and its owner may free it next. */
    rqli_timers_set(self, due, RQLI_NEVER_US);
    self->reserved--;
}

void rqli_timers_fini(struct rqli_timers *self)
{
    free(self->items);
    *self = (struct rqli_timers){0};
}

/* The only function that writes to the heap, so that each item knows its place. */
static void put(struct rqli_timers *self, struct rqli_due *due, size_t place)
{
    self->items[place] = due;
    due->place = place;
}

static void sift_up(struct rqli_timers *self, struct rqli_due *due, size_t place)
{
    while (place > 1 && self->items[place / 2]->at_us > due->at_us) {
        put(self, self->items[place / 2], place);
        place /= 2;
    }
    put(self, due, place);
}

static void sift_down(struct rqli_timers *self, struct rqli_due *due, size_t place)
{
    size_t child = place * 2;

    while (child <= self->count) {
        if (child < self->count && self->items[child + 1]->at_us < self->items[child]->at_us) {
            child++;
        }
        if (self->items[child]->at_us >= due->at_us) {
            break;
        }
        put(self, self->items[child], place);
        place = child;
        child = place * 2;
    }
    put(self, due, place);
}

/* Puts the item at this place or above, else below: at most one of the two calls moves it. */
static void settle(struct rqli_timers *self, struct rqli_due *due, size_t place)
{
    sift_up(self, due, place);
    sift_down(self, due, due->place);
}

/* Removes an item; the last item fills the gap. That one comes from another branch, so it may have
 * to go either way. */
static void take_out(struct rqli_timers *self, struct rqli_due *due)
{
    size_t place = due->place;
    struct rqli_due *last = self->items[self->count--];

    due->place = 0;
    if (last != due) {
        settle(self, last, place);
    }
}

/* If more items are set than were reserved, that is a bug of ours, which would write past the
 * array. */
static size_t new_place(struct rqli_timers *self)
{
    RQLI_MUST(self->count < self->reserved);
    return ++self->count;
}

/* An item without a time is not in the heap; it only has its reserved room. */
void rqli_timers_set(struct rqli_timers *self, struct rqli_due *due, int64_t at_us)
{
    due->at_us = at_us;
    if (at_us == RQLI_NEVER_US) {
        if (due->place > 0) {
            take_out(self, due);
        }
        return;
    }
    settle(self, due, due->place > 0 ? due->place : new_place(self));
}

int64_t rqli_timers_first_us(const struct rqli_timers *self)
{
    return self->count > 0 ? self->items[1]->at_us : RQLI_NEVER_US;
}

struct rqli_due *rqli_timers_take_due(struct rqli_timers *self, int64_t now_us)
{
    struct rqli_due *first = NULL;

    if (self->count > 0 && self->items[1]->at_us <= now_us) {
        first = self->items[1];
        take_out(self, first);
    }
    return first;
}

void rqli_timers_fire(struct rqli_timers *self, int64_t now_us)
{
    struct rqli_due *due = rqli_timers_take_due(self, now_us);

    while (due) {
        due->fire(due);
        due = rqli_timers_take_due(self, now_us);
    }
}
