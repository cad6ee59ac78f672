#include "lock/client.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/text.h"
#include "lock/hosts.h"
#include "lock/leases.h"
#include "net/conn_threads.h"
#include "net/socket.h"
#include "net/subscription.h"
#include "observe/stats.h"
#include "options/options.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_GRACE_US = 50000, MOST_MORE_US = 50000 };

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

/* Follows what becomes faster more closely than what becomes slower, and one that took very long by
 * little: it was held up, and is not the way to the server. Readers and writers may mix: the next
 * reply mends it. */
void rqli_client_on_round_trip(rql_client *client, int64_t took_us)
{
    int64_t before_us = atomic_load_explicit(&client->round_trip_us, memory_order_relaxed);
    int64_t most_us = 2 * before_us + MOST_MORE_US;

    if (before_us > 0) {
        took_us = took_us < most_us ? took_us : most_us;
        took_us = before_us + (took_us - before_us) / (took_us > before_us ? 8 : 2);
    }
    atomic_store_explicit(&client->round_trip_us, took_us, memory_order_relaxed);
}

int64_t rqli_client_grace_us(const rql_client *client)
{
    int64_t grace_us = 2 * atomic_load_explicit(&client->round_trip_us, memory_order_relaxed);

    return grace_us > LEAST_GRACE_US ? grace_us : LEAST_GRACE_US;
}

int64_t rqli_client_budget_us(const rql_client *client, int64_t now_us)
{
    return rqli_after_ms(now_us,
                         client->options.connect_timeout_ms + client->options.io_timeout_ms);
}

RQLI_DEFINE_AUTO(rql_client *, rqli_client_free);

static void abandon(void *self)
{
    rql_client *client = self;

    rqli_conn_abandon(client->conn);
    rqli_push_threads_abandon(client->pushes);
    rqli_leases_abandon(client->leases);
}

static void set_up_endpoint(rql_client *client)
{
    client->endpoint.connect_timeout_ms = client->options.connect_timeout_ms;
    client->endpoint.io_timeout_ms = client->options.io_timeout_ms;
    client->endpoint.spin_us = client->options.spin_us;
    client->endpoint.identity = client->identity;
    client->endpoint.stats = client->stats;
    client->url = strdup(client->options.url);
    client->options.url = NULL;
}

static rql_status build(rql_client *client, rql_error *error)
{
    client->stats = rqli_stats_new();
    set_up_endpoint(client);
    client->conn = rqli_conn_new(&client->endpoint);
    client->pushes = rqli_push_threads_new(&client->endpoint);
    client->leases = rqli_leases_new(client);
    client->hosts = rqli_hosts_new();
    if (!client->conn || !client->pushes || !client->leases || !client->stats || !client->hosts ||
        !client->url) {
        return rqli_fail_nomem(error);
    }
    if (!rqli_random_hex(client->identity)) {
        return rqli_fail(error, RQL_E_NOMEM, "client: the system gave no random numbers");
    }
    client->is_member = rqli_fork_join(&client->fork, abandon, client);
    return client->is_member ? RQL_OK : rqli_fail_nomem(error);
}

rql_status rqli_client_make(rql_client **out, const rql_options *options, rql_error *error)
{
    RQLI_AUTO(rqli_client_free) rql_client *client = NULL;
    rql_status status;

    client = calloc(1, sizeof *client);
    if (!client) {
        return rqli_fail_nomem(error);
    }
    (void)pthread_mutex_init(&client->shared.mutex, NULL);
    status = rqli_options_read(RQLI_OF_CLIENT, &client->options, NULL, options, error);
    if (!status) {
        rqli_options_fill(RQLI_OF_LOCK, &client->of_calls, &client->options);
        status = rqli_url_parse(&client->endpoint, client->options.url, error);
    }
    if (!status) {
        status = build(client, error);
    }
    if (status) {
        return status;
    }
    *out = RQLI_GIVE(client);
    return RQL_OK;
}

