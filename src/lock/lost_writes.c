#include "lock/lost_writes.h"

#include "base/clock.h"
#include "lock/background.h"
#include "lock/leases.h"
#include "lock/notify.h"
#include "lock/server_clock.h"
#include "net/conn/conn_threads.h"
#include "observe/observe.h"

#include <stdlib.h>

/*
 * After a failover or a restart a server may have lost writes, and with them grants. So what is
 * held is verified at once, over a new connection. With recovery_delay_ms the server grants nothing
 * for that long, so that no lock is granted while another holder still relies on it. For the same
 * reason no lease may last longer than that.
 */

void rqli_lost_writes_tell_news(rql_client *client, struct rqli_era *era)
{
    struct rqli_figures figures = {0};

    if (!rqli_era_take_news(era, &figures.token, &figures.server_token)) {
        return;
    }
    if (figures.token > 0) {
        const struct rqli_subject subject = rqli_subject_of_client(client);

        figures.at_us = rqli_server_clock_now_us(client);
        rqli_observe(RQLI_ON_HISTORY_LOST, &subject, &figures);
    }
    rqli_leases_doubt(client->leases,
                      client->is_partitioned ? &rqli_key_sets[era - client->eras] : NULL, NULL);
}

void rqli_lost_writes_look_at_all(rql_client *client)
{
    for (size_t i = 0; i < rqli_client_n_sets(client); i++) {
        rqli_lost_writes_look(client, &client->eras[i]);
    }
}

/* ---- looking at the servers ---- */

/* True: the client has something to lose at this node. */
static bool is_in_use(const rql_client *client, const struct rqli_node *node)
{
    return !client->is_partitioned || rqli_fleet_holds_at(&client->fleet, node);
}

/* Checks each node that is in use, which closes each connection that has ended. */
static bool sees_end(rql_client *client)
{
    bool has_ended = false;

    for (struct rqli_node *node = &client->fleet.first; node; node = node->next) {
        has_ended |= is_in_use(client, node) && rqli_node_sees_end(node);
    }
    return has_ended;
}

static rql_status arrive_at(rql_client *client, struct rqli_node *node)
{
    int64_t until_us;
    rql_status status;

    rqli_background_lock(client->background);
    until_us = rqli_background_wait_until_us(client->background);
    rqli_background_unlock(client->background);
    rqli_conn_hurry(node->background, RQLI_SERVER_LOOK_US);
    status = rqli_conn_connect(node->background, until_us, NULL);
    if (status) {
        rqli_fleet_on_silence(&client->fleet, node);
    }
    return status;
}

/* Connects to each node that has something to lose. Returns false if one could not be reached. */
static bool arrive(const struct rqli_lost_writes *self)
{
    struct rqli_fleet *fleet = &self->client->fleet;
    bool has_all = true;

    for (struct rqli_node *node = &fleet->first; node; node = node->next) {
        if (is_in_use(self->client, node)) {
            has_all &= arrive_at(self->client, node) == RQL_OK;
        }
    }
    return has_all;
}

/* In a cluster, keys get another node when a slot moves, and when a replica is promoted that may
 * have missed grants. The keys of a single server stay where they are. */
static void look_for_moves(struct rqli_lost_writes *self)
{
    struct rqli_fleet *fleet = &self->client->fleet;

    for (size_t i = 0; i < rqli_client_n_sets(self->client); i++) {
        const struct rqli_key_set *set = rqli_client_nth_set(self->client, i);
        struct rqli_node *node = rqli_fleet_node(fleet, set);
        bool has_changed = self->seen_at[i] && self->seen_at[i] != node;

        self->seen_at[i] = node;
        if (has_changed && atomic_load(&fleet->n_held[rqli_key_set_index(set)]) > 0) {
            rqli_leases_doubt(self->client->leases, set, NULL);
        }
    }
}

/* Returns whether the thread watches leases, which may be lost. Caller holds the mutex of the
 * background. */
static bool is_needed(const struct rqli_background *background)
{
    return rqli_timers_first_us(&background->shared.losses) != RQLI_NEVER_US;
}

/* Looks, on the thread in the background, as long as it watches leases. A login finds out that the
 * server is another: before all calls it says what this client has seen (net/login/era.h). Then
 * what is held is verified. Nothing is sent as long as no connection has ended and no keys have
 * moved to another node. The caller holds the mutex of the background, which is released meanwhile.
 */
static void look(struct rqli_due *due)
{
    struct rqli_lost_writes *self = RQLI_OWNER(due, struct rqli_lost_writes, due);
    struct rqli_background *background = self->client->background;
    bool watches = is_needed(background);
    /* Cleared before the new connections are made, because one may end meanwhile. */
    bool has_ended = watches && atomic_exchange(&self->shall_arrive, false);

    rqli_background_unlock(background);
    has_ended |= watches && sees_end(self->client);
    if (has_ended && !arrive(self)) {
        atomic_store(&self->shall_arrive, true);
    }
    look_for_moves(self);
    rqli_lost_writes_look_at_all(self->client);
    rqli_background_lock(background);
    if (watches && !rqli_background_is_ending(background)) {
        rqli_background_look(background, due, rqli_now_us() + RQLI_SERVER_LOOK_US);
    }
}

/* A lock that is not watched may be watched later: then the thread has to look. */
void rqli_lost_writes_on_cut(rql_client *client)
{
    struct rqli_background *background = client->background;

    rqli_background_lock(background);
    if (client->leases->shared.all.first) {
        atomic_store(&client->lost_writes->shall_arrive, true);
    }
    if (is_needed(background)) {
        rqli_background_look(background, background->server_look, 0);
    }
    rqli_background_unlock(background);
}

struct rqli_lost_writes *rqli_lost_writes_new(rql_client *client)
{
    struct rqli_lost_writes *self =
        calloc(1, sizeof *self + rqli_client_n_sets(client) * sizeof(struct rqli_node *));

    if (!self) {
        return NULL;
    }
    self->client = client;
    self->due.fire = look;
    /* The first step of the thread notes the node of each partition, so that no move is missed. */
    rqli_timers_set(&client->background->shared.looks, &self->due, 0);
    client->background->server_look = &self->due;
    return self;
}
