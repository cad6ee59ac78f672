#include "lock/server_clock.h"

#include "base/clock.h"
#include "lock/leases.h"
#include "net/login/login.h"

/*
 * Dates pushes and tries by the server's clock, from the readings that replies brought.
 */

/* A limit that never comes. Scripts compare it as a number of Lua, which is a double. */
static const int64_t no_limit_us = INT64_C(1) << 53; /* as far as a double counts exactly */

void rqli_server_clock_learn(rql_client *client, struct rqli_node *node,
                             const struct rqli_clock_reading *reading)
{
    enum rqli_clock_offset_news news;

    rqli_client_on_round_trip(client, reading->received_us - reading->sent_us);
    (void)pthread_mutex_lock(&node->shared.mutex);
    news = rqli_clock_offset_add(&node->shared.clock_offset, reading->sent_us, reading->server_us,
                                 reading->received_us);
    (void)pthread_mutex_unlock(&node->shared.mutex);
    if (news == RQLI_CLOCK_OFFSET_STEPPED) {
        /* After the mutex is released: the mutex of the leases is never taken within it. */
        rqli_leases_doubt(client->leases, NULL, NULL);
    }
}

/* Returns the latest time that the server's clock may show; INT64_MAX: nothing is known of it. */
static int64_t latest_at(struct rqli_node *node, int64_t now_us)
{
    int64_t latest_us;

    (void)pthread_mutex_lock(&node->shared.mutex);
    latest_us = rqli_clock_offset_server_latest(&node->shared.clock_offset, now_us);
    (void)pthread_mutex_unlock(&node->shared.mutex);
    return latest_us;
}

bool rqli_server_clock_range(struct rqli_node *node, int64_t now_us, int64_t *earliest_out,
                             int64_t *latest_out)
{
    const struct rqli_clock_offset *clock_offset = &node->shared.clock_offset;

    (void)pthread_mutex_lock(&node->shared.mutex);
    *earliest_out = rqli_clock_offset_server_earliest(clock_offset, now_us);
    *latest_out = rqli_clock_offset_server_latest(clock_offset, now_us);
    (void)pthread_mutex_unlock(&node->shared.mutex);
    return *latest_out != INT64_MAX;
}

/* Returns for how long a try may be on its way. */
static int64_t longest_way_us(const rql_client *client)
{
    return 2 * client->options.io_timeout_ms * 1000;
}

int64_t rqli_server_clock_not_after(const rql_client *client, struct rqli_node *node,
                                    int64_t now_us)
{
    int64_t latest_us = latest_at(node, now_us);

    /* Nothing is known of the server's clock: the script gets a limit that does not come. */
    if (latest_us == INT64_MAX) {
        return no_limit_us;
    }
    return latest_us + longest_way_us(client);
}

/* The limit of a try counts from the latest time that the server's clock may have shown. If it
 * showed the earliest time, it reaches the limit later by the difference. */
int64_t rqli_server_clock_refused_us(const rql_client *client, struct rqli_node *node,
                                     int64_t now_us)
{
    int64_t earliest_us;
    int64_t latest_us;
    bool is_known = rqli_server_clock_range(node, now_us, &earliest_us, &latest_us);

    return now_us + longest_way_us(client) + (is_known ? latest_us - earliest_us : 0);
}

bool rqli_server_clock_earliest(struct rqli_node *node, int64_t server_us, int64_t now_us,
                                int64_t *out_us)
{
    bool is_known;

    (void)pthread_mutex_lock(&node->shared.mutex);
    is_known = rqli_clock_offset_earliest(&node->shared.clock_offset, server_us, now_us, out_us);
    (void)pthread_mutex_unlock(&node->shared.mutex);
    return is_known;
}

/* The readings of threads are on their connection. Loops have connections of their own, whose
 * readings are known to the node's clock. */
int64_t rqli_server_clock_now_us(rql_client *client)
{
    struct rqli_clock_reading reading;
    int64_t latest_us;

    if (rqli_conn_clock(rqli_client_conn(client), &reading)) {
        /* The server read its clock after sent_us, so this is its time now or a little later. */
        return reading.server_us + (rqli_now_us() - reading.sent_us);
    }
    latest_us = latest_at(&client->fleet.first, rqli_now_us());
    return latest_us == INT64_MAX ? -1 : latest_us;
}
