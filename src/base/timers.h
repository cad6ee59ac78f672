#ifndef RQLI_TIMERS_H
#define RQLI_TIMERS_H

/* Items that are due at a time, the earliest first. Room is reserved ahead, so that setting a time
 * never fails and never allocates. Used by one thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rqli_due {
    int64_t at_us;
    size_t place;                        /* in the heap, from 1; 0: not due */
    void (*fire)(struct rqli_due *self); /* called when its time has come; it is out of the heap */
};

struct rqli_timers {
    struct rqli_due **items; /* from 1 */
    size_t count;
    size_t reserved; /* items that may be set at the same time */
    size_t capacity;
};

/* Reserve room for one more item that may be due, and give it up. False: no memory. */
bool rqli_timers_reserve(struct rqli_timers *self);
void rqli_timers_unreserve(struct rqli_timers *self, struct rqli_due *due);
void rqli_timers_fini(struct rqli_timers *self);

/* Adds or moves the item; RQLI_NEVER_US removes it. */
void rqli_timers_set(struct rqli_timers *self, struct rqli_due *due, int64_t at_us);

/* Returns the time of the first item; RQLI_NEVER_US: nothing is due. */
int64_t rqli_timers_first_us(const struct rqli_timers *self);

/* Removes and returns the first item if its time has come; otherwise NULL. */
struct rqli_due *rqli_timers_take_due(struct rqli_timers *self, int64_t now_us);

/* Fires the items whose time has come, one by one: each may set or remove others. */
void rqli_timers_fire(struct rqli_timers *self, int64_t now_us);

#endif
