#ifndef RQLI_CONN_LOOP_STATE_H
#define RQLI_CONN_LOOP_STATE_H

/* What conn_loop.c and conn_loop_renew.c share. */

#include "net/conn.h"
#include "net/login.h"
#include "net/socket.h"
#include "net/stream.h"

#include <rql/options.h>
#include <uv.h>

struct rqli_conn_loop_listener;

/* One command that is to be answered. sent_us is when it was put in the stream: earlier than it is
 * sent, so a lease that counts from it ends no later than on the server. */
struct slot {
    struct rqli_stream_call call;
    rqli_conn_loop_fn fn; /* NULL: nobody */
    void *owner;
    int64_t sent_us;
};

enum state { DOWN, CONNECTING, UP, CLOSING };

struct rqli_conn_loop {
    const struct rqli_conn_loop_listener *listener;
    struct rqli_socket sock; /* while CONNECTING the pool's, with silent, reading and fault */
    uv_loop_t *loop;
    uv_work_t work;
    uv_poll_t poll;
    enum state state;
    bool was_opened; /* by the pool */
    bool wants_room; /* watches for room to send more, too */
    bool is_abandoned;
    bool shall_drop;        /* behind the replies that are being given */
    uv_work_t asking;       /* for credentials, with those */
    rql_credentials *asked; /* a secret, meanwhile */
    rql_status has_asked;
    bool is_asking;
    bool is_renewing; /* that, or AUTH is under way */
    int64_t renew_us;
    void (*closed)(void *); /* of rqli_conn_loop_close() */
    void *closed_data;

    struct rqli_stream stream;
    struct slot *slots; /* a ring: those from `first` to before `next` are in flight */
    uint64_t first;
    uint64_t next; /* position of the next command, from 1 */
    struct rqli_arena arena;
    struct rqli_reply reply; /* that is being read */
    struct rqli_seat silent; /* the predecessor, if it fell silent */
    struct rqli_clock_reading reading;
    rql_error fault; /* of connecting */
    uint64_t generation;
    uint64_t scripts; /* that the server knows */
    uint64_t
        flushed_at; /* the last command that was written before it was found that it does not */
};

/* When something is sent anyway: an idle loop need not stay for it. */
void rqli_conn_loop_renew_if_due(struct rqli_conn_loop *self);

/* It closes: asking is over sooner, perhaps. */
void rqli_conn_loop_stop_renewing(struct rqli_conn_loop *self);

#endif
