#ifndef RQLI_TIMERS_H
#define RQLI_TIMERS_H

/* What is due when, the earliest first. Room is made ahead, so that setting a time never fails and
 * never allocates. One thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rqli_due {
    int64_t at_us;
    size_t place;                        /* in the heap, from 1; 0: not due */
    void (*fire)(struct rqli_due *self); /* its time has come; it is out of the heap */
};

struct rqli_timers {
    struct rqli_due **items; /* from 1 */
    size_t count;
    size_t reserved; /* that may be set at once */
    size_t capacity;
};

/* Room for one more that may be due, and its end. False: no memory. */
bool rqli_timers_reserve(struct rqli_timers *self);
void rqli_timers_unreserve(struct rqli_timers *self, struct rqli_due *due);
void rqli_timers_fini(struct rqli_timers *self);

/* Sets or moves; RQLI_NEVER_US takes it out. */
void rqli_timers_set(struct rqli_timers *self, struct rqli_due *due, int64_t at_us);

/* RQLI_NEVER_US: nothing is due. */
int64_t rqli_timers_first_us(const struct rqli_timers *self);

/* Stays in it. NULL: nothing is due. */
struct rqli_due *rqli_timers_first(const struct rqli_timers *self);

/* Takes the first one out whose time has come, or NULL. */
struct rqli_due *rqli_timers_take_due(struct rqli_timers *self, int64_t now_us);

#endif
