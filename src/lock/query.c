#include "lock/query.h"

#include "base/clock.h"
#include "base/error.h"

rql_status rqli_query(rql_client *client, struct rqli_exchange **out, rql_error *error, ...)
{
    RQLI_AUTO(rqli_exchange_give)
    struct rqli_exchange *exchange = rqli_exchange_take(client->conn);
    const char *name;
    const char *where;
    rql_status status;
    va_list words;

    if (!exchange) {
        return rqli_fail_nomem(error);
    }
    va_start(words, error);
    rqli_command_list(&exchange->command, words);
    va_end(words);
    status = rqli_exchange_run(exchange, rqli_client_budget_us(client, rqli_now_us()), error);
    if (status) {
        return status;
    }
    if (exchange->reply->type == RQLI_REPLY_ERROR) {
        va_start(words, error);
        name = va_arg(words, const char *);
        where = va_arg(words, const char *);
        va_end(words);
        return rqli_exchange_fault(exchange, exchange->reply, name, where ? where : "server",
                                   error);
    }
    *out = RQLI_GIVE(exchange);
    return RQL_OK;
}

rql_status rqli_named_init(struct rqli_named *self, const rql_client *client, const char *name,
                           rql_error *error)
{
    rql_status status = rqli_client_check(client, error);

    if (!status) {
        status = rqli_name_check(name, error);
    }
    if (!status) {
        rqli_keys_init(&self->keys, self->memory, rqli_slice_of(name));
    }
    return status;
}
