#include "lock/client.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/scope.h"
#include "base/text.h"
#include "base/threads.h"
#include "net/conn/conn_threads.h"
#include "net/login/login.h"
#include "net/op/op_threads.h"
#include "options/options.h"

/*
 * The parts that every call of a client needs: checks of its arguments, time budgets, and plain
 * commands over its connection. client_new.c makes and ends a client.
 */

/* The least grace; and by how much one round trip may count beyond twice the average before it. */
enum { LEAST_GRACE_US = 50000, MOST_MORE_US = 50000 };

struct rqli_conn *rqli_client_conn(rql_client *client)
{
    return rqli_conns_choose(&client->fleet.first.conns);
}

rql_status rqli_client_find_node(rql_client *client, size_t n, struct rqli_node **out,
                                 rql_error *error)
{
    struct rqli_node *node;
    size_t left = n;

    rqli_fleet_on_use(&client->fleet);
    rqli_fleet_await_map(&client->fleet, rqli_client_until_us(client, rqli_now_us()));
    node = rqli_fleet_next(&client->fleet, NULL, NULL);
    for (; node && left > 0; left--) {
        node = rqli_fleet_next(&client->fleet, node, NULL);
    }
    *out = node;
    return node ? RQL_OK
                : rqli_fail(error, RQL_NOT_FOUND, "the client knows no server with the index %zu",
                            n);
}

/* Also guards against use after fork(): the sockets and threads of a client belong to its
 * process. */
rql_status rqli_client_check_process(const rql_client *client, rql_error *error)
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

