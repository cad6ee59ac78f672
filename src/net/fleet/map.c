#include "net/fleet/map.h"

#include "base/scope.h"
#include "net/login/arrival.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Whether a partition has come with all its data, or only with the part of it that a replica had,
 * cannot be told from the data: in both cases its era is that of the server before. It has moved
 * completely if the server before still answers in the same run, and has slots by the same map,
 * because a replica that takes over gets all slots of its master. It has also moved completely if
 * all masters that have slots had some by the map before, because then none of them was a replica.
 * When in doubt there is a pause.
 */

enum { RUN_ID_BYTES = RQLI_RUN_ID_SIZE + 1 };

/* A master in the map. */
struct master {
    struct rqli_node *node; /* NULL: no memory */
    uint64_t generation;    /* of the connection over which it answers; 0: no answer */
    char run_id[RQLI_RUN_ID_SIZE];
};

/* One map, while the nodes are notified of the partitions that it gives them. */
struct telling {
    struct rqli_fleet *fleet;
    const struct rqli_slots *slots;
    int64_t ask_ms;
    const atomic_bool *shall_stop;
    struct master masters[RQLI_PARTITIONS];
    char run_ids[1 + 2 * RQLI_PARTITIONS * RUN_ID_BYTES]; /* servers that answer, as in era.h */
    struct rqli_arrivals arrivals;                        /* at one of them */
    unsigned told[RQLI_PARTITIONS];                       /* the partition of each of them */
};

RQLI_DEFINE_AUTO(struct rqli_batch *, rqli_batch_give);
RQLI_DEFINE_AUTO(struct telling *, free);

static struct master *owner_of(struct telling *self, unsigned partition)
{
    int owner = self->slots->owners[partition];

    return owner != RQLI_SLOT_IS_FREE && self->masters[owner].node ? &self->masters[owner] : NULL;
}

/* True: the partition's owner has it already, or there is no owner. */
static bool is_given(struct telling *self, unsigned partition)
{
    const struct master *owner = owner_of(self, partition);

    return !owner || (rqli_fleet_node(self->fleet, &rqli_key_sets[partition]) == owner->node &&
                      rqli_site_carries(&owner->node->site, partition));
}

/* ---- which servers answer ---- */

/* Finds out the server's run id, and checks by its answer that it is still in that run. Without the
 * right to INFO no run id is known. Returns the generation of the connection, or 0. */
static uint64_t meet(struct telling *self, struct rqli_node *node, char run_id[RQLI_RUN_ID_SIZE])
{
    struct rqli_conn *conn = node->conns.each[0];
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = rqli_batch_take(conn);
    size_t length = strlen(self->run_ids);
    rql_status status;

    if (!batch || atomic_load(self->shall_stop)) {
        return 0;
    }
    rqli_command_words(&batch->command, "PING", NULL);
    rqli_conn_count_internal(conn, 1);
    status = rqli_conn_run(batch, rqli_after_ms(rqli_now_us(), self->ask_ms), NULL);
    rqli_conn_count_internal(conn, -1);
    if (status || !rqli_conn_run_id(conn, batch->generation, run_id) || *run_id == '\0') {
        return 0;
    }
    (void)snprintf(self->run_ids + length, sizeof self->run_ids - length, "%s ", run_id);
    return batch->generation;
}

static bool is_master(const struct telling *self, const struct rqli_node *node)
{
    size_t i = 0;

    while (i < self->slots->n_masters && self->masters[i].node != node) {
        i++;
    }
    return i < self->slots->n_masters;
}

/* Asks the nodes that have given their last partition away. */
static void meet_givers(struct telling *self)
{
    char run_id[RQLI_RUN_ID_SIZE];

    for (size_t i = 0; i < self->slots->n_masters; i++) {
        if (!self->masters[i].node || !self->masters[i].node->has_slots) {
            return;
        }
    }
    for (struct rqli_node *node = &self->fleet->first; node; node = node->next) {
        if (node->has_slots && !is_master(self, node)) {
            (void)meet(self, node, run_id);
        }
    }
}

static void meet_all(struct telling *self)
{
    self->run_ids[0] = ' ';
    for (size_t i = 0; i < self->slots->n_masters; i++) {
        struct master *master = &self->masters[i];

        master->generation = master->node ? meet(self, master->node, master->run_id) : 0;
    }
    meet_givers(self);
}

/* ---- notifying the nodes ---- */

/* Writes arrive.lua for each new partition of the master. From now on a login there sends it, too,
 * so it does no harm if the server is restarted before the partition is its own. */
