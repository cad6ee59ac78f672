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
    const char *why; /* why the first hold that was not found was not; NULL: all were */
    rql_error fault; /* of the first release that failed */
};

/* A lock, or a series of locks. */
struct agent_hold {
    struct agent *agent;
    struct agent_conn *conn; /* NULL: it is closed */
    struct agent_hold *next; /* in the list of its connection, or of those that were left */
    struct agent_hold **at;
    enum agent_hold_phase phase;
    enum agent_hold_kind kind;
    struct agent_task *task;
    struct agent_process *process; /* NULL: only its connection ends it */
    rql_request *request;          /* WAITS */
    rql_lock *lock;                /* HELD: one of these two */
    rql_series *series;            /* */
    int64_t series_id;             /* 0: a lock */
    struct agent_loss *loss;       /* what the library's thread notes of it */
    bool is_lost;
    int64_t ttl_ms;
    struct agent_ending *ending;      /* ENDS: the call that waits for it; or NULL */
    uv_timer_t expiry;                /* LEFT: at the end of its TTL */
    char (*secrets)[RQL_SECRET_SIZE]; /* LEFT: one for each name */
    size_t n_names;
    char names[]; /* each with its terminating NUL */
};

/* What a client asks for. */
struct agent_wish {
    enum agent_hold_kind kind;
    bool is_series;
    size_t n_names; /* 1, or those of the series */
    const char *names[RQL_SERIES_MAX];
    rql_lock_options options; /* of each lock */
};

/* Begins to acquire; replies at once only if it cannot. */
void agent_hold_begin(struct agent_conn *conn, const struct agent_wish *wish);

/* Returns what the connection holds or waits for, and the place of the name in it; NULL: nothing of
 * this name. */
struct agent_hold *agent_hold_find(const struct agent_conn *conn, const char *name, size_t *place);

/* Returns a lock of a hold that is HELD. */
const rql_lock *agent_hold_lock(const struct agent_hold *self, size_t place);

/* Releases a hold. `ending` is the call that waits for it, or NULL; a hold that was lost before
 * does not count for it. */
void agent_hold_release(struct agent_hold *self, struct agent_ending *ending);

/* Ends all holds of a connection, each as its phase and the reason ask for. */
void agent_holds_end(struct agent_conn *conn, enum agent_end end);

/* Ends all holds of a process that has ended. */
void agent_holds_on_process_ended(struct agent_process *process, void *data);

/* Returns what the connection waits for, which is one request at a time; or NULL. */
struct agent_hold *agent_hold_waiting(const struct agent_conn *conn);

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
