#ifndef RQLI_INFOS_H
#define RQLI_INFOS_H

/* Results of rqli_result_new() whose number is not known, until they become one list of the caller.
 * Each kind of list begins with its `count` and `item`. A zeroed one is empty. */

#include <stdbool.h>
#include <stddef.h>

struct rqli_infos {
    size_t count;
    void **item;
    bool failed; /* out of memory: some are missing */
};

/* Takes an info over; NULL: there was no memory for it. */
void rqli_infos_add(struct rqli_infos *self, void *info);

/* Compares two items, for qsort(). */
typedef int rqli_infos_fn(const void *a, const void *b);

/* Makes a list of this size, which owns the infos, and empties `self`. It is sorted by `order`, and
 * of neighbours that are the same it has the first. NULL: no memory. */
void *rqli_infos_give(struct rqli_infos *self, size_t list_size, rqli_infos_fn *order,
                      rqli_infos_fn *same);

void rqli_infos_fini_p(struct rqli_infos *self);

#endif
