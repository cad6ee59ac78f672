#include "talk.h"

#include "base/clock.h"
#include "base/error.h"

static rql_status run_once(const struct rqli_talk *self, struct rqli_exchange *exchange,
                           bool with_text, rql_error *error)
{
    rqli_command_reset(&exchange->command);
    self->write(self->context, &exchange->command, with_text);
    if (exchange->command.failed) {
        return rqli_fail_nomem(error);
    }
    return rqli_exchange_run(exchange, rqli_client_budget_us(self->via, rqli_now_us()), error);
}

static bool is_unknown(const struct rqli_exchange *exchange)
{
    for (int i = 0; i < exchange->command.n_commands; i++) {
        if (exchange->reply[i].type == RQLI_REPLY_ERROR &&
            rqli_reply_says(&exchange->reply[i], "NOSCRIPT")) {
            return true;
        }
    }
    return false;
}

static rql_status check(const struct rqli_talk *self, const struct rqli_exchange *exchange,
                        rql_error *error)
{
    for (int i = 0; i < exchange->command.n_commands; i++) {
        if (exchange->reply[i].type == RQLI_REPLY_ERROR) {
            return rqli_exchange_fault(exchange, &exchange->reply[i], self->what, RQLI_KEY_HOSTS,
                                       error);
        }
    }
    return RQL_OK;
}

rql_status rqli_talk_run(const struct rqli_talk *self, struct rqli_exchange **out, rql_error *error)
{
    RQLI_AUTO(rqli_exchange_give)
    struct rqli_exchange *exchange = rqli_exchange_take(self->via->conn);
    rql_status status;

    if (!exchange) {
        return rqli_fail_nomem(error);
    }
    status = run_once(self, exchange, false, error);
    if (!status && is_unknown(exchange)) {
        status = run_once(self, exchange, true, error);
    }
    status = status ? status : check(self, exchange, error);
    if (!status) {
        *out = RQLI_GIVE(exchange);
    }
    return status;
}
