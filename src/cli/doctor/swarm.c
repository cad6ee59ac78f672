#include "doctor.h"

#include <stdlib.h>
#include <string.h>

/* swarm: checks the hosts of the swarm, and the settings of the swarms that report them. */

enum { FLUSH_GRACE_MS = 5000, US_PER_MS = 1000, PROBES_OF_TTL = 3 };

/* ---- swarm.alive ---- */

/* The ids of librql end in 32 digits, those of the Ruby gem in 16. */
static bool is_ruby_id(const char *id)
{
    const char *slash = strrchr(id, '/');

    return slash && strlen(slash + 1) == 16;
}

/* Counts the locks that dead hosts hold; -1: not known. All locks have to be read for that, so it
 * is done only if a flush is late. */
static int64_t count_held(struct doctor *self)
{
    CLI_AUTO(rql_free) rql_zombies *zombies = NULL;

    if (rql_swarm_zombies(self->client, self->wish.options->zombie_ttl_ms, &zombies, NULL) !=
        RQL_OK) {
        return -1;
    }
    return (int64_t)zombies->locks->count;
}

/* Ruby elects no flusher: each of its swarms flushes. */
static bool lacks_flusher(struct doctor *self)
{
    char flusher[RQL_ID_SIZE];

    return self->n_ruby == 0 && rql_swarm_flusher(self->client, flusher, NULL) == RQL_NOT_FOUND;
}

static void take_hosts(struct doctor *self, const rql_host_info_list *hosts)
{
    const rql_options *options = self->wish.options;
    int64_t n_dead = 0;
    int64_t oldest_us = 0;
    bool is_late;

    for (size_t i = 0; i < hosts->count; i++) {
        const int64_t silent_us = hosts->server_us - hosts->item[i]->last_probe_us;

        self->n_ruby += is_ruby_id(hosts->item[i]->host_id);
        n_dead += hosts->item[i]->is_zombie;
        if (hosts->item[i]->is_zombie && silent_us > oldest_us) {
            oldest_us = silent_us;
        }
    }
    /* By then a swarm that works would have flushed the dead hosts. */
    is_late =
        oldest_us >
        (options->zombie_ttl_ms + options->zombie_flush_period_ms + FLUSH_GRACE_MS) * US_PER_MS;
    doctor_number(self, "swarm.alive", "hosts", (int64_t)hosts->count);
    doctor_number(self, "swarm.alive", "dead", n_dead);
    doctor_number(self, "swarm.alive", "oldest_us", oldest_us);
    doctor_flag(self, "has_dead", n_dead > 0);
    doctor_flag(self, "is_late", is_late);
    doctor_flag(self, "blocks_waiters", is_late && count_held(self) != 0);
    doctor_flag(self, "is_without_flusher", (int64_t)hosts->count > n_dead && lacks_flusher(self));
}

/* ---- swarm.config ---- */

static void take_settings(struct doctor *self, const rql_client_info_list *clients)
{
    const rql_client_info *shortest = NULL;
    const rql_client_info *longest = NULL;
    const rql_client_info *slow = NULL;

    for (size_t i = 0; i < clients->count; i++) {
        const rql_client_info *client = clients->item[i];
        const int64_t ttl_ms = client->zombie_ttl_ms;

        if (ttl_ms <= 0) {
            continue; /* no connection of a swarm */
        }
        shortest = shortest && shortest->zombie_ttl_ms <= ttl_ms ? shortest : client;
        longest = longest && longest->zombie_ttl_ms >= ttl_ms ? longest : client;
        slow = PROBES_OF_TTL * client->probe_period_ms > ttl_ms ? client : slow;
    }
    doctor_number(self, "swarm.config", "shortest_ttl_ms", shortest ? shortest->zombie_ttl_ms : -1);
    doctor_number(self, "swarm.config", "longest_ttl_ms", longest ? longest->zombie_ttl_ms : -1);
    doctor_text(self, "", "shortest_host", shortest ? shortest->host : "");
    doctor_text(self, "", "longest_host", longest ? longest->host : "");
    doctor_text(self, "", "slow_host", slow ? slow->host : "");
    doctor_number(self, "", "slow_period_ms", slow ? slow->probe_period_ms : 0);
    doctor_number(self, "", "slow_ttl_ms", slow ? slow->zombie_ttl_ms : 0);
    doctor_number(self, "", "third_ms", slow ? slow->zombie_ttl_ms / PROBES_OF_TTL : 0);
    doctor_flag(self, "is_none", !shortest);
    doctor_flag(self, "differ", shortest && shortest->zombie_ttl_ms < longest->zombie_ttl_ms);
    doctor_flag(self, "are_slow", slow != NULL);
}