rql_status rqli_client_check(const rql_client *client, rql_error *error)
{
    rql_status status = rqli_client_check_process(client, error);

    if (!status && client->options.bare_login) {
        status = rqli_fail(error, RQL_E_INVALID,
                           "the client has bare_login set: it sends only single commands and "
                           "pings; nothing was sent");
    }
    return status;
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

rql_status rqli_client_fail_draining(const char *name, rql_error *error)
{
    return rqli_fail(error, RQL_E_UNAVAILABLE, "%s: its client is drained; nothing was taken",
                     name);
}

bool rqli_client_tries_again(rql_client *client, rql_status fault)
{
    if (fault == RQL_E_IO) {
        return atomic_load_explicit(&client->was_connected, memory_order_relaxed) ||
               rqli_fleet_may_answer(&client->fleet);
    }
    return fault == RQL_E_UNKNOWN || fault == RQL_E_UNAVAILABLE || fault == RQL_E_READ_ONLY;
}

rql_status rqli_client_check_ttl(const rql_client *client, int64_t ttl_ms, rql_error *error)
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

static rql_status check_share(const rql_lock_options *options, rql_error *error)
{
    const long long units = options->share_units;
    const long long limit = options->share_limit;

    if (units == 0) {
        return RQL_OK;
    }
    if (units > limit) {
        return rqli_fail(error, RQL_E_INVALID,
                         "share_units is %lld, and share_limit %lld; it must not be more", units,
                         limit);
    }
    if (options->share_slots && (units > RQL_SLOT_UNITS_MAX || limit > RQL_SLOT_LIMIT_MAX)) {
        return rqli_fail(error, RQL_E_INVALID,
                         "share_slots with %lld units of %lld; there may be %d of %d", units, limit,
                         RQL_SLOT_UNITS_MAX, RQL_SLOT_LIMIT_MAX);
    }
    if (options->hold_at_least_ms > 0) {
        return rqli_fail(error, RQL_E_INVALID, "hold_at_least_ms is for locks that are not shared");
    }
    return RQL_OK;
}

rql_status rqli_call_options_read(const rql_client *client, rql_lock_options *out,
                                  const rql_lock_options *given, rql_error *error)
{
    rql_status status = rqli_lock_options_read(out, &client->of_calls, given, error);

    if (!status) {
        status = check_share(out, error);
    }
    if (!status && out->on_wanted && !out->auto_extend) {
        status = rqli_fail(error, RQL_E_INVALID, "on_wanted needs auto_extend");
    }
    return status ? status : rqli_client_check_ttl(client, out->ttl_ms, error);
}

/* Averages the round trips. The average follows a faster one more closely than a slower one, and a
 * very slow one only a little, because that call was held up and says nothing about the way to the
 * server. The first round trip counts as it is. Updates may overwrite each other: the next reply
 * corrects that. */
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

/* The time for connecting and for one reply, each with its own limit. */
int64_t rqli_client_until_us(const rql_client *client, int64_t now_us)
{
    return rqli_after_ms(now_us,
                         client->options.connect_timeout_ms + client->options.io_timeout_ms);
}

/* Checks whether the server, which was a replica at login, still is one, by a write that changes
 * nothing. If it is, its connection is dropped, because the next one may lead to the master. */
static rql_status check_writable(const struct rqli_node *node, struct rqli_conn *conn,
                                 int64_t deadline_us, rql_error *error)
{
    struct rqli_batch *batch = rqli_batch_take(conn);
    rql_status status;

    if (!batch) {
        return rqli_fail_nomem(error);
    }
    rqli_login_write_probe(&batch->command);
    status = rqli_conn_run(batch, deadline_us, error);
    if (!status && batch->reply->type == RQLI_REPLY_ERROR) {
        status = rqli_batch_fault(batch, batch->reply, "ZREM", node->site.where, error);
    }
    rqli_batch_give(batch);
    return status;
}

/* A replica is a fault here, although it could be read from, because no lock can be taken there. A
 * replica of a cluster is no fault: it knows the masters. */
static rql_status connect_to(rql_client *client, struct rqli_node *node, int64_t deadline_us,
                             rql_error *error)
{
    struct rqli_conn *conn = rqli_conns_choose(&node->conns);
    rql_status status = rqli_conn_connect(conn, deadline_us, error);

    if (!status && rqli_conn_was_read_only(conn) && !client->fleet.map_reader) {
        status = check_writable(node, conn, deadline_us, error);
    }
    return status;
}

/* Returns the first node with keys to which a connection is open; NULL: there is none. */
static struct rqli_node *find_connected(rql_client *client)
{
    struct rqli_node *node = rqli_fleet_next(&client->fleet, NULL, NULL);

    while (node && !rqli_conns_find_up(&node->conns)) {
        node = rqli_fleet_next(&client->fleet, node, NULL);
    }
    return node;
}

/* Connects to any node that has keys, because a server that is down takes only its own locks with
 * it. Each node has half of the time that is left, so that a silent one leaves time for others. */
static rql_status connect_to_any(rql_client *client, rql_error *error)
{
    struct rqli_fleet *fleet = &client->fleet;
    const int64_t limit_ms = client->options.connect_timeout_ms;
    const int64_t begun_us = rqli_now_us();
    rql_error fault = {0};
    struct rqli_node *node;
    rql_status status;

    rqli_fleet_on_use(fleet);
    rqli_fleet_await_map(fleet, rqli_after_ms(begun_us, limit_ms));
    status = rqli_fleet_check_map(fleet, error);
    if (status) {
        return status;
    }
    node = find_connected(client);
    node = node ? node : rqli_fleet_next(fleet, NULL, NULL);
    status = RQL_E_IO;
    while (node && (status == RQL_E_IO || status == RQL_E_UNAVAILABLE)) {
        const int64_t now_us = rqli_now_us();
        const int64_t left_us = rqli_after_ms(begun_us, 2 * limit_ms) - now_us;

        status = connect_to(client, node, now_us + left_us / 2, &fault);
        node = rqli_fleet_next(fleet, node, NULL);
    }
    return rqli_pass(error, status, &fault);
}

rql_status rql_client_connect(rql_client *client, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    int64_t deadline_us;
    rql_status status = rqli_client_check(client, error);

    if (status) {
        return status;
    }
    if (client->is_partitioned) {
        return connect_to_any(client, error);
    }
    deadline_us = rqli_after_ms(rqli_now_us(), client->options.connect_timeout_ms);
    return connect_to(client, &client->fleet.first, deadline_us, error);
}

const char *rql_client_identity(const rql_client *client)
{
    return client->identity;
}

const char *rql_client_acquirer_id(const rql_client *client, uint64_t task, char out[RQL_ID_SIZE])
{
    rqli_acquirer_id(out, task, client->identity);
    return out;
}

const char *rql_client_host_id(const rql_client *client, char out[RQL_ID_SIZE])
{
    rqli_host_id(out, rqli_thread_number(), client->identity);
    return out;
}

bool rqli_client_follows(rql_client *client, const struct rqli_key_set *set,
                         const struct rqli_reply *reply, struct rqli_retries *retries)
{
    enum rqli_verdict verdict = RQLI_FAULT;

    if (set) {
        verdict = rqli_call_verdict(&client->fleet, rqli_fleet_node(&client->fleet, set), set,
                                    reply, retries);
    }
    if (verdict == RQLI_DONE || verdict == RQLI_FAULT) {
        return false;
    }
    if (retries->again_us == 0) {
        retries->again_us = rqli_now_us();
    }
    return true;
}

struct rqli_batch *rqli_client_batch(rql_client *client, const struct rqli_key_set *set,
                                     int64_t until_us)
{
    if (!set) {
        return rqli_batch_take(rqli_client_conn(client));
    }
    rqli_fleet_on_use(&client->fleet);
    rqli_fleet_await_map(&client->fleet, until_us);
    return rqli_batch_take(rqli_conns_choose(&rqli_fleet_node(&client->fleet, set)->conns));
}

struct rqli_node *rqli_client_node_of(rql_client *client, const struct rqli_batch *batch)
{
    struct rqli_node *node = &client->fleet.first;

    while (!rqli_conns_find(&node->conns, batch->carrier)) {
        node = node->next;
    }
    return node;
}

rql_status rqli_client_run(rql_client *client, struct rqli_batch *batch, int64_t until_us,
                           rql_error *error)
{
    rql_status status = rqli_conn_run(batch, until_us, error);

    if (status == RQL_E_IO || status == RQL_E_UNKNOWN) {
        rqli_fleet_on_silence(&client->fleet, rqli_client_node_of(client, batch));
    }
    return status;
}

static rql_status run_words(rql_client *client, const struct rqli_key_set *set,
                            struct rqli_batch **out, rql_error *error, va_list words)
{
    const struct rqli_op_route route = rqli_client_route_of_all(client);
    struct rqli_call call;

    rqli_call_init_words(&call, set, words);
    return rqli_call_run(&route, &call, rqli_client_until_us(client, rqli_now_us()), out, error);
}

/* The set of keys that is no partition never moves: it belongs to the first server. */
rql_status rqli_query(rql_client *client, struct rqli_batch **out, rql_error *error, ...)
{
    rql_status status;
    va_list words;

    va_start(words, error);
    status = run_words(client, &rqli_key_sets[RQLI_WHOLE], out, error, words);
    va_end(words);
    return status;
}

rql_status rqli_query_about(rql_client *client, const struct rqli_keys *keys,
                            struct rqli_batch **out, rql_error *error, ...)
{
    rql_status status;
    va_list words;

    va_start(words, error);
    status = run_words(client, keys->set, out, error, words);
    va_end(words);
    return status;
}

rql_status rqli_named_init(struct rqli_named *self, const rql_client *client, const char *name,
                           rql_error *error)
{
    rql_status status = rqli_client_check(client, error);

    if (!status) {
        status = rqli_name_check(name, error);
    }
    if (!status) {
        rqli_keys_init(&self->keys, self->memory, rqli_client_key_set(client, name),
                       rqli_slice_of(name));
    }
    return status;
}
