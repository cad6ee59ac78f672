#include "net/fleet/fleet.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/pause.h"
#include "base/random.h"
#include "net/login/slots.h"
#include "observe/observe.h"

#include <stdlib.h>

/*
 * Nodes are added when a map or an error reply names them, and stay to the end: pointers to them
 * need no reference counts, and a node never becomes another one. An unused node costs no
 * connection.
 */

enum {
    MOVED_MOST = 5,
    FLUSHED_MOST = 16, /* other clients may flush the server's scripts, but not this often */
};

bool rqli_fleet_init(struct rqli_fleet *self, unsigned connections)
{
    self->connections = connections;
    self->shared.last = &self->first;
    self->shared.n_nodes = 1;
    (void)pthread_mutex_init(&self->shared.mutex, NULL);
    for (size_t i = 0; i < RQLI_KEY_SETS; i++) {
        atomic_init(&self->of[i], &self->first);
    }
    return rqli_node_init(&self->first, connections);
}

static struct rqli_node *free_node(struct rqli_node *node)
{
    if (node) {
        rqli_node_fini(node);
        rqli_site_fini(&node->site);
        free(node);
    }
    return NULL;
}

void rqli_fleet_fini(struct rqli_fleet *self)
{
    struct rqli_node *node = self->first.next;

    while (node) {
        struct rqli_node *next = node->next;

        (void)free_node(node);
        node = next;
    }
    rqli_node_fini(&self->first);
    (void)pthread_mutex_destroy(&self->shared.mutex);
}

void rqli_fleet_abandon(struct rqli_fleet *self)
{
    for (struct rqli_node *node = &self->first; node; node = node->next) {
        rqli_node_abandon(node);
    }
}

static struct rqli_node *find(struct rqli_fleet *self, const struct rqli_address *address)
{
    struct rqli_node *node = &self->first;

    while (node && !rqli_address_is(&node->site.address, address)) {
        node = node->next;
    }
    return node;
}

/* Adds the node at this address, or of this master; the other one is NULL. Caller holds
 * self->shared.mutex. NULL: no memory. */
static struct rqli_node *add_node(struct rqli_fleet *self, const struct rqli_address *address,
                                  struct rqli_master *master)
{
    struct rqli_node *node = calloc(1, sizeof *node);

    if (node && (rqli_site_init(&node->site, self->first.site.session, address, master, NULL) ||
                 !rqli_node_init(node, self->connections))) {
        node = free_node(node);
    }
    if (node) {
        rqli_node_name(node);
        atomic_store_explicit(&self->shared.last->next, node, memory_order_release);
        self->shared.last = node;
        self->shared.n_nodes++;
    }
    return node;
}

static void report_lack(const struct rqli_fleet *self, const struct rqli_address *address)
{
    char text[RQLI_ADDRESS_TEXT_SIZE];
    const struct rqli_figures figures = {.server = rqli_address_print(address, text)};

    rqli_observe(RQLI_ON_TOO_MANY_NODES, self->first.site.session->subject, &figures);
}

/* Takes self->shared.mutex, and never blocks while it holds it. */
struct rqli_node *rqli_fleet_at(struct rqli_fleet *self, const struct rqli_address *address)
{
    struct rqli_node *node;
    bool is_full;
    bool is_news;

    (void)pthread_mutex_lock(&self->shared.mutex);
    node = find(self, address);
    is_full = self->shared.n_nodes == RQLI_NODES_MAX;
    if (!node && !is_full) {
        node = add_node(self, address, NULL);
    }
    is_news = !node && is_full && !self->shared.lacks_nodes;
    self->shared.lacks_nodes = self->shared.lacks_nodes || is_news;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (is_news) {
        report_lack(self, address);
    }
    return node;
}

struct rqli_node *rqli_fleet_of_master(struct rqli_fleet *self, struct rqli_master *master)
{
    struct rqli_node *node = &self->first;

