#include "lock/drive.h"

static struct rqli_request_view look_around(const struct rqli_world *world)
{
    struct rqli_request_view view;

    world->view(world->self, &view);
    return view;
}

void rqli_drive_on_try(struct rqli_request *request, const struct rqli_try *result,
                       const struct rqli_world *world)
{
    struct rqli_request_view view;

    switch (result->result) {
    case RQLI_TRY_GRANTED:
        rqli_request_on_granted(request);
        break;
    case RQLI_TRY_QUEUED:
        view = look_around(world);
        rqli_request_on_queued(request, &result->place, &view);
        break;
    case RQLI_TRY_REFUSED:
        rqli_request_on_refused(request, result->status);
        break;
    case RQLI_TRY_AGAIN:
        rqli_request_on_again(request, look_around(world).now_us);
        break;
    case RQLI_TRY_OVER:
        view = look_around(world);
        rqli_request_on_over(request, &view);
        break;
    case RQLI_TRY_SETBACK:
        view = look_around(world);
        rqli_request_on_setback(request, result->status, &view);
        break;
    case RQLI_TRY_FAULT:
        rqli_request_on_fault(request, result->status);
        break;
    }
}

void rqli_drive_on_wait(struct rqli_request *request, enum rqli_wait_result result,
                        const struct rqli_world *world)
{
    struct rqli_request_view view;

    switch (result) {
    case RQLI_WAIT_TIME:
        view = look_around(world);
        rqli_request_on_time(request, &view);
        break;
    case RQLI_WAIT_GRANTED:
        rqli_request_on_granted(request);
        break;
    case RQLI_WAIT_LOOK:
        rqli_request_on_look(request);
        break;
    }
}

static void try_once(struct rqli_request *request, const struct rqli_world *world, rql_error *error)
{
    struct rqli_try result = world->try_take(world->self, error);

    rqli_drive_on_try(request, &result, world);
}

rql_status rqli_drive(struct rqli_request *request, const struct rqli_world *world,
                      rql_error *error)
{
    for (;;) {
        struct rqli_request_step step = rqli_request_next(request);

        switch (step.want) {
        case RQLI_WANT_TRY:
            try_once(request, world, error);
            break;
        case RQLI_WANT_WAIT:
            rqli_drive_on_wait(request, world->wait(world->self, step.until_us), world);
            break;
        case RQLI_WANT_LEAVE:
            rqli_request_on_left(request, world->leave(world->self));
            break;
        case RQLI_WANT_FINISH:
            return step.status;
        }
    }
}
