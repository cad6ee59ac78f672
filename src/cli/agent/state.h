#ifndef AGENT_STATE_H
#define AGENT_STATE_H

/* The lock service of a host: programs in any language speak the Redis protocol with it on a local
 * socket, and a lock ends with the connection or the process that holds it. One thread with one
 * libuv loop does all of it; only on_loss() of hold.c and release() of secret.c run on others. */

#include "listen.h"
#include "process.h"
#include "task.h"

#include <rql/admin.h>
#include <rql/async.h>
#include <stdatomic.h>
#include <uv.h>

struct agent;
struct agent_call;
struct agent_conn;
struct agent_hold;
struct agent_loss;
struct agent_request;

/* How a connection ends. A client that ends it knows that it holds nothing any more. If the agent
 * does, the client may still be at work: its locks are left to their TTL, or to the end of its
 * process. */
enum agent_end { AGENT_BY_CLIENT, AGENT_BY_AGENT };

/* What connections and holds call, without knowing it. */
struct agent_ops {
    /* Runs a request: writes its reply, or makes the connection busy until it is there. */
    void (*run)(struct agent_conn *conn, const struct agent_request *request);
    /* Ends all holds of a connection that ends. */
    void (*end_holds)(struct agent_conn *conn, enum agent_end end);
    /* Ends the agent if it drains, and nothing is held, waits, or is to be released. */
    void (*on_released)(struct agent *agent);
};

/* Calls that block, of one kind. */
struct agent_lane {
    struct agent_call *first; /* those that have not begun */
    size_t n_running;
};

struct agent {
    const struct agent_ops *ops;
    uv_loop_t uv;
    rql_client *client;
    rql_loop *loop;
    struct agent_processes processes;
    struct agent_tasks tasks;

    int64_t try_ms;       /* for one try, if the server does not answer */
    const char *password; /* that clients have to send; NULL: none */
    struct cli_socket socket;
    uv_poll_t listener; /* of the socket */

    struct agent_conn *conns;
    size_t n_conns;
    size_t most_conns;
    size_t own_fds;   /* descriptors that are neither of connections nor of processes */
    uint64_t last_id; /* of connections */

    struct agent_hold *left;    /* holds of connections that the agent has closed */
    size_t n_held;              /* holds in force, those that are being released included */
    size_t n_waiting;           /* requests whose outcome is to come */
    uint64_t n_ended;           /* holds that the end of a connection or process has released */
    struct agent_lane releases; /* by secret */
    struct agent_lane looks;    /* at locks and queues */
    uv_async_t losses_async;
    _Atomic(struct agent_loss *) losses; /* pushed by the library's thread */
    struct agent_loss *noticed;          /* taken from there, and not handled yet */

    enum {
        AGENT_SERVES,
        AGENT_DRAINS,
        AGENT_ENDS
    } phase; /* no request is taken but in the first */

    int64_t drain_ms;
    uv_timer_t drain;  /* runs while it drains */
    uv_timer_t resume; /* runs while no connection can be accepted, for want of descriptors */
};

#endif
