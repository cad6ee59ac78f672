#ifndef RQLI_SERVER_CLOCK_H
#define RQLI_SERVER_CLOCK_H

/* What a client knows of its servers' clocks. Any thread; takes the node's mutex. */

#include "lock/client.h"

struct rqli_clock_reading;

/* Every reply that carries the server's time sharpens what we know. A clock that was set makes all
 * leases doubtful. */
void rqli_server_clock_learn(rql_client *client, struct rqli_node *node,
                             const struct rqli_clock_reading *reading);

/* Server time after which a try that is sent now may not take effect any more: twice the time
 * budget from now. What was held up on its way for longer would take a lock for nobody. */
int64_t rqli_server_clock_not_after(const rql_client *client, struct rqli_node *node,
                                    int64_t now_us);

/* The earliest local time at which the server's clock may have shown server_us; false: nothing
 * recent is known of it. */
bool rqli_server_clock_earliest(struct rqli_node *node, int64_t server_us, int64_t now_us,
                                int64_t *out_us);

/* The server's time at now_us lies between *earliest_out and *latest_out, by the readings so
 * far. False: there are none. */
bool rqli_server_clock_range(struct rqli_node *node, int64_t now_us, int64_t *earliest_out,
                             int64_t *latest_out);

/* The last reading of the first server, carried on by the local clock; -1: there is none. No
 * earlier than the server's, so that what follows a grant is not dated before it. */
int64_t rqli_server_clock_now_us(rql_client *client);

#endif
