#ifndef CLI_CONVOY_H
#define CLI_CONVOY_H

/* Why a queue does not move: its lock's holder waits for another lock itself. */

#include "names.h"

/* Who waits for what, by one reading of locks and queues, which must outlive it. */
struct cli_waits {
    const rql_lock_info **locks; /* by name; owned, as the next two */
    struct cli_waiter *waiters;  /* by acquirer */
    struct cli_under *unders;    /* what runs under a lock, by the token of that lock */
    size_t n_locks, n_waiters, n_unders;
};

void cli_waits_init(struct cli_waits *self, const rql_lock_info_list *locks,
                    const rql_queue_info_list *queues);
void cli_waits_free_p(struct cli_waits *self);

/* All locks and queues of the server. It is zeroed before, and freed after a fault, too. */
struct cli_wait_reading {
    rql_lock_info_list *locks;
    rql_queue_info_list *queues;
    struct cli_waits waits;
};

rql_status cli_wait_reading_read(struct cli_wait_reading *self, rql_client *client,
                                 rql_error *error);
void cli_wait_reading_free_p(struct cli_wait_reading *self);

/* The time between two readings: a wait that lasts longer is no passing one. */
enum { CLI_CONVOY_MS = 300 };

struct cli_convoy {
    char *text; /* owned, or NULL: there is none */
    bool is_circle;
};

/* Says what the holder of the lock waits for, and the holder of that, and so on: "waits behind
 * web-1, which waits for stock:7, held for 3h00m by cron-2". A holder waits if its acquirer does,
 * or an `rql run` inside of its own. A wait counts only if an earlier reading has it, too, with the
 * same grant and the same request: a wait that passes is no news. Nothing is found without an
 * earlier reading (NULL). Of a lock of several holders nothing is said. */
struct cli_convoy cli_convoy_find(const struct cli_waits *now, const struct cli_waits *before,
                                  const struct cli_names *names, const char *name);

static inline void cli_convoy_free_p(struct cli_convoy *self)
{
    free(self->text);
}

#endif
