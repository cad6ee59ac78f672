#ifndef RQLI_WAITING_H
#define RQLI_WAITING_H

/*
 * Those who wait on a loop: by lock, the oldest in front, who leads; by the nonces that pushes are
 * for; and by acquirer, where the caller has named one. Nothing here is looked for one by one. One
 * thread: the loop's.
 */

#include "base/text.h"

#include <rql/status.h>

struct rqli_guest;
struct rqli_group;

/* A nonce of a guest, for one of its locks; 32 digits. */
struct rqli_nonce {
    const char *digits;
    struct rqli_slice lock_key;
    struct rqli_guest *guest;
};

/* One that waits. The first four are set by its owner, and outlive its stay. */
struct rqli_guest {
    struct rqli_slice lock_key; /* of a series: empty; it waits for several, and leads itself */
    const char *acquirer;       /* to be there once for each lock; NULL: need not be looked for */
    struct rqli_nonce *nonces;
    size_t n_nonces;
    struct rqli_group *group;
    struct rqli_guest *next; /* in its group, or among the series */
    struct rqli_guest *previous;
};

struct rqli_waiting {
    void *groups; /* trees of search.h */
    void *nonces;
    void *named;
    struct rqli_group *first; /* all groups */
    struct rqli_guest *series;
};

static inline bool rqli_waiting_is_empty(const struct rqli_waiting *self)
{
    return !self->first && !self->series;
}

/* RQL_E_BUSY: this acquirer waits for this lock already; RQL_E_NOMEM. Neither is raised. */
rql_status rqli_waiting_join(struct rqli_waiting *self, struct rqli_guest *guest);

/* Who leads from now on, if that was the one; else NULL. */
struct rqli_guest *rqli_waiting_leave(struct rqli_waiting *self, struct rqli_guest *guest);

bool rqli_waiting_leads(const struct rqli_guest *guest);

/* Whom a push is for, or NULL. */
struct rqli_guest *rqli_waiting_of_nonce(const struct rqli_waiting *self, const char *digits);

/* May end the stay of the guest that it is given, of no other. */
typedef void (*rqli_guest_fn)(struct rqli_guest *guest);

/* All, or those that lead. */
void rqli_waiting_each(const struct rqli_waiting *self, bool only_leaders, rqli_guest_fn visit);

/* Those for one lock, or who leads them; and all series. */
void rqli_waiting_each_of(const struct rqli_waiting *self, struct rqli_slice key, bool only_leader,
                          rqli_guest_fn visit);

#endif