    (void)pthread_mutex_lock(&self->shared.mutex);
    while (node && node->site.master != master) {
        node = node->next;
    }
    if (!node) {
        node = add_node(self, NULL, master);
        master->site = node ? &node->site : NULL;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return node;
}

/* Holds self->shared.mutex, so that when two threads give the same keys to different nodes the last
 * one leaves them with one node. A connection that logs in there and then asks for these keys has
 * sent arrive.lua for them. */
void rqli_fleet_give(struct rqli_fleet *self, unsigned partition, struct rqli_node *node)
{
    struct rqli_node *before;

    (void)pthread_mutex_lock(&self->shared.mutex);
    rqli_site_carry(&node->site, partition, true); /* it may have been a mere default */
    before = atomic_exchange_explicit(&self->of[partition], node, memory_order_acq_rel);
    if (before != node) {
        (void)atomic_fetch_add_explicit(&self->n_moves, 1, memory_order_relaxed);
        rqli_site_carry(&before->site, partition, false);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

bool rqli_fleet_holds_at(const struct rqli_fleet *self, const struct rqli_node *node)
{
    unsigned p = 0;

    while (p < RQLI_PARTITIONS &&
           (atomic_load_explicit(&self->n_held[p], memory_order_relaxed) == 0 ||
            rqli_fleet_node(self, &rqli_key_sets[p]) != node)) {
        p++;
    }
    return p < RQLI_PARTITIONS;
}

bool rqli_fleet_holds_apart(const struct rqli_fleet *self)
{
    const struct rqli_node *found = NULL;

    for (size_t i = 0; i < RQLI_KEY_SETS; i++) {
        const struct rqli_node *node =
            atomic_load(&self->n_held[i]) > 0 ? atomic_load(&self->of[i]) : found;

        if (found && node != found) {
            return true;
        }
        found = node;
    }
    return false;
}

/* Many errors give the same reason to read the map, so it is read twice a second at most. */
void rqli_fleet_read_map(struct rqli_fleet *self)
{
    (void)rqli_worker_rouse(self->map_reader,
                            rqli_after_ms(atomic_load(&self->read_us), RQLI_MAP_PAUSE_MS));
}

/* partitions NULL: any of them. */
static bool has_partitions(const struct rqli_fleet *self, const struct rqli_node *node,
                           const bool *partitions)
{
    for (unsigned p = 0; p < RQLI_PARTITIONS; p++) {
        if ((!partitions || partitions[p]) && rqli_fleet_node(self, &rqli_key_sets[p]) == node) {
            return true;
        }
    }
    return false;
}

struct rqli_node *rqli_fleet_next(struct rqli_fleet *self, struct rqli_node *node,
                                  const bool *partitions)
{
    struct rqli_node *next = node ? node->next : &self->first;

    while (next && !has_partitions(self, next, partitions)) {
        next = next->next;
    }
    return next;
}

/* Pauses for a random time between half of the longest pause and all of it. */
static enum rqli_verdict pause_before(struct rqli_retries *retries, struct rqli_pause pause)
{
    int64_t longest_us = rqli_pause_us(pause, retries->n_pauses);
    int64_t again_us;

    again_us = rqli_now_us() + longest_us / 2 + rqli_random_below((uint32_t)longest_us / 2 + 1);
    if (again_us >= retries->until_us) {
        return RQLI_FAULT;
    }
    if (retries->n_pauses < UINT8_MAX) {
        retries->n_pauses++;
    }
    retries->again_us = again_us;
    return RQLI_LATER;
}

/* Another node has the keys. If that node has to be notified first (tells_first), the call
 * waits. */
static enum rqli_verdict go_to(struct rqli_fleet *self, const struct rqli_address *address,
                               unsigned partition, struct rqli_retries *retries)
{
    struct rqli_node *other = rqli_fleet_at(self, address);

    if (other && self->tells_first) {
        atomic_store(&self->named, other);
        rqli_fleet_read_map(self);
        return pause_before(retries, RQLI_PAUSE_REDIRECT);
    }
    if (!other || retries->n_moved == MOVED_MOST) {
        return RQLI_FAULT;
    }
    retries->n_moved++;
    rqli_fleet_give(self, partition, other);
    rqli_fleet_read_map(self);
    return RQLI_THERE;
}

enum rqli_verdict rqli_call_verdict(struct rqli_fleet *fleet, struct rqli_node *node,
                                    const struct rqli_key_set *set, const struct rqli_reply *reply,
                                    struct rqli_retries *retries)
{
    struct rqli_address address;

    retries->again_us = 0;
    if (reply->type != RQLI_REPLY_ERROR) {
        return RQLI_DONE;
    }
    if (rqli_reply_wants_text(reply)) {
        return retries->n_flushed++ < FLUSHED_MOST ? RQLI_HERE : RQLI_FAULT;
    }
    if (!fleet->map_reader) {
        return RQLI_FAULT;
    }
    switch (rqli_way_of(reply, &node->site.address, &address)) {
    case RQLI_WAY_MOVED:
        return go_to(fleet, &address, rqli_key_set_index(set), retries);
    case RQLI_WAY_AGAIN:
        return pause_before(retries, RQLI_PAUSE_REDIRECT);
    case RQLI_WAY_DOWN:
        rqli_fleet_on_silence(fleet, node);
        return pause_before(retries, RQLI_PAUSE_CLUSTER_DOWN);
    case RQLI_WAY_NONE:
        break;
    }
    return RQLI_FAULT;
}

rql_status rqli_fail_moved(const char *where, const char *subject, rql_error *error)
{
    return rqli_fail(error, RQL_E_IO, "%s: %s has moved to another server; nothing was done", where,
                     subject);
}

void rqli_fleet_note_fault(struct rqli_fleet *self, const rql_error *fault)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.fault = *fault;
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

rql_status rqli_fleet_check_map(struct rqli_fleet *self, rql_error *error)
{
    rql_error fault;

    if (!self->map_reader || atomic_load(&self->map) != RQLI_MAP_NOWHERE) {
        return RQL_OK;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    fault = self->shared.fault;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (fault.status && error) {
        *error = fault;
    }
    return fault.status;
}

void rqli_fleet_await_next_map(struct rqli_fleet *self, int64_t since_us, int64_t until_us)
{
    int32_t seen = atomic_load(&self->n_read);

    while (atomic_load(&self->over_us) < since_us && !rqli_time_is_up(until_us)) {
        rqli_signal_wait(&self->n_read, seen, until_us);
        seen = atomic_load(&self->n_read);
    }
}

void rqli_fleet_on_silence(struct rqli_fleet *self, struct rqli_node *node)
{
    if (self->map_reader && !rqli_is_cancelled()) {
        int64_t now_us = rqli_now_us();

        atomic_store(&node->down_us, now_us);
        atomic_store(&self->silent_us, now_us);
        (void)rqli_worker_rouse(self->map_reader,
                                rqli_after_ms(atomic_load(&self->read_us), RQLI_MAP_SILENT_MS));
    }
}