static bool read_swarm(struct doctor *self)
{
    CLI_AUTO(rql_free) rql_host_info_list *hosts = NULL;
    CLI_AUTO(rql_free) rql_client_info_list *clients = NULL;

    if (rql_swarm_hosts(self->client, self->wish.options->zombie_ttl_ms, &hosts, &self->error) !=
        RQL_OK) {
        return false;
    }
    take_hosts(self, hosts);
    if (rql_clients_list(self->client, &clients, &self->error) == RQL_OK) {
        take_settings(self, clients);
    }
    doctor_flag(self, "hides_settings", !clients);
    return true;
}

#define OF_HOSTS "{hosts} host{hosts:plural} in the swarm, {dead} dead"
#define RUN_SWARM "run rql swarm run as a service, once or more; for now: rql swarm flush"

static const struct doctor_row rows[] = {
    {"swarm.alive", DOCTOR_FAIL, "blocks_waiters", OF_HOSTS " for up to {oldest_us:s}",
     "no swarm flushes: locks of dead hosts stay held until their TTL ends", RUN_SWARM},
    {"swarm.alive", DOCTOR_NOTE, "is_late", OF_HOSTS " for up to {oldest_us:s}",
     "no swarm flushes; at present no dead host holds a lock", RUN_SWARM},
    {"swarm.alive", DOCTOR_NOTE, "is_without_flusher", OF_HOSTS ", and none elected to flush",
     "if a host dies, its locks stay held until their TTL ends", RUN_SWARM},
    DOCTOR_GOOD_ROW("swarm.alive", "has_dead", OF_HOSTS " for up to {oldest_us:s}"),
    DOCTOR_GOOD_ROW("swarm.alive", NULL, OF_HOSTS),

    DOCTOR_SKIP_ROW("swarm.config", "hides_settings",
                    "settings of the swarms: no right to read them"),
    {"swarm.config", DOCTOR_WARN, "differ",
     "zombie_ttl differs: {shortest_ttl_ms} ms on {shortest_host}, {longest_ttl_ms} ms on "
     "{longest_host}",
     "the swarm with the shorter time frees locks of hosts that the other counts as alive",
     "set RQL_ZOMBIE_TTL_MS={longest_ttl_ms} on {shortest_host}, or the same on all machines"},
    {"swarm.config", DOCTOR_WARN, "are_slow",
     "the swarm on {slow_host} sends heartbeats every {slow_period_ms} ms, with a zombie_ttl of "
     "{slow_ttl_ms} ms",
     "a host counts as dead when two of its heartbeats are late",
     "set RQL_SWARM_PROBE_PERIOD_MS={third_ms} on {slow_host}"},
    DOCTOR_GOOD_ROW("swarm.config", "is_none", "no swarm reports its settings"),
    DOCTOR_GOOD_ROW("swarm.config", NULL, "all swarms have a zombie_ttl of {longest_ttl_ms} ms"),
};

const struct doctor_group doctor_swarm = {rows, sizeof rows / sizeof rows[0], read_swarm,
                                          DOCTOR_LOCKS};
