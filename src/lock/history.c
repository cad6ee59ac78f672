#include "lock/history.h"

#include "base/error.h"
#include "lock/leases.h"
#include "lock/notify.h"
#include "lock/server_clock.h"
#include "observe/observe.h"
#include "options/options.h"

/*
 * After a failover or a restart a server may have lost writes, and with them grants. So what is
 * held is verified at once, over a new connection. With recovery_delay_ms the server grants nothing
 * for that long, so that no lock is granted while another holder still relies on it. For the same
 * reason no lease may last longer than that.
 */

void rqli_history_tell_news(rql_client *client, struct rqli_era *era)
{
    struct rqli_figures figures = {0};

    if (!rqli_era_take_news(era, &figures.token, &figures.server_token)) {
        return;
    }
    if (figures.token > 0) {
        const struct rqli_subject subject = rqli_subject_of_client(client);

        figures.at_us = rqli_server_clock_now_us(client);
        rqli_observe(RQLI_ON_HISTORY_LOST, &subject, &figures);
    }
    rqli_leases_doubt(client->leases,
                      client->is_partitioned ? &rqli_key_sets[era - client->eras] : NULL);
}

void rqli_history_look_at_all(rql_client *client)
{
    for (size_t i = 0; i < rqli_client_n_sets(client); i++) {
        rqli_history_look(client, &client->eras[i]);
    }
}

rql_status rqli_history_check_ttl(const rql_client *client, int64_t ttl_ms, rql_error *error)
{
    int64_t most_ms = client->options.recovery_delay_ms;

    if (most_ms == 0 || ttl_ms <= most_ms) {
        return RQL_OK;
    }
    return rqli_fail(error, RQL_E_INVALID,
                     "a ttl of %lld ms is longer than recovery_delay_ms, which is %lld; nothing "
                     "was sent",
                     (long long)ttl_ms, (long long)most_ms);
}

rql_status rqli_call_options_read(const rql_client *client, rql_lock_options *out,
                                  const rql_lock_options *given, rql_error *error)
{
    rql_status status = rqli_lock_options_read(out, &client->of_calls, given, error);

    return status ? status : rqli_history_check_ttl(client, out->ttl_ms, error);
}
