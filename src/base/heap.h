#ifndef RQLI_HEAP_H
#define RQLI_HEAP_H

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

struct rqli_heap {
    struct rqli_due **items; /* from 1 */
    size_t count;
    size_t reserved; /* that may be set at once */
    size_t capacity;
};

/* Room for one more that may be due, and its end. False: no memory. */
bool rqli_heap_reserve(struct rqli_heap *self);
void rqli_heap_unreserve(struct rqli_heap *self, struct rqli_due *due);
void rqli_heap_fini(struct rqli_heap *self);

/* Sets or moves; RQLI_NEVER_US takes it out. */
void rqli_heap_set(struct rqli_heap *self, struct rqli_due *due, int64_t at_us);

/* RQLI_NEVER_US: nothing is due. */
int64_t rqli_heap_first_us(const struct rqli_heap *self);

/* Stays in it. NULL: nothing is due. */
struct rqli_due *rqli_heap_first(const struct rqli_heap *self);

/* Takes the first one out whose time has come, or NULL. */
struct rqli_due *rqli_heap_take_due(struct rqli_heap *self, int64_t now_us);

#endif