rql_client *rqli_client_free(rql_client *client)
{
    /* In a fork child threads that are not there may have been changing it: it stays. */
    if (!client || (client->is_member && rqli_fork_is_foreign(&client->fork))) {
        return NULL;
    }
    if (client->is_member) {
        rqli_fork_leave(&client->fork);
    }
    rqli_leases_free(client->leases);
    rqli_push_threads_free(client->pushes);
    rqli_conn_free(client->conn);
    rqli_stats_free(client->stats);
    rqli_hosts_free(client->hosts);
    rqli_freelist_fini(&client->handles);
    if (client->url) {
        explicit_bzero(client->url, strlen(client->url));
        free(client->url);
    }
    rqli_endpoint_fini(&client->endpoint);
    (void)pthread_mutex_destroy(&client->shared.mutex);
    free(client);
    return NULL;
}

/* Login found a replica: whether it still is one. Then its connection is dropped, for the next one
 * may lead to the master. */
static rql_status check_writable(const rql_client *client, int64_t deadline_us, rql_error *error)
{
    struct rqli_exchange *exchange = rqli_exchange_take(client->conn);
    rql_status status;

    if (!exchange) {
        return rqli_fail_nomem(error);
    }
    rqli_login_write_probe(&exchange->command);
    status = rqli_exchange_run(exchange, deadline_us, error);
    if (!status && exchange->reply->type == RQLI_REPLY_ERROR) {
        status =
            rqli_exchange_fault(exchange, exchange->reply, "ZREM", client->endpoint.where, error);
    }
    rqli_exchange_give(exchange);
    return status;
}

rql_status rql_client_connect(rql_client *client, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    int64_t deadline_us;
    rql_status status = rqli_client_check(client, error);

    if (status) {
        return status;
    }
    deadline_us = rqli_client_budget_us(client, rqli_now_us());
    status = rqli_conn_connect(client->conn, deadline_us, error);
    if (!status && rqli_conn_was_read_only(client->conn)) {
        status = check_writable(client, deadline_us, error);
    }
    return status;
}

const char *rql_client_identity(const rql_client *client)
{
    return client->identity;
}

const char *rql_current_acquirer_id(const rql_client *client, uint64_t task, char out[RQL_ID_SIZE])
{
    rqli_acquirer_id(out, task, client->identity);
    return out;
}

const char *rql_current_host_id(const rql_client *client, char out[RQL_ID_SIZE])
{
    rqli_host_id(out, rqli_thread_id(), client->identity);
    return out;
}

static const int64_t no_limit_us = INT64_C(1) << 53; /* as far as a double counts exactly */

void rqli_server_clock_learn(rql_client *client, const struct rqli_clock_reading *reading)
{
    enum rqli_clock_offset_news news;

    rqli_client_on_round_trip(client, reading->received_us - reading->sent_us);
    (void)pthread_mutex_lock(&client->shared.mutex);
    news = rqli_clock_offset_add(&client->shared.clock_offset, reading->sent_us, reading->server_us,
                                 reading->received_us);
    (void)pthread_mutex_unlock(&client->shared.mutex);
    if (news == RQLI_CLOCK_OFFSET_STEPPED) {
        rqli_leases_doubt(client->leases);
    }
}

int64_t rqli_server_clock_not_after(rql_client *client, int64_t now_us)
{
    int64_t latest_us;

    (void)pthread_mutex_lock(&client->shared.mutex);
    latest_us = rqli_clock_offset_server_latest(&client->shared.clock_offset, now_us);
    (void)pthread_mutex_unlock(&client->shared.mutex);
    if (latest_us == INT64_MAX) {
        return no_limit_us;
    }
    return latest_us + 2 * client->options.io_timeout_ms * 1000;
}

bool rqli_server_clock_earliest(rql_client *client, int64_t server_us, int64_t now_us,
                                int64_t *out_us)
{
    bool is_known;

    (void)pthread_mutex_lock(&client->shared.mutex);
    is_known = rqli_clock_offset_earliest(&client->shared.clock_offset, server_us, now_us, out_us);
    (void)pthread_mutex_unlock(&client->shared.mutex);
    return is_known;
}

int64_t rqli_server_clock_now_us(const rql_client *client)
{
    struct rqli_clock_reading reading;

    if (!rqli_conn_clock(client->conn, &reading)) {
        return -1;
    }
    return reading.server_us + (rqli_now_us() - reading.sent_us);
}

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
