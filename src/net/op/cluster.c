#include "net/op/cluster.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/pause.h"
#include "base/random.h"
#include "net/fleet/map.h"
#include "net/login/client_name.h"
#include "net/login/era.h"
#include "net/login/sentinels.h"
#include "net/op/op.h"
#include "net/op/op_threads.h"
#include "net/sock/shards.h"

#include <stdlib.h>

enum {
    ASK_MS = 300,        /* for each node that is asked, while there are more to ask */
    TELL_MOST_MS = 1000, /* at most, for each node that is notified of keys */
    NAME_MS = 1000,      /* for the call that writes the client's name */
    UNUSED_US = 60000000,
    DOWN_US = 1000000, /* for which other nodes are asked rather than one that did not answer */
    TROUBLE_MS = 5000, /* after a silence, while the map may change at any moment */
};

/* Applies a map. A node that is given keys may be far away or slow, so after a failure it has more
 * time. */
static void apply(struct rqli_cluster *self, const struct rqli_slots *slots, int64_t ask_ms)
{
    self->is_told =
        rqli_map_apply(self->fleet, slots, rqli_later(ask_ms, self->tell_ms), &self->shall_stop);
    self->tell_ms = self->is_told ? ASK_MS : rqli_earlier(2 * self->tell_ms, TELL_MOST_MS);
}

/* Asks a node for the map. A server that does not know the command has no map: then there is no
 * fault, and this server counts as the only one. */
static bool ask_for_map(struct rqli_batch *batch, const struct rqli_node *node, int64_t ask_ms,
                        struct rqli_slots *out, rql_error *fault)
{
    static const char command[] = "CLUSTER SLOTS";
    const char *where = rqli_node_where(node);
    rql_status status;

    rqli_command_words(&batch->command, "CLUSTER", "SLOTS", NULL);
    status = rqli_conn_run(batch, rqli_after_ms(rqli_now_us(), ask_ms), fault);
    if (status == RQL_E_UNKNOWN) {
        (void)rqli_fail(fault, RQL_E_IO, "%s on %s: no answer, or one that is too large", command,
                        where);
    }
    if (status || rqli_slots_read(out, batch->reply, &node->site.address)) {
        return status == RQL_OK;
    }
    if (rqli_reply_fault(batch->reply, command, where, fault) == RQL_E_SERVER) {
        *fault = (rql_error){0};
    }
    return false;
}

/* Keeps the fault of a node that did not return the map. A node that has answered says more than
 * one that has not. */
static void note_fault(struct rqli_cluster *self, const rql_error *fault)
{
    if (self->fault.status == RQL_OK || self->fault.status == RQL_E_IO) {
        self->fault = *fault;
    }
}

/* Reads the map from a node, over its connection for calls, so that no further one is needed. */
static bool read_from(struct rqli_cluster *self, struct rqli_node *node, int64_t ask_ms)
{
    struct rqli_conn *conn = node->conns.each[0];
    struct rqli_batch *batch = rqli_batch_take(conn);
    struct rqli_slots *slots = malloc(sizeof *slots);
    rql_error fault = {0};
    bool is_read = false;

    rqli_conn_count_internal(conn, 1);
    if (batch && slots) {
        is_read = ask_for_map(batch, node, ask_ms, slots, &fault);
    } else {
        (void)rqli_fail_nomem(&fault);
    }
    rqli_conn_count_internal(conn, -1);
    if (is_read) {
        apply(self, slots, ask_ms);
    } else {
        note_fault(self, &fault);
    }
    free(slots);
    rqli_batch_give(batch);
    return is_read;
}

/* The nodes to ask for the map. Each node is either named by the URL or one of the others. */
enum circle { WITH_KEYS, NAMED, OTHERS };

static struct rqli_node *next_of(const struct rqli_cluster *self, struct rqli_node *node,
                                 enum circle circle)
{
    if (circle == WITH_KEYS) {
        return rqli_fleet_next(self->fleet, node, NULL);
    }
    do {
        node = node ? node->next : &self->fleet->first;
    } while (node && node->is_named != (circle == NAMED));
    return node;
}

/* Returns true if the node has just failed to answer: it is slow, or it is partitioned and its map
 * is stale. */
