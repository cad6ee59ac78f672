#include "lock/tracking.h"

#include "lock/client.h"
#include "net/conn_threads.h"
#include "net/push_threads.h"

#include <stdio.h>

/* Once for each pair of connections: changes of keys that we look at go to our subscriber. */
static bool needs_set_up(rql_client *client, uint64_t conn, uint64_t subscriber)
{
    bool needed;

    (void)pthread_mutex_lock(&client->shared.mutex);
    needed =
        client->shared.tracking_link != conn || client->shared.tracking_subscriber != subscriber;
    client->shared.tracking_link = conn;
    client->shared.tracking_subscriber = subscriber;
    (void)pthread_mutex_unlock(&client->shared.mutex);
    return needed;
}

void rqli_tracking_write(struct rqli_command *command, struct rqli_slice lock_key,
                         int64_t subscriber_id)
{
    char id[24];

    if (subscriber_id > 0) {
        (void)snprintf(id, sizeof id, "%lld", (long long)subscriber_id);
        rqli_command_words(command, "CLIENT", "TRACKING", "ON", "REDIRECT", id, "OPTIN", NULL);
    }
    /* In one write: a command in between would use up the opt-in. */
    rqli_command_words(command, "CLIENT", "CACHING", "YES", NULL);
    rqli_command_begin(command, 3);
    rqli_command_text(command, "HGET");
    rqli_command_slice(command, lock_key);
    rqli_command_text(command, "acq_id");
}

bool rqli_tracking_arm(rql_client *client, struct rqli_slice lock_key, uint64_t link_generation,
                       const struct rqli_push_view *around, int64_t until_us)
{
    struct rqli_exchange *exchange = rqli_exchange_take(client->conn);
    bool is_free = false;

    if (!exchange) {
        return false;
    }
    rqli_tracking_write(
        &exchange->command, lock_key,
        needs_set_up(client, link_generation, around->generation) ? around->client_id : 0);
    if (rqli_exchange_run(exchange, until_us, NULL) == RQL_OK) {
        is_free = exchange->reply[exchange->command.n_commands - 1].type == RQLI_REPLY_NIL;
    }
    rqli_exchange_give(exchange);
    return is_free;
}
