#include "net/login/arrival.h"

#include "base/error.h"
#include "net/login/slots.h"
#include "net/sock/site.h"

static struct rqli_era *era_of(const struct rqli_site *site, const struct rqli_key_set *set)
{
    unsigned index = rqli_key_set_index(set);

    return &site->session->eras[index == RQLI_WHOLE ? 0 : index];
}

void rqli_arrivals_add(struct rqli_arrivals *self, const struct rqli_site *site,
                       const struct rqli_key_set *set, const char *run_id,
                       struct rqli_command *command)
{
    struct rqli_era *era = era_of(site, set);

    self->each[self->count].era = era;
    self->each[self->count].floor = rqli_era_write(era, set, run_id, self->masters, command);
    self->count++;
}

/* Adds the call for one set, which goes out before any other call, because a script may grant.
 * Without a pause a replica is sent nothing: it would refuse the call, and it cannot grant. With a
 * pause it is sent the call, because it might become the master while this connection stands. */
static rql_status write_one(struct rqli_arrivals *self, const struct rqli_socket *sock,
                            const struct rqli_key_set *set, struct rqli_command *command,
                            rql_error *error)
{
    const struct rqli_era *era = era_of(sock->site, set);

    if (!rqli_era_wants(era) || (sock->is_read_only && era->pause_ms == 0)) {
        return RQL_OK;
    }
    if (era->pause_ms > 0 && !*sock->seat.run_id) {
        return rqli_fail(error, RQL_E_UNSUPPORTED,
                         "%s: recovery_delay_ms needs to know which server this is, and the user "
                         "has no right to ask for it (INFO)",
                         sock->site->where);
    }
    rqli_arrivals_add(self, sock->site, set, sock->seat.run_id, command);
    return RQL_OK;
}

/* Adds a call for each set of keys that the server has, as far as is known. */
rql_status rqli_arrivals_write(struct rqli_arrivals *self, const struct rqli_socket *sock,
                               struct rqli_command *command, rql_error *error)
{
    const struct rqli_site *site = sock->site;
    rql_status status = RQL_OK;

    if (site->session->eras && !rqli_site_is_partitioned(site)) {
        return write_one(self, sock, &rqli_key_sets[RQLI_WHOLE], command, error);
    }
    for (unsigned p = 0; !status && site->session->eras && p < RQLI_PARTITIONS; p++) {
        if (rqli_site_carries(site, p)) {
            status = write_one(self, sock, &rqli_key_sets[p], command, error);
        }
    }
    return status;
}

/* If keys are being moved, a set may belong to another node by now (MOVED), which is sent its own
 * call. A slot that no node serves yet, or that is being moved, does not fail the login, because
 * the server has other slots: the locks held in it are verified instead, until the server answers.
 * With a pause, a slot that is being moved does fail the login: it may stay here, and the server
 * could grant in it before it received the call. If the cluster is down or starting, no keys are
 * served: this fails too. */
rql_status rqli_arrivals_read(struct rqli_arrivals *self, const struct rqli_site *site,
                              const struct rqli_reply *reply, rql_error *error)
{
    enum rqli_way way = RQLI_WAY_NONE;
    struct rqli_address other;
    size_t i = self->n_read++;
    rql_status status;

    if (site->session->url->arrangement == RQLI_CLUSTER && reply->type == RQLI_REPLY_ERROR) {
        way = rqli_way_of(reply, &site->address, &other);
    }
    if (way == RQLI_WAY_NONE) {
        status = rqli_era_read(self->each[i].era, self->each[i].floor, reply, site->where, error);
        self->each[i].is_heard = !status;
        return status;
    }
    if (rqli_reply_says(reply, "CLUSTERDOWN The cluster is down") ||
        (way == RQLI_WAY_AGAIN && self->each[i].era->pause_ms > 0)) {
        return rqli_reply_fault(reply, "arrive", site->where, error);
    }
    if (way != RQLI_WAY_MOVED && self->each[i].floor > 0) {
        rqli_era_on_silence(self->each[i].era);
    }
    return RQL_OK;
}

void rqli_arrivals_on_silence(const struct rqli_arrivals *self)
{
    for (size_t i = 0; i < self->count; i++) {
        if (self->each[i].floor > 0) {
            rqli_era_on_silence(self->each[i].era);
        }
    }
}

void rqli_arrivals_end(const struct rqli_arrivals *self, const struct rqli_socket *sock,
                       rql_status status)
{
    const struct rqli_site *site = sock->site;
    bool is_partitioned = rqli_site_is_partitioned(site);

    if (status) {
        rqli_arrivals_on_silence(self);
    }
    for (unsigned p = 0;
         !status && site->session->eras && p < (is_partitioned ? RQLI_PARTITIONS : 1); p++) {
        if (!is_partitioned || rqli_site_carries(site, p)) {
            rqli_era_on_login(&site->session->eras[p], sock->seat.run_id);
        }
    }
}
