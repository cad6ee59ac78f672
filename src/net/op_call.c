/* One call of a script, on the thread of its caller: to whoever has its keys, once more where it
 * did nothing. And what operations and it share. */

#include "base/clock.h"
#include "base/error.h"
#include "base/scope.h"
#include "net/op.h"
#include "wire/answer.h"

RQLI_DEFINE_AUTO(struct rqli_exchange *, rqli_exchange_give);

struct rqli_conn *rqli_op_conn(const struct rqli_op_route *route, struct rqli_node *node)
{
    if (route->conn && node == route->node) {
        return route->conn;
    }
    switch (route->use) {
    case RQLI_OP_DURABLE:
        return node->conns.durable;
    case RQLI_OP_IN_BACKGROUND:
        return node->background;
    case RQLI_OP_FOR_CALLERS:
        break;
    }
    return rqli_conns_choose(&node->conns);
}

struct single {
    const struct rqli_op_route *route;
    const struct rqli_call *call;
    struct rqli_node *node;
    struct rqli_retries retries;
};

/* Once. */
static rql_status run_once(const struct single *self, struct rqli_exchange **out, rql_error *error)
{
    RQLI_AUTO(rqli_exchange_give)
    struct rqli_exchange *exchange = rqli_exchange_take(rqli_op_conn(self->route, self->node));
    rql_status status;

    if (!exchange) {
        return rqli_fail_nomem(error);
    }
    rqli_call_write(self->call, &exchange->command, rqli_conn_scripts(exchange->carrier));
    status = rqli_exchange_run(exchange, self->retries.until_us, error);
    if (status) {
        rqli_fleet_on_silence(self->route->fleet, self->node);
        return status;
    }
    *out = RQLI_GIVE(exchange);
    return RQL_OK;
}

rql_status rqli_call_run(const struct rqli_op_route *route, const struct rqli_call *call,
                         int64_t until_us, struct rqli_exchange **out, rql_error *error)
{
    struct single self = {.route = route, .call = call, .retries = {.until_us = until_us}};

    rqli_fleet_on_use(route->fleet);
    rqli_fleet_await_map(route->fleet, until_us);
    for (;;) {
        RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *exchange = NULL;
        rql_status status;

        self.node = rqli_fleet_node(route->fleet, call->set);
        status = run_once(&self, &exchange, error);
        if (status) {
            return status;
        }
        switch (
            rqli_call_verdict(route->fleet, self.node, call->set, exchange->reply, &self.retries)) {
        case RQLI_DONE:
            *out = RQLI_GIVE(exchange);
            return RQL_OK;
        case RQLI_HERE:
            rqli_conn_forget_scripts(exchange->carrier);
            break;
        case RQLI_THERE:
            break;
        case RQLI_LATER:
            rqli_sleep_until(self.retries.again_us);
            break;
        case RQLI_FAULT:
            return rqli_exchange_fault(exchange, exchange->reply, rqli_call_name(call),
                                       rqli_call_subject(call), error);
        }
    }
}

/* Each call takes some of the dead out of the queue, so there is an end to it. */
bool rqli_serve(const struct rqli_op_route *route, const struct rqli_keys *keys,
                int64_t deadline_us)
{
    struct rqli_outcome outcome = {.second = RQLI_SERVED_PARTLY};
    struct rqli_call call;

    rqli_serve_write(keys, &call);
    while (outcome.second == RQLI_SERVED_PARTLY) {
        RQLI_AUTO(rqli_exchange_give) struct rqli_exchange *exchange = NULL;

        (void)rqli_call_run(route, &call, deadline_us, &exchange, NULL);
        if (!exchange || !rqli_outcome_read(exchange->reply, &outcome)) {
            return false;
        }
    }
    return outcome.second == RQLI_SERVED_ONE;
}
