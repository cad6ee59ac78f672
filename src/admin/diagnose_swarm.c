#include "admin/diagnosis.h"
#include "base/result.h"

#include "base/clock.h"
#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Checks the hosts of the swarm, and the settings that the swarms run with. */

enum {
    FLUSH_GRACE_MS = 5000,
    FUTURE_US = 1000000,
    US_PER_MS = 1000,
    SWARMS_MAX = 1000, /* swarms that are looked at */
    PROBES_OF_TTL = 3,
    DEAD_SIZE = 64,
};

/* ---- swarm.alive, swarm.clock ---- */

struct dead {
    int64_t count;
    int64_t oldest_us; /* how long the one that died first has been silent */
};

static struct dead count_dead(const rql_host_info_list *hosts, int64_t server_us)
{
    struct dead dead = {.count = 0};

    for (size_t i = 0; i < hosts->count; i++) {
        const int64_t silent_us = server_us - hosts->item[i]->last_probe_us;

        dead.count += hosts->item[i]->is_zombie;
        if (hosts->item[i]->is_zombie && silent_us > dead.oldest_us) {
            dead.oldest_us = silent_us;
        }
    }
    return dead;
}

/* After this long a swarm that works would have flushed the dead hosts. */
static bool are_late(const struct dead *dead, const rql_options *options)
{
    return dead->oldest_us >
           (options->zombie_ttl_ms + options->zombie_flush_period_ms + FLUSH_GRACE_MS) * US_PER_MS;
}

/* Judges the dead hosts. A dead host that holds no lock delays no waiter, so it is only a note. */
static void judge_hosts(struct rqli_report *report, const rql_options *options,
                        const struct rqli_swarm_sight *seen)
{
    const struct dead dead = count_dead(seen->hosts, seen->server_us);
    const bool is_late = are_late(&dead, options);
    const bool lacks_flusher = seen->lacks_flusher && seen->hosts->count > (size_t)dead.count;
    const rql_check_level level = is_late && seen->n_held != 0 ? RQL_CHECK_FAIL
                                  : is_late || lacks_flusher   ? RQL_CHECK_NOTE
                                                               : RQL_CHECK_OK;
    char of_dead[DEAD_SIZE] = "none of them dead";

    if (dead.count > 0) {
        (void)snprintf(of_dead, sizeof of_dead, "%" PRId64 " of them dead, for %" PRId64 " s%s",
                       dead.count, dead.oldest_us / 1000000, dead.count > 1 ? " at most" : "");
    }
    rqli_report_add(report, "swarm.alive", level, "%zu host%s in the swarm, %s%s",
                    seen->hosts->count, seen->hosts->count == 1 ? "" : "s", of_dead,
                    level == RQL_CHECK_NOTE && !is_late ? ", and none elected to flush" : "");
    rqli_report_number(report, "hosts", (int64_t)seen->hosts->count);
    rqli_report_number(report, "dead", dead.count);
    rqli_report_number(report, "oldest_us", dead.oldest_us);
    rqli_report_say(report,
                    is_late && level == RQL_CHECK_NOTE
                        ? "nobody flushes; at present no dead host holds a lock"
                        : "nobody flushes: what dead hosts hold stays locked until its ttl ends",
                    "run `rql swarm run` as a service, once or more; for now: rql swarm flush");
}

static void judge_heartbeats(struct rqli_report *report, const rql_host_info_list *hosts,
                             int64_t server_us)
{
    const rql_host_info *latest = NULL;

    for (size_t i = 0; i < hosts->count; i++) {
        if (!latest || hosts->item[i]->last_probe_us > latest->last_probe_us) {
            latest = hosts->item[i];
        }
    }
    if (latest && latest->last_probe_us > server_us + FUTURE_US) {
        rqli_report_add(report, "swarm.clock", RQL_CHECK_WARN,
                        "a heartbeat is %" PRId64 " s in the future: %s",
                        (latest->last_probe_us - server_us) / 1000000, latest->host_id);
        rqli_report_text(report, "host", latest->host_id);
    } else {
        rqli_report_add(report, "swarm.clock", RQL_CHECK_OK, "no heartbeat is in the future");
    }
    rqli_report_say(report, "that host counts as alive for so much longer after its death",
                    "chronyc tracking on that machine; it is one of Ruby's");
}

void rqli_judge_swarm(struct rqli_report *report, const rql_options *options,
                      const struct rqli_swarm_sight *seen)
{
    judge_hosts(report, options, seen);
    judge_heartbeats(report, seen->hosts, seen->server_us);
}

/* ---- swarm.config ---- */

/* The swarms' clients, one for each process. */
struct swarms {
    const rql_client_info *each[SWARMS_MAX];
    size_t count;
};

static bool is_same_process(const rql_client_info *a, const rql_client_info *b)
{
    return a->pid == b->pid && strcmp(a->host, b->host) == 0;
}

static void find_swarms(struct swarms *self, const rql_client_info_list *clients)
{
    for (size_t i = 0; i < clients->count && self->count < SWARMS_MAX; i++) {
        const rql_client_info *client = clients->item[i];
        bool is_known = client->zombie_ttl_ms <= 0;

        for (size_t j = 0; j < self->count && !is_known; j++) {
            is_known = is_same_process(self->each[j], client);
        }
        if (!is_known) {
            self->each[self->count++] = client;
        }
    }
}

