#ifndef RQLI_SERVER_CLOCK_H
#define RQLI_SERVER_CLOCK_H

/* A client's knowledge of its servers' clocks. Any thread; takes the node's mutex. */

#include "lock/client.h"

struct rqli_clock_reading;

/* Adds a reading from a reply that carries the server's time, which makes the known range smaller.
 * A clock that was set makes all leases doubtful. */
void rqli_server_clock_learn(rql_client *client, struct rqli_node *node,
                             const struct rqli_clock_reading *reading);

/* Returns the server time after which a try that is sent now may not take effect any more: twice
 * the time budget from now. A try that was held up on its way for longer would take a lock that no
 * caller waits for. */
int64_t rqli_server_clock_not_after(const rql_client *client, struct rqli_node *node,
                                    int64_t now_us);

/* Returns the local time from which the server refuses every try that was sent until now_us. It
 * refuses one that waits for replicas at that time or earlier. */
int64_t rqli_server_clock_refused_us(const rql_client *client, struct rqli_node *node,
                                     int64_t now_us);

/* Sets *out_us to the earliest local time at which the server's clock may have shown server_us;
 * false: nothing recent is known of that clock. */
bool rqli_server_clock_earliest(struct rqli_node *node, int64_t server_us, int64_t now_us,
                                int64_t *out_us);

/* Sets the limits of the server's time at now_us, by the readings so far: it lies between
 * *earliest_out and *latest_out. False: there are no readings. */
bool rqli_server_clock_range(struct rqli_node *node, int64_t now_us, int64_t *earliest_out,
                             int64_t *latest_out);

/* Returns the last reading of the first server, carried on by the local clock; -1: there is none.
 * It is no earlier than the server's time, so that events after a grant are not dated before it. */
int64_t rqli_server_clock_now_us(rql_client *client);

#endif
