#ifndef RQLI_DRIVE_H
#define RQLI_DRIVE_H

/* Where the request machine meets the world: its only door, and the only loop of a blocking call.
 * The world comes in as functions, so tests can fake it. */

#include "lock/request.h"

enum rqli_try_result {
    RQLI_TRY_GRANTED,
    RQLI_TRY_QUEUED,  /* place says where */
    RQLI_TRY_REFUSED, /* status says how; nothing is left on the server */
    RQLI_TRY_AGAIN,   /* at once */
    RQLI_TRY_OVER,    /* granted, and over before that was known */
    RQLI_TRY_SETBACK, /* status; trying again may help */
    RQLI_TRY_FAULT,   /* status; trying again will not */
};

struct rqli_try {
    enum rqli_try_result result;
    rql_status status;
    struct rqli_request_place place;
};

enum rqli_wait_result {
    RQLI_WAIT_TIME,    /* until_us came */
    RQLI_WAIT_GRANTED, /* handed over by another's release */
    RQLI_WAIT_LOOK,    /* ask the server */
};

struct rqli_world {
    void (*view)(void *self, struct rqli_request_view *out);
    struct rqli_try (*try_take)(void *self, rql_error *error);
    enum rqli_wait_result (*wait)(void *self, int64_t until_us);
    bool (*leave)(void *self); /* true: the server has confirmed */
    void *self;
};

/* What a try, and what a wait came to; for those who are no such loop. Only the world's view is
 * used, and only where it matters what is seen. */
void rqli_drive_on_try(struct rqli_request *request, const struct rqli_try *result,
                       const struct rqli_world *world);
void rqli_drive_on_wait(struct rqli_request *request, enum rqli_wait_result result,
                        const struct rqli_world *world);

rql_status rqli_drive(struct rqli_request *request, const struct rqli_world *world,
                      rql_error *error);

#endif
