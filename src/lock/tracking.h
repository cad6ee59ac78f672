#ifndef RQLI_TRACKING_H
#define RQLI_TRACKING_H

/* No push comes from Ruby. So the server is asked to tell our subscriber when it changes a lock
 * (CLIENT TRACKING, protocol.md 21). A hint: polling goes on in any case. */

#include "base/text.h"

#include <rql/client.h>

struct rqli_command;
struct rqli_push_view;

/* Arms one notice for the lock's next change. link_generation is the command connection's, `around`
 * the subscriber that is to be told. True: the lock is free by now, and that was heard in time. */
bool rqli_tracking_arm(rql_client *client, struct rqli_slice lock_key, uint64_t link_generation,
                       const struct rqli_push_view *around, int64_t until_us);

/* The commands for it, the last of which asks who holds the lock: nil, it is free.
 * subscriber_id: to redirect to, if that is to be set up; else 0. */
void rqli_tracking_write(struct rqli_command *command, struct rqli_slice lock_key,
                         int64_t subscriber_id);

#endif
