#ifndef RQLI_USAGE_H
#define RQLI_USAGE_H

/* Sums over the holds that have ended: of each lock, and each day. They wait until they are sent,
 * and stay until the server has added them. Pure: no clock, no server, no lock. */

#include "base/dlist.h"
#include "base/hash_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sums over holds. */
struct rqli_use {
    int64_t holds;
    int64_t held_us;
    int64_t waited_us;
    int64_t lost;
};

/* A zeroed one is empty. */
struct rqli_usage {
    struct rqli_hash_map by_field; /* those that wait */
    struct rqli_dlist waiting;
    struct rqli_dlist sent;
    size_t n_waiting;
};

/* The field of all that find no room: no other field lacks a tab. */
#define RQLI_USAGE_OTHER "other"

enum {
    RQLI_USAGE_MAX = 500, /* sums that wait; what is used beside them is one sum for each day */
    RQLI_USAGE_SUM_SIZE = 896, /* room for one sum in the text that is sent */
};

void rqli_usage_fini(struct rqli_usage *self);

/* Adds to the sum of a day, counted from 1970, and a field, which has at most 768 bytes. Nothing is
 * left out for lack of room. False: no memory. */
bool rqli_usage_add(struct rqli_usage *self, int64_t day, const char *field,
                    const struct rqli_use *use);

/* Writes the sums of the first day that waits, as many as there is room for, in the form that
 * usage.lua reads; they are sent now. Returns the length of the text. */
size_t rqli_usage_write(struct rqli_usage *self, char *text, size_t size, int64_t *day_out);

/* The server has added what was sent, or it is given up. Returns how many holds that were. */
int64_t rqli_usage_end_sent(struct rqli_usage *self);

/* Nothing was done: the sums wait again. Returns the number of holds that have found no memory;
 * some sum waits all the same. */
int64_t rqli_usage_take_back(struct rqli_usage *self);

/* Gives up all. Returns the number of holds. */
int64_t rqli_usage_drop(struct rqli_usage *self);

#endif
