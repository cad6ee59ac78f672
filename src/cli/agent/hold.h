#ifndef AGENT_HOLD_H
#define AGENT_HOLD_H

/* What a connection holds or waits for. A hold belongs to the connection and to the process that
 * asked for it: it ends with the first of both that ends. */

#include "conn.h"

enum { AGENT_HOLDS_MAX = 1024 /* of a connection */ };

enum agent_hold_phase {
    AGENT_HOLD_WAITS,
    AGENT_HOLD_HELD,
    AGENT_HOLD_ENDS, /* its release is under way */
    AGENT_HOLD_LEFT, /* its connection was closed by the agent: it ends with its process, or by its
                        TTL, because it is not renewed */
};

/* What keeps the lock. */
enum agent_hold_kind {
    AGENT_HOLD_OF_CONN,
    AGENT_HOLD_DETACHED, /* nothing: its secret releases it, and it is never renewed */
    AGENT_HOLD_FENCE,    /* the same, with the reply of fencelock */
};

/* A call that ends several holds, and replies when all have ended. */
struct agent_ending {
    struct agent_conn *conn; /* NULL: it is closed */
    size_t left;             /* holds whose releases are under way */
    int64_t n_released;
    rql_error fault; /* of the first release that failed */
};

struct agent_hold {
    struct agent *agent;
    struct agent_conn *conn; /* NULL: it is closed */
    struct agent_hold *next; /* in the list of its connection, or of those that were left */
    enum agent_hold_phase phase;
    enum agent_hold_kind kind;
    struct agent_task *task;
    struct agent_process *process; /* NULL: only its connection ends it */
    rql_request *request;          /* WAITS */
    rql_lock *lock;                /* HELD */
    struct agent_loss *loss;       /* what the library's thread notes of it */
    bool is_lost;
    int64_t ttl_ms;
    int64_t token;
    struct agent_ending *ending;  /* ENDS: the call that waits for it; or NULL */
    uv_timer_t expiry;            /* LEFT: at the end of its TTL */
    char secret[RQL_SECRET_SIZE]; /* LEFT */
    char name[];
};

/* Begins to acquire a lock; replies at once only if it cannot. */
void agent_hold_begin(struct agent_conn *conn, const char *name, enum agent_hold_kind kind,
                      const rql_lock_options *options);

/* Returns what the connection holds or waits for; NULL: nothing of this name. */
struct agent_hold *agent_hold_find(const struct agent_conn *conn, const char *name);

/* Releases a hold. `ending` is the call that waits for it, or NULL; a hold that was lost before
 * does not count for it. */
void agent_hold_release(struct agent_hold *self, struct agent_ending *ending);

/* Ends all holds of a connection, each as its phase and the reason ask for. */
void agent_holds_end(struct agent_conn *conn, enum agent_end end);

/* Ends all holds of a process that has ended. */
void agent_holds_on_process_ended(struct agent_process *process, void *data);

/* Withdraws all requests that wait: their clients get an error. */
void agent_holds_withdraw_all(struct agent *agent);

/* Frees the losses that were not handled. No hold is left. */
void agent_losses_end(struct agent *agent);

/* Forgets what closed connections have left: it ends with its TTL. */
void agent_holds_forget_left(struct agent *agent);

/* Notifies connections of their lost holds; called on the loop after agent->losses_async was sent.
 */
void agent_holds_on_losses(uv_async_t *async);

#endif
