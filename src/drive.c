#include "drive.h"

static struct rqli_request_view look_around(const struct rqli_world *world)
{
    struct rqli_request_view view;

    world->view(world->self, &view);
    return view;
}

static void try_once(struct rqli_request *request, const struct rqli_world *world, rql_error *error)
{
    struct rqli_try result = world->try_take(world->self, error);
    struct rqli_request_view view;

    switch (result.result) {
    case RQLI_TRY_GRANTED:
        rqli_request_on_granted(request);
        break;
    case RQLI_TRY_QUEUED:
        view = look_around(world);
        rqli_request_on_queued(request, &result.place, &view);
        break;
    case RQLI_TRY_REFUSED:
        rqli_request_on_refused(request, result.status);
        break;
    case RQLI_TRY_AGAIN:
        rqli_request_on_again(request, look_around(world).now_us);
        break;
    case RQLI_TRY_SETBACK:
        view = look_around(world);
        rqli_request_on_setback(request, result.status, &view);
        break;
    case RQLI_TRY_FAULT:
        rqli_request_on_fault(request, result.status);
        break;
    }
}

static void wait_once(struct rqli_request *request, const struct rqli_world *world,
                      int64_t until_us)
{
    struct rqli_request_view view;

    switch (world->wait(world->self, until_us)) {
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
            wait_once(request, world, step.until_us);
            break;
        case RQLI_WANT_LEAVE:
            rqli_request_on_left(request, world->leave(world->self));
            break;
        case RQLI_WANT_FINISH:
            return step.status;
        }
    }
}
