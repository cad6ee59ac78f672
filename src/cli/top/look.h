#ifndef TOP_LOOK_H
#define TOP_LOOK_H

/* A look at all locks and queues of a server, and what two looks say together: how many requests of
 * a queue were served in between. */

#include "names.h"

enum { TOP_RATES = 10 };

/* One lock, or a queue whose lock is free. */
struct top_row {
    const char *name;            /* of one of these */
    const rql_lock_info *lock;   /* NULL: it is free */
    const rql_queue_info *queue; /* NULL: nobody waits */
    int64_t waiting;
    int64_t held_ms;   /* -1: it is free, or the server does not say */
    int64_t left_ms;   /* -1: the same */
    bool is_endless;   /* it has no TTL */
    double served;     /* requests a second; negative: not known yet */
    bool is_least;     /* all that waited had gone: more may have come and gone */
    int64_t expect_ms; /* how long the last in the queue has to wait; -1: not known */
    size_t n_rates;
    double rates[TOP_RATES]; /* of the last looks, the newest first */
    bool least[TOP_RATES];   /* as is_least, of each */
    double key;              /* by which it was sorted last */
};

struct top_look {
    rql_lock_info_list *locks; /* owned, as the next three */
    rql_queue_info_list *queues;
    rql_holder_list *holders; /* of the lock holders_of; NULL: they were not read */
    char *holders_of;
    struct cli_names names;
    struct top_row *rows; /* sorted by name */
    size_t n_rows;
    int64_t n_locks;
    int64_t n_waiting;
    double served;    /* of all locks; negative: not known yet */
    int64_t begun_ms; /* cli_now_ms() */
    int64_t took_ms;
    int64_t server_us; /* the time of the server; -1: not known */
    rql_status status; /* a look that failed has no rows */
    rql_error error;
};

/* Looks at those whose names match the glob of the arguments, if there is one. `before` is the look
 * before this one, or NULL; `name`: the lock whose holders are read, too, or NULL. */
struct top_look *top_look_new(struct cli_session *session, const struct top_look *before,
                              const char *name);
void top_look_free(struct top_look *self);

/* The order of rows: by this, the largest first, but names from a to z. */
enum top_order { TOP_WAITING, TOP_HELD, TOP_LEFT, TOP_SERVED, TOP_NAME, TOP_N_ORDERS };

extern const char *const top_order_names[TOP_N_ORDERS];

/* Returns the rows in this order, in an array that the caller frees. */
const struct top_row **top_look_sort(struct top_look *self, enum top_order order, bool is_reversed);

/* Returns the row of this name, or NULL. */
const struct top_row *top_look_find(const struct top_look *self, const char *name);

/* Returns the row of a lock for which this acquirer waits, or NULL. */
const struct top_row *top_look_waits_for(const struct top_look *self, const char *acquirer_id);

/* Writes who holds the lock: the name of its only holder, "8 holders", "kept" or "-". */
void top_holder(const struct top_look *self, const struct top_row *row, char out[CLI_NAME_SIZE]);

#endif
