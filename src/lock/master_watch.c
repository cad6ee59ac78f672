#include "lock/master_watch.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/os.h"
#include "base/pause.h"
#include "lock/client.h"
#include "lock/lost_writes.h"
#include "net/login/login.h"

#include <stdlib.h>

/* The sentinels are asked every sentinel_check_ms, and every RQLI_PAUSE_SENTINEL while they give no
 * answer or say that a master is down. */

/* After which a right that was missing is asked for again: a user may have got it. */
enum { REFUSED_MS = 60000 };

/* Logs in to a server that a sentinel names and that is not the one in use. If that server says
 * that it is the master, the login itself makes all connections go there. */
static void try_node(struct rqli_master_watch *self, const struct rqli_master *master)
{
    const struct rqli_seat nobody = {0};
    struct rqli_clock_reading reading;
    int64_t deadline_us = rqli_after_ms(rqli_now_us(), master->site->session->connect_timeout_ms);

    self->probe.site = master->site;
    if (rqli_login(&self->probe, &nobody, deadline_us, &reading, NULL) == RQL_OK) {
        rqli_socket_close(&self->probe);
    }
}

/* Subscribes to news of failovers. It does not need them, and the sentinels' user may lack the
 * right: each refusal costs a connection. */
static void subscribe(struct rqli_master_watch *self, int64_t now_us, int64_t deadline_us)
{
    if (now_us >= self->subscribe_us &&
        rqli_sentinels_subscribe(self->sentinels, &self->news, deadline_us) == RQL_E_UNSUPPORTED) {
        self->subscribe_us = rqli_after_ms(now_us, REFUSED_MS);
    }
}

/* Asks about one master. Returns when to ask again. */
static int64_t ask_about(struct rqli_master_watch *self, struct rqli_master *master)
{
    int64_t begun_us = rqli_now_us();
    int64_t deadline_us = rqli_after_ms(begun_us, master->site->session->connect_timeout_ms);
    struct rqli_master_claim claim;
    rql_status status = rqli_sentinels_find(master, begun_us, deadline_us, &claim, NULL);
    bool is_fine = !status && !claim.is_down;
    struct rqli_address at = rqli_master_at(master);

    if (!status && !rqli_address_is(&at, &claim.address)) {
        try_node(self, master);
    }
    if (!status && !rqli_sentinel_is_open(&self->news)) {
        subscribe(self, begun_us, deadline_us);
    }
    return is_fine ? rqli_after_ms(begun_us, self->client->options.sentinel_check_ms)
                   : begun_us + RQLI_PAUSE_SENTINEL.first_us;
}

/* Asks about all masters. Returns when to ask again: when it is time for one of them. */
static int64_t ask_about_all(struct rqli_master_watch *self)
{
    int64_t again_us = RQLI_NEVER_US;

    for (size_t i = 0; i < self->sentinels->n_masters; i++) {
        struct rqli_master *master = &self->sentinels->masters[i];

        if (rqli_master_at(master).host[0] != '\0' && !atomic_load(&self->shall_stop)) {
            again_us = rqli_earlier(again_us, ask_about(self, master));
        }
    }
    return again_us;
}

/* Asks, and then sleeps until it is time to ask again, there is news, another thread has found a
 * new master, or shall_stop is set. */
static int64_t step(struct rqli_worker *worker)
{
    struct rqli_master_watch *self = (struct rqli_master_watch *)worker;
    int64_t again_us;

    if (atomic_load(&self->shall_stop)) {
        return RQLI_WORKER_OVER;
    }
    again_us = ask_about_all(self);
    rqli_lost_writes_look_at_all(self->client);
    rqli_socket_await_bytes_or(&self->news.sock, self->sentinels->changed_fd, again_us);
    if (rqli_sentinel_is_open(&self->news)) {
        rqli_sentinel_take_news(&self->news);
    }
    rqli_lost_writes_look_at_all(self->client);
    return 0;
}

struct rqli_master_watch *rqli_master_watch_new(rql_client *client,
                                                struct rqli_sentinels *sentinels)
{
    struct rqli_master_watch *self = calloc(1, sizeof *self);

    if (self) {
        self->worker.name = "rql-sentinel";
        self->worker.step = step;
        self->client = client;
        self->sentinels = sentinels;
        rqli_sentinel_init(&self->news, &sentinels->site);
        self->probe.fd = -1;
    }
    return self && rqli_worker_start(&self->worker) ? self : rqli_master_watch_free(self);
}

struct rqli_master_watch *rqli_master_watch_free(struct rqli_master_watch *self)
{
    if (self) {
        atomic_store(&self->shall_stop, true);
        rqli_os_event_set(self->sentinels->changed_fd);
        rqli_worker_stop(&self->worker);
        rqli_sentinel_fini(&self->news);
        free(self);
    }
    return NULL;
}

void rqli_master_watch_abandon(struct rqli_master_watch *self)
{
    if (self) {
        rqli_fd_drop(&self->news.sock.fd);
        rqli_fd_drop(&self->probe.fd);
    }
}
