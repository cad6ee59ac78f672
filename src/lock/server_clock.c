#include "lock/server_clock.h"

#include "base/clock.h"
#include "lock/leases.h"
#include "net/conn.h"
#include "net/socket.h"

/*
 * Dates pushes and tries by the server's clock, from the readings that replies brought.
 */

static const int64_t no_limit_us = INT64_C(1) << 53; /* as far as a double counts exactly */

/* Each reply that tells the time is a reading. A step of the server's clock puts all leases in
 * doubt: they count by ours, and what the server keeps may be over. */
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

/* When a request is too old to be served: its caller has gone by then. Two time-outs for replies
 * later than the latest that the server's clock can show now; without a reading yet there is no
 * limit. */
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

/* False: no reading yet, or none that says so. Of pushes, whose lease must not begin later than the
 * grant. */
bool rqli_server_clock_earliest(rql_client *client, int64_t server_us, int64_t now_us,
                                int64_t *out_us)
{
    bool is_known;

    (void)pthread_mutex_lock(&client->shared.mutex);
    is_known = rqli_clock_offset_earliest(&client->shared.clock_offset, server_us, now_us, out_us);
    (void)pthread_mutex_unlock(&client->shared.mutex);
    return is_known;
}

/* For logs and events only: no decision hangs on it. -1: nobody has connected yet. */
int64_t rqli_server_clock_now_us(const rql_client *client)
{
    struct rqli_clock_reading reading;

    if (!rqli_conn_clock(client->conn, &reading)) {
        return -1;
    }
    return reading.server_us + (rqli_now_us() - reading.sent_us);
}