static bool is_down(const struct rqli_node *node)
{
    int64_t down_us = atomic_load(&node->down_us);

    return down_us > 0 && rqli_now_us() < down_us + DOWN_US;
}

/* Starts with a node that is chosen at random, so that not all clients ask the same one. */
static bool read_from_any(struct rqli_cluster *self, enum circle circle, int64_t ask_ms)
{
    struct rqli_node *node = NULL;
    bool is_read = false;
    uint32_t count = 0;

    while ((node = next_of(self, node, circle))) {
        count++;
    }
    for (uint32_t skip = rqli_random_below(count); skip > 0; skip--) {
        node = next_of(self, node, circle);
    }
    for (; count > 0 && !is_read && !atomic_load(&self->shall_stop); count--) {
        node = next_of(self, node, circle);
        node = node ? node : next_of(self, NULL, circle);
        is_read = !(circle == WITH_KEYS && is_down(node)) && read_from(self, node, ask_ms);
    }
    return is_read;
}

/* Returns the limit for a node that is far away. */
static int64_t longest_ms(const struct rqli_cluster *self)
{
    const struct rqli_site *site = &self->fleet->first.site;

    return site->session->connect_timeout_ms + site->session->io_timeout_ms;
}

/* Asks the node that an error reply named last, because it has keys that other nodes may not know
 * of yet; then the nodes that have keys by the last map, if there is one; then those that the URL
 * names; then the others, which may be many: an address that has had keys stays known when no
 * server answers there any more. Before the first map the nodes of the URL are asked again at the
 * end with a longer limit, because they may be far away. */
static bool read_map(struct rqli_cluster *self)
{
    int32_t map = atomic_load(&self->fleet->map);
    struct rqli_node *named = atomic_exchange(&self->fleet->named, NULL);

    return (named && read_from(self, named, ASK_MS)) ||
           (map == RQLI_MAP_READ && read_from_any(self, WITH_KEYS, ASK_MS)) ||
           read_from_any(self, NAMED, ASK_MS) || read_from_any(self, OTHERS, ASK_MS) ||
           (map != RQLI_MAP_READ && read_from_any(self, NAMED, longest_ms(self)));
}

/* Reads the map. Returns when to read it again. */
static int64_t look_at_map(struct rqli_cluster *self, int64_t now_us)
{
    struct rqli_fleet *fleet = self->fleet;
    bool is_fine;

    atomic_store(&fleet->read_us, now_us);
    self->fault = (rql_error){0};
    is_fine = read_map(self);
    rqli_fleet_note_fault(fleet, &self->fault);
    if (is_fine || atomic_load(&fleet->map) == RQLI_MAP_UNKNOWN) {
        rqli_map_settle(fleet);
        atomic_store(&fleet->map, is_fine ? RQLI_MAP_READ : RQLI_MAP_NOWHERE);
        rqli_signal_wake(&fleet->map);
    }
    atomic_store(&fleet->over_us, now_us);
    (void)atomic_fetch_add(&fleet->n_read, 1);
    rqli_signal_wake(&fleet->n_read);
    is_fine = is_fine && self->is_told &&
              now_us > rqli_after_ms(atomic_load(&fleet->silent_us), TROUBLE_MS);
    return rqli_after_ms(now_us, is_fine ? self->refresh_ms : RQLI_MAP_SILENT_MS);
}

/* Writes the client's name to its server. Nothing depends on it: after a failure it is written
 * later. */
static void say_name(struct rqli_cluster *self, int64_t now_us)
{
    const struct rqli_client_name *name = self->fleet->first.site.session->name;
    struct rqli_node *node = rqli_fleet_node(self->fleet, &rqli_key_sets[0]);
    const struct rqli_op_route route = {
        .fleet = self->fleet, .node = node, .conn = node->conns.each[0]};
    struct rqli_batch *answer = NULL;
    struct rqli_call call;
    rql_status status;

    self->name_us = RQLI_NEVER_US;
    if (name) {
        rqli_client_name_call(name, &call);
        rqli_conn_count_internal(route.conn, 1);
        status = rqli_call_run(&route, &call, rqli_after_ms(now_us, NAME_MS), &answer, NULL);
        rqli_conn_count_internal(route.conn, -1);
        rqli_batch_give(answer);
        self->name_us =
            status ? now_us + RQLI_PAUSE_NAME.first_us : rqli_after_ms(now_us, RQLI_CLIENT_NAME_MS);
    }
}