/* Returns the TTL that most swarms have; of several such TTLs, the shortest. */
static int64_t most_frequent_ms(const struct swarms *self)
{
    int64_t best_ms = 0;
    size_t most = 0;

    for (size_t i = 0; i < self->count; i++) {
        const int64_t ttl_ms = self->each[i]->zombie_ttl_ms;
        size_t n = 0;

        for (size_t j = 0; j < self->count; j++) {
            n += self->each[j]->zombie_ttl_ms == ttl_ms;
        }
        if (n > most || (n == most && ttl_ms < best_ms)) {
            most = n;
            best_ms = ttl_ms;
        }
    }
    return best_ms;
}

/* Returns the machines of the swarms that have another TTL. */
static struct rqli_examples find_others(const struct swarms *self, int64_t ttl_ms)
{
    struct rqli_examples others = {.count = 0};

    for (size_t i = 0; i < self->count; i++) {
        if (self->each[i]->zombie_ttl_ms != ttl_ms) {
            rqli_examples_add(&others, rqli_slice_of(self->each[i]->host));
        }
    }
    return others;
}

static const rql_client_info *find_slow(const struct swarms *self)
{
    for (size_t i = 0; i < self->count; i++) {
        if (PROBES_OF_TTL * self->each[i]->probe_period_ms > self->each[i]->zombie_ttl_ms) {
            return self->each[i];
        }
    }
    return NULL;
}

void rqli_judge_swarm_settings(struct rqli_report *report, const rql_client_info_list *clients)
{
    struct swarms swarms = {.count = 0};
    struct rqli_examples others;
    const rql_client_info *slow;
    int64_t ttl_ms;

    find_swarms(&swarms, clients);
    ttl_ms = most_frequent_ms(&swarms);
    others = find_others(&swarms, ttl_ms);
    slow = find_slow(&swarms);
    if (others.count > 0) {
        rqli_report_add(report, "swarm.config", RQL_CHECK_WARN,
                        "%zu of %zu swarms use a zombie_ttl of %" PRId64
                        " ms, the others another one: %s",
                        swarms.count - (size_t)others.count, swarms.count, ttl_ms, others.names);
        rqli_report_say(report, "the shortest one frees what the others still count as alive",
                        "set RQL_ZOMBIE_TTL_MS=%" PRId64 " on %s", ttl_ms, others.names);
    } else if (slow) {
        rqli_report_add(report, "swarm.config", RQL_CHECK_WARN,
                        "a swarm on %s probes every %" PRId64 " ms, with a zombie_ttl of %" PRId64,
                        slow->host, slow->probe_period_ms, slow->zombie_ttl_ms);
        rqli_report_say(report, "two late heartbeats are taken for a death",
                        "set RQL_SWARM_PROBE_PERIOD_MS=%" PRId64 " there",
                        slow->zombie_ttl_ms / PROBES_OF_TTL);
    } else {
        rqli_report_add(report, "swarm.config", RQL_CHECK_OK,
                        swarms.count > 0 ? "all of %zu swarms use a zombie_ttl of %" PRId64 " ms"
                                         : "no swarm tells its settings",
                        swarms.count, ttl_ms);
    }
    rqli_report_number(report, "swarms", (int64_t)swarms.count);
    rqli_report_number(report, "zombie_ttl_ms", ttl_ms);
    rqli_report_number(report, "others", others.count);
}

static void diagnose_settings(struct rqli_diagnosis *self)
{
    RQLI_AUTO(rql_free) rql_client_info_list *clients = NULL;
    rql_error error = {.status = RQL_OK};

    if (rql_clients_list(self->client, &clients, &error) != RQL_OK) {
        rqli_report_add(self->report, "swarm.config", RQL_CHECK_SKIP, "the swarms' settings: %s",
                        error.message);
        return;
    }
    rqli_judge_swarm_settings(self->report, clients);
}

/* ---- all ---- */

/* Counts the locks that dead hosts hold. All locks have to be read for that, so it is done only
 * if a flush is late. */
static int64_t count_held(struct rqli_diagnosis *self, const struct rqli_swarm_sight *seen)
{
    const rql_options *options = &self->client->options;
    const struct dead dead = count_dead(seen->hosts, seen->server_us);
    RQLI_AUTO(rql_free) rql_zombies *zombies = NULL;

    if (!are_late(&dead, options) ||
        rql_swarm_zombies(self->client, options->zombie_ttl_ms, &zombies, NULL) != RQL_OK) {
        return -1;
    }
    return (int64_t)zombies->locks->count;
}

void rqli_diagnose_swarm(struct rqli_diagnosis *self)
{
    RQLI_AUTO(rql_free) rql_host_info_list *hosts = NULL;
    const rql_options *options = &self->client->options;
    struct rqli_swarm_sight seen = {.server_us = self->first.server_us};
    char flusher[RQL_ID_SIZE];
    rql_error error = {.status = RQL_OK};

    if (!rqli_diagnosis_has_time(self, "swarm.alive")) {
        return;
    }
    if (rql_swarm_hosts(self->client, options->zombie_ttl_ms, &hosts, &error) != RQL_OK) {
        rqli_report_add(self->report, "swarm.alive", RQL_CHECK_SKIP, "the swarm: %s",
                        error.message);
        return;
    }
    for (size_t i = 0; i < hosts->count; i++) {
        self->n_ruby += rqli_is_of_ruby(rqli_slice_of(hosts->item[i]->host_id));
    }
    seen.hosts = hosts;
    seen.n_held = count_held(self, &seen);
    /* Ruby elects no flusher: each of its swarms flushes. */
    seen.lacks_flusher =
        self->n_ruby == 0 && rql_swarm_flusher(self->client, flusher, NULL) == RQL_NOT_FOUND;
    rqli_judge_swarm(self->report, options, &seen);
    diagnose_settings(self);
}
