#ifndef RQLI_PUSH_H
#define RQLI_PUSH_H

/* What comes over the subscriber connection, decoded. Pure. */

#include "base/random.h"
#include "wire/command.h"
#include "wire/reply.h"

#include <rql/base.h>

/* A grant that another's release has made for us. */
struct rqli_push {
    int64_t token;
    int64_t server_us;   /* when it was granted */
    int64_t lease_ms;    /* how long it lives unless claimed */
    int64_t received_us; /* when it arrived here */
};

enum rqli_pushed_kind {
    RQLI_PUSHED_NOTHING,      /* not for us: ignored */
    RQLI_PUSHED_CONFIRMATION, /* of a subscription */
    RQLI_PUSHED_GRANT,        /* a lock was handed over */
    RQLI_PUSHED_HINT,         /* the request of this nonce should look for itself: a series */
    RQLI_PUSHED_CHANGE,       /* a tracked key changed; all of them if lock_key is empty */
};

struct rqli_pushed {
    enum rqli_pushed_kind kind;
    struct rqli_push push;
    struct rqli_slice lock_key; /* in the reply */
    char nonce[RQLI_HEX_SIZE];
};

struct rqli_pushed rqli_push_read(const struct rqli_reply *reply);

/* Two commands: subscribe to the client's own channel, and to what CLIENT TRACKING says. */
void rqli_push_subscribe(struct rqli_command *command, const char *identity);

/* One command: a message to that channel that says nothing. How many hear it is the answer. */
void rqli_push_ping(struct rqli_command *command, const char *identity);

#endif