/* Closes unused connections, but not those to a node where locks are held: their end shows a
 * failover. */
static void end_unused(struct rqli_cluster *self)
{
    for (struct rqli_node *node = &self->fleet->first; node; node = node->next) {
        if (!rqli_fleet_holds_at(self->fleet, node)) {
            rqli_node_end_unused(node, self->unused_us);
        }
    }
}

static int64_t step(struct rqli_worker *worker)
{
    struct rqli_cluster *self = (struct rqli_cluster *)worker;
    int64_t now_us = rqli_now_us();
    int64_t again_us;

    if (atomic_load(&self->shall_stop)) {
        return RQLI_WORKER_OVER;
    }
    if (!atomic_load(&self->fleet->is_wanted)) {
        return RQLI_NEVER_US;
    }
    again_us = now_us + self->unused_us;
    if (self->refresh_ms > 0) { /* each step reads the map */
        again_us = look_at_map(self, now_us);
    }
    if (now_us >= self->name_us && !atomic_load(&self->shall_stop)) {
        say_name(self, now_us);
    }
    end_unused(self);
    return rqli_earlier(again_us, self->name_us);
}

bool rqli_cluster_start(struct rqli_cluster *self)
{
    return rqli_worker_start(&self->worker);
}

struct rqli_cluster *rqli_cluster_free(struct rqli_cluster *self)
{
    if (self) {
        atomic_store(&self->shall_stop, true);
        rqli_worker_rouse(&self->worker, 0);
        rqli_worker_stop(&self->worker);
        self->fleet->worker = NULL;
        self->fleet->map_reader = NULL;
        free(self);
    }
    return NULL;
}

/* Gives each partition to a server, once and for all: the choice follows from the servers' names.
 * Returns false if there is no memory. */
static bool share_out(struct rqli_fleet *fleet)
{
    struct rqli_site *first = &fleet->first.site;
    const struct rqli_url *url = first->session->url;
    char texts[RQLI_HOSTS_MAX][RQLI_ADDRESS_TEXT_SIZE];
    const char *names[RQLI_HOSTS_MAX];
    size_t count = rqli_url_shards(url, texts, names);

    if (!rqli_site_name(first)) { /* by its own address, not by the list */
        return false;
    }
    for (unsigned p = 0; p < RQLI_PARTITIONS; p++) {
        size_t n = rqli_shard_of(names, count, p);
        struct rqli_node *node =
            first->master ? rqli_fleet_of_master(fleet, &first->master->sentinels->masters[n])
                          : rqli_fleet_at(fleet, &url->hosts[n]);

        if (!node) {
            return false;
        }
        rqli_fleet_give(fleet, p, node);
    }
    return true;
}

/* Adds the nodes that the URL names. Returns false if there is no memory. */
static bool add_nodes(struct rqli_fleet *fleet)
{
    const struct rqli_url *url = fleet->first.site.session->url;

    for (size_t i = 0; i < url->n_hosts; i++) {
        struct rqli_node *node = rqli_fleet_at(fleet, &url->hosts[i]);

        if (!node) {
            return false;
        }
        node->is_named = true;
    }
    return true;
}

struct rqli_cluster *rqli_cluster_new(struct rqli_fleet *fleet, int64_t refresh_ms)
{
    const struct rqli_session *session = fleet->first.site.session;
    struct rqli_cluster *self = calloc(1, sizeof *self);

    if (self) {
        self->worker.name = "rql-cluster";
        self->worker.step = step;
        self->fleet = fleet;
        self->refresh_ms = refresh_ms;
        self->tell_ms = ASK_MS;
        self->unused_us = UNUSED_US;
        fleet->worker = &self->worker;
        fleet->map_reader = refresh_ms > 0 ? &self->worker : NULL;
        fleet->tells_first = fleet->map_reader && !session->is_bare && session->eras->pause_ms > 0;
        if (refresh_ms > 0 ? !add_nodes(fleet) : !share_out(fleet)) {
            self = rqli_cluster_free(self);
        }
    }
    return self;
}
