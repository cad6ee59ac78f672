#ifndef CONNECTED_H
#define CONNECTED_H

/* A command connection that is there before each test, and whose server is the test. */

#include "check.h"

#include "base/clock.h"
#include "net/sock/site.h"
#include "observe/stats.h"
#include "peer.h"

enum { LONG_MS = 20000 };

static char where[] = "here";
static const char nowhere[] = "/nonexistent/rql";
static const struct rqli_url url = {.arrangement = RQLI_SINGLE};
static struct rqli_session session;
static struct rqli_site site;
static struct rqli_conn *conn;
static int peer;

/* The connection is there. */
BEFORE_EACH(set_up)
{
    session = (struct rqli_session){.url = &url,
                                    .connect_timeout_ms = LONG_MS,
                                    .io_timeout_ms = LONG_MS,
                                    .stats = rqli_stats_new()};
    site = (struct rqli_site){.where = where, .path = nowhere, .session = &session};
    conn = rqli_conn_new(&site);
    assert_non_null(conn);
    peer = peer_of(conn);
}

AFTER_EACH(tear_down)
{
    conn = rqli_conn_free(conn);
    rqli_stats_free(session.stats);
    (void)close(peer);
}

/* Its caller has no time, and goes as soon as it has asked; all that may be sent is. */
static void leave(struct rqli_batch *batch)
{
    assert_int_equal(rqli_batch_await(batch, 0, NULL), RQL_E_UNKNOWN);
}

static int64_t in_time(void)
{
    return rqli_after_ms(rqli_now_us(), LONG_MS / 2);
}

#endif
