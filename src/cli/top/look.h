#ifndef TOP_LOOK_H
#define TOP_LOOK_H

/* A look at all locks and queues of a server, and what two looks say together: how many requests of
 * a queue were served in between. */

#include "convoy.h"
#include "known.h"
#include "names.h"

enum { TOP_RATES = 10 };

/* One lock, or a queue whose lock is free. */
struct top_row {
    const char *name;            /* of one of these */
    const rql_lock_info *lock;   /* NULL: it is free */
    const rql_queue_info *queue; /* NULL: no waiters */
    int64_t waiting;
    int64_t held_ms;   /* -1: it is free, or the server does not say */
    int64_t left_ms;   /* -1: the same */
    bool is_endless;   /* it has no TTL */
    double served;     /* requests a second; negative: not known yet */
    bool is_least;     /* all that waited had gone: more may have come and gone */
    int64_t expect_ms; /* how long the last in the queue has to wait; -1: not known */
    size_t n_rates;
    double rates[TOP_RATES];  /* of the last looks, the newest first */
    bool least[TOP_RATES];    /* as is_least, of each */
    double key;               /* by which it was sorted last */
    struct cli_convoy convoy; /* what its holder waits for, in this look and the one before */
};

struct top_look {
    rql_lock_info_list *locks; /* owned, as the next five */
    rql_queue_info_list *queues;
    rql_holder_list *holders; /* of the lock holders_of; NULL: they were not read */
    char *holders_of;
    rql_host_info_list *hosts; /* of the swarm; NULL: they may not be read */
    char flusher[RQL_ID_SIZE]; /* the swarm that flushes; "": none, or not known */
    struct cli_names names;
    struct cli_waits waits;
    struct top_row *rows; /* sorted by name */
    size_t n_rows;
    int64_t n_locks; /* without keys that are damaged */
    int64_t n_waiting;
    double served;     /* of all locks; negative: not known yet */
    int64_t begun_ms;  /* cli_now_ms() */
    int64_t cost_ms;   /* of the servers, without a pass over all keys */
    int64_t server_us; /* the time of the server; -1: not known */
    rql_status status; /* a look that failed has no rows */
    rql_error error;
};

/* Looks at the locks that are known by now. `before` is the look before this one, or NULL; `name`:
 * the lock whose holders are read, too, or NULL. */
struct top_look *top_look_new(struct cli_session *session, struct top_known *known,
                              const struct top_look *before, const char *name);
void top_look_free(struct top_look *self);

/* The order of rows: by this, the largest first, but names from a to z. */
enum top_order { TOP_WAITING, TOP_HELD, TOP_LEFT, TOP_SERVED, TOP_NAME, TOP_N_ORDERS };

extern const char *const top_order_names[TOP_N_ORDERS];

/* Which rows are shown. */
struct top_filter {
    const char *glob;      /* of names, or NULL */
    int64_t older_than_ms; /* held for so long, or waited for */
};

/* Returns the rows in this order, in an array that the caller frees. filter NULL: all. */
const struct top_row **top_look_sort(struct top_look *self, enum top_order order, bool is_reversed,
                                     const struct top_filter *filter, size_t *count);

/* Returns who holds the lock, as cli_lock_holder() does; or what is wrong with its key, or with
 * that of its queue. */
const char *top_row_holder(const struct top_look *self, const struct top_row *row,
                           char out[CLI_NAME_SIZE]);

/* Returns the row of this name, or NULL. */
const struct top_row *top_look_find(const struct top_look *self, const char *name);

/* Returns the host of this id, or NULL: the swarm does not know it. */
const rql_host_info *top_look_host(const struct top_look *self, const char *host_id);

#endif