static void write_arrivals(struct telling *self, struct master *master,
                           struct rqli_command *command)
{
    struct rqli_site *site = &master->node->site;

    self->arrivals = (struct rqli_arrivals){.masters = rqli_slice_of(self->run_ids)};
    for (unsigned p = 0; p < RQLI_PARTITIONS; p++) {
        if (owner_of(self, p) == master && !is_given(self, p)) {
            self->told[self->arrivals.count] = p;
            rqli_site_carry(site, p, true);
            rqli_arrivals_add(&self->arrivals, site, &rqli_key_sets[p], master->run_id, command);
        }
    }
}

/* Gives the node the partitions that it has confirmed. It may have the other keys no more, or not
 * yet. */
static bool give(struct telling *self, const struct master *master, const struct rqli_batch *batch,
                 rql_status status)
{
    struct rqli_site *site = &master->node->site;
    bool is_whole = true;

    if (status) {
        rqli_arrivals_on_silence(&self->arrivals);
    }
    for (size_t i = 0; i < self->arrivals.count; i++) {
        if (!status) {
            (void)rqli_arrivals_read(&self->arrivals, site, &batch->reply[i], NULL);
        }
        if (self->arrivals.each[i].is_heard) {
            rqli_era_on_login(self->arrivals.each[i].era, master->run_id);
            rqli_fleet_give(self->fleet, self->told[i], master->node);
        } else {
            rqli_site_carry(site, self->told[i], false);
            is_whole = false;
        }
    }
    return is_whole;
}

/* Notifies a master, over the connection on which it has answered or not at all: another connection
 * may lead to another run. */
static bool tell(struct telling *self, struct master *master)
{
    struct rqli_conn *conn = master->node->conns.each[0];
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = rqli_batch_take(conn);
    rql_status status;

    if (!batch || master->generation == 0 || atomic_load(self->shall_stop)) {
        return false;
    }
    write_arrivals(self, master, &batch->command);
    rqli_conn_count_internal(conn, 1);
    status = rqli_batch_put(batch, master->generation, NULL);
    if (!status) {
        status = rqli_batch_await(batch, rqli_after_ms(rqli_now_us(), self->ask_ms), NULL);
    }
    rqli_conn_count_internal(conn, -1);
    master->generation = 0; /* once for all partitions */
    return give(self, master, batch, status);
}

/* All masters are asked for their run ids before the first is notified, because its keys may have
 * come from any of them. */
static bool tell_all(struct telling *self)
{
    bool is_whole = true;
    unsigned p = 0;

    while (p < RQLI_PARTITIONS && is_given(self, p)) {
        p++;
    }
    if (p == RQLI_PARTITIONS) {
        return true;
    }
    meet_all(self);
    for (; p < RQLI_PARTITIONS; p++) {
        is_whole = (is_given(self, p) || tell(self, owner_of(self, p))) && is_whole;
    }
    return is_whole;
}

/* ---- all of it ---- */

bool rqli_map_apply(struct rqli_fleet *fleet, const struct rqli_slots *slots, int64_t ask_ms,
                    const atomic_bool *shall_stop)
{
    RQLI_AUTO(free) struct telling *self = calloc(1, sizeof *self);
    bool is_whole = true;

    if (!self) {
        return false;
    }
    self->fleet = fleet;
    self->slots = slots;
    self->ask_ms = ask_ms;
    self->shall_stop = shall_stop;
    for (size_t i = 0; i < slots->n_masters; i++) {
        self->masters[i].node = rqli_fleet_at(fleet, &slots->masters[i]);
    }
    if (fleet->tells_first) {
        is_whole = tell_all(self);
    }
    for (unsigned p = 0; !fleet->tells_first && p < RQLI_PARTITIONS; p++) {
        if (owner_of(self, p)) {
            rqli_fleet_give(fleet, p, owner_of(self, p)->node);
        }
    }
    for (struct rqli_node *node = &fleet->first; node; node = node->next) {
        node->has_slots = is_master(self, node);
    }
    return is_whole;
}

void rqli_map_settle(struct rqli_fleet *fleet)
{
    bool is_new = false;

    for (unsigned p = 0; fleet->tells_first && p < RQLI_PARTITIONS; p++) {
        if (rqli_fleet_node(fleet, &rqli_key_sets[p]) == &fleet->first &&
            !rqli_site_carries(&fleet->first.site, p)) {
            rqli_site_carry(&fleet->first.site, p, true);
            is_new = true;
        }
    }
    if (is_new) {
        rqli_node_end_unused(&fleet->first, 0);
    }
}
