#include "client/client.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"

rql_status rqli_client_check(const rql_client *client, rql_error *error)
{
    if (!client) {
        return rqli_fail(error, RQL_E_INVALID, "client is NULL");
    }
    if (rqli_fork_is_foreign(&client->fork)) {
        return rqli_fail(error, RQL_E_FORKED,
                         "the client was made before fork(); make one in this process");
    }
    return RQL_OK;
}

rql_status rqli_name_check(const char *name, rql_error *error)
{
    if (!name || !rqli_name_is_valid(name)) {
        return rqli_fail(error, RQL_E_INVALID,
                         "lock name: must be 1 to %d bytes without control bytes; nothing was sent",
                         RQL_NAME_MAX);
    }
    return RQL_OK;
}

int64_t rqli_client_patience_us(const rql_client *client, int64_t now_us)
{
    return rqli_after_ms(now_us,
                         client->options.connect_timeout_ms + client->options.io_timeout_ms);
}
