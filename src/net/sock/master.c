#include "net/sock/master.h"

#include "base/clock.h"

#include <stddef.h>
#include <sys/socket.h>

/* LEFT_US: by then all sentinels have heard of a failover, because they notify each other every two
 * seconds. */
enum { LEFT_US = 3000000 };

void rqli_master_init(struct rqli_master *self)
{
    *self = (struct rqli_master){.shared.epoch = RQLI_MASTER_NO_EPOCH};
    (void)pthread_mutex_init(&self->shared.mutex, NULL);
}

void rqli_master_fini(struct rqli_master *self)
{
    (void)pthread_mutex_destroy(&self->shared.mutex);
}

/* Without epochs only time tells that another failover leads back to the server that was left.
 * Caller holds self->shared.mutex. */
static bool may_lead_back(const struct rqli_master *self)
{
    return self->shared.epoch == RQLI_MASTER_NO_EPOCH &&
           rqli_now_us() - self->shared.left_us >= LEFT_US;
}

/* Caller holds self->shared.mutex. At the same epoch there is no way back: sentinels learn of a
 * failover one after the other, and some still name the server that was left. */
static bool may_be_master(const struct rqli_master *self, const struct rqli_master_claim *claim)
{
    if (rqli_address_is(&claim->address, &self->shared.at)) {
        return true;
    }
    if (claim->epoch != self->shared.epoch) {
        return claim->epoch > self->shared.epoch;
    }
    return !rqli_address_is(&claim->address, &self->shared.left) || may_lead_back(self);
}

/* Caller holds self->shared.mutex. */
static void learn_epoch(struct rqli_master *self, int64_t epoch)
{
    if (epoch > self->shared.epoch) {
        self->shared.epoch = epoch;
        self->shared.left = (struct rqli_address){0};
    }
}

bool rqli_master_hear(struct rqli_master *self, const struct rqli_master_claim *claim)
{
    bool is_fine;

    (void)pthread_mutex_lock(&self->shared.mutex);
    is_fine = may_be_master(self, claim);
    if (rqli_address_is(&claim->address, &self->shared.at)) {
        learn_epoch(self, claim->epoch);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return is_fine;
}

void rqli_master_forget(struct rqli_master *self)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.epoch = RQLI_MASTER_NO_EPOCH;
    self->shared.left = (struct rqli_address){0};
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Caller holds self->shared.mutex. */
static void end_others(struct rqli_master *self)
{
    for (struct rqli_dlink *at = self->shared.conns.first; at; at = at->next) {
        const struct rqli_master_conn *conn = (const struct rqli_master_conn *)at;

        if (conn->fd >= 0 && !rqli_address_is(&conn->node, &self->shared.at)) {
            (void)shutdown(conn->fd, SHUT_RDWR);
        }
    }
}

/* Caller holds self->shared.mutex. */
static enum rqli_master_news confirm_claim(struct rqli_master *self,
                                           const struct rqli_master_claim *claim)
{
    bool is_first = self->shared.at.host[0] == '\0';

    learn_epoch(self, claim->epoch);
    if (rqli_address_is(&self->shared.at, &claim->address)) {
        return RQLI_MASTER_SAME;
    }
    self->shared.left = self->shared.at;
    self->shared.left_us = rqli_now_us();
    self->shared.at = claim->address;
    return is_first ? RQLI_MASTER_FIRST : RQLI_MASTER_OTHER;
}

void rqli_master_enter(struct rqli_master *self, struct rqli_master_conn *conn,
                       const struct rqli_address *node)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    conn->fd = -1;
    conn->node = *node;
    conn->master = self;
    rqli_dlist_add_first(&self->shared.conns, &conn->link);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

void rqli_master_on_connected(struct rqli_master_conn *conn, int fd)
{
    struct rqli_master *self = conn->master;

    if (self) {
        (void)pthread_mutex_lock(&self->shared.mutex);
        conn->fd = fd;
        (void)pthread_mutex_unlock(&self->shared.mutex);
    }
}

enum rqli_master_news rqli_master_join(struct rqli_master *self, struct rqli_master_conn *conn,
                                       const struct rqli_master_claim *claim)
{
    enum rqli_master_news news = RQLI_MASTER_LEFT;

    (void)pthread_mutex_lock(&self->shared.mutex);
    if (may_be_master(self, claim)) {
        news = confirm_claim(self, claim);
        conn->node = claim->address;
    }
    if (news == RQLI_MASTER_OTHER) {
        end_others(self);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return news;
}

void rqli_master_leave(struct rqli_master_conn *conn)
{
    struct rqli_master *self = conn->master;

    if (self) {
        (void)pthread_mutex_lock(&self->shared.mutex);
        rqli_dlist_remove(&self->shared.conns, &conn->link);
        (void)pthread_mutex_unlock(&self->shared.mutex);
        conn->master = NULL;
    }
}

struct rqli_address rqli_master_at(struct rqli_master *self)
{
    struct rqli_address at;

    (void)pthread_mutex_lock(&self->shared.mutex);
    at = self->shared.at;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return at;
}
