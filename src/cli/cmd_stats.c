#include "classes.h"
#include "cmd.h"
#include "counts.h"
#include "doctor/doctor.h"
#include "file.h"
#include "format.h"
#include "messages.h"
#include "os.h"
#include "stats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* stats: shows what the server knows about all programs, once or repeatedly, for people and for
 * metrics collectors. */

enum {
    DOCTOR_MS = 5000, /* for the checks whose verdicts are metrics */
    LINE_SIZE = 2048, /* as long as a message on stderr may be */
};

/* ---- OpenMetrics alone: classes of locks, and the server ---- */

/* Prints one family for each figure. The samples of a family must follow each other. */
static void print_classes(struct out *out, const struct cli_classes *classes)
{
    static const struct {
        const char *name;
        const char *help;
        size_t offset;
        double unit;
    } families[] = {
        {"class_locks", "Locks that are held, by class.", offsetof(struct cli_class, locks), 1},
        {"class_holders", "Their holders: several where a lock is shared, none where it is kept.",
         offsetof(struct cli_class, holders), 1},
        {"class_units_used", "Share units that the holders have, by class.",
         offsetof(struct cli_class, units_used), 1},
        {"class_waiting", "Requests that wait, by class.", offsetof(struct cli_class, waiting), 1},
        {"class_dead_requests", "Of them: older than dead_request_ttl_ms.",
         offsetof(struct cli_class, dead), 1},
        {"class_oldest_hold_seconds", "Age of the lock that is held for longest.",
         offsetof(struct cli_class, oldest_hold_ms), 1e-3},
        {"class_oldest_wait_seconds", "Age of the request that waits for longest.",
         offsetof(struct cli_class, oldest_wait_ms), 1e-3},
    };

    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        out_family(out, families[i].name, "gauge", families[i].help);
        for (size_t j = 0; j < classes->count; j++) {
            const struct cli_class *class = &classes->class[j];
            int64_t value;

            (void)memcpy(&value, (const char *)class + families[i].offset, sizeof value);
            out_sample(out, families[i].name, "class", class->name,
                       (double)value * families[i].unit);
        }
    }
}

/* The findings of doctor as numbers. The sample of a counter has a name of its own. */
static const struct server_family {
    const char *check;
    const char *finding;
    const char *name;
    const char *sample; /* NULL: it is a gauge */
    const char *help;
    double unit;
} server_families[] = {
    {"mem.room", "used_memory", "server_used_memory_bytes", NULL, "Memory that is used.", 1},
    {"mem.room", "maxmemory", "server_maxmemory_bytes", NULL, "Its limit; 0: none.", 1},
    {"mem.evicted", "evicted_keys", "server_evicted_keys", "server_evicted_keys_total",
     "Keys that were evicted.", 1},
    {"dur.persist", "aof", "server_aof", NULL, "1: each write goes to a file.", 1},
    {"dur.replicas", "replicas", "server_replicas", NULL, "Replicas that are connected.", 1},
    {"dur.replicas", "min_replicas_to_write", "server_min_replicas_to_write", NULL,
     "Replicas without which nothing is written.", 1},
    {"dur.replicas", "lag_s", "server_replica_lag_seconds", NULL,
     "For how long the most silent replica has said nothing.", 1},
    {"clk.skew", "ahead_us", "server_clock_skew_seconds", NULL,
     "This machine's clock less the server's.", 1e-6},
    {"clk.skew", "replica_ahead_us", "server_replica_clock_skew_seconds", NULL,
     "The replicas' clocks less the server's, the worst.", 1e-6},
};

static const struct doctor_check *find_check(const struct doctor *doctor, const char *id)
{
    for (size_t i = 0; i < doctor->n_checks; i++) {
        const struct doctor_check *check = &doctor->checks[i];

        if (strcmp(check->id, id) == 0 && check->level != DOCTOR_SKIP) {
            return check;
        }
    }
    return NULL;
}

static const struct doctor_fact *find_fact(const struct doctor_check *check, const char *name)
{
    for (size_t i = 0; i < check->n_found; i++) {
        if (strcmp(check->found[i].name, name) == 0) {
            return &check->found[i];
        }
    }
    return NULL;
}

/* Returns whether there are several servers: the checks of all but the first name theirs. */
static bool has_several(const struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->n_checks; i++) {
        if (find_fact(&doctor->checks[i], "node")) {
            return true;
        }
    }
    return false;
}

/* Returns the fact of a family that a check has found, or NULL. An unknown value is -1, except for
 * differences of clocks. */
static const struct doctor_fact *fact_of(const struct server_family *family,
                                         const struct doctor_check *check)
{
    const bool is_its = strcmp(check->id, family->check) == 0 && check->level != DOCTOR_SKIP;
    const struct doctor_fact *found = is_its ? find_fact(check, family->finding) : NULL;

    return found && (found->number >= 0 || family->unit < 1) ? found : NULL;
}

/* Prints a fact of the server that a check was about. */
static void print_fact(struct out *out, const struct doctor *doctor,
                       const struct server_family *family, const struct doctor_check *check,
                       const struct doctor_fact *fact)
{
    const struct doctor_fact *node = find_fact(check, "node");

    out_sample(out, family->sample ? family->sample : family->name,
               has_several(doctor) ? "node" : NULL, node ? node->text : doctor_where(doctor),
               (double)fact->number * family->unit);
}

/* Prints a finding of each server. */
static void print_finding(struct out *out, const struct doctor *doctor,
                          const struct server_family *family)
{
    bool has_family = false;

    for (size_t i = 0; i < doctor->n_checks; i++) {
        const struct doctor_fact *fact = fact_of(family, &doctor->checks[i]);

        if (fact && !has_family) {
            out_family(out, family->name, family->sample ? "counter" : "gauge", family->help);
            has_family = true;
        }
        if (fact) {
            print_fact(out, doctor, family, &doctor->checks[i], fact);
        }
    }
}

/* Returns the worst level of a check. With several servers the check is made at each of them. */
static enum doctor_level worst_of(const struct doctor *doctor, const struct doctor_check *check)
{
    enum doctor_level worst = check->level;

    for (size_t i = 0; i < doctor->n_checks; i++) {
        const struct doctor_check *other = &doctor->checks[i];

        if (strcmp(other->id, check->id) == 0 && other->level != DOCTOR_SKIP &&
            other->level > worst) {
            worst = other->level;
        }
    }
    return worst;
}

/* Prints the findings, and the verdicts as well, because some findings are words. */
static void print_server(struct out *out, const struct doctor *doctor)
{
    out_family(out, "server_check", "gauge",
               "Verdict of rql doctor: 0 ok, 1 note, 2 warning, 3 failure.");
    for (size_t i = 0; i < doctor->n_checks; i++) {
        const struct doctor_check *check = &doctor->checks[i];

        if (find_check(doctor, check->id) == check) {
            out_sample(out, "server_check", "check", check->id, worst_of(doctor, check));
        }
    }
    for (size_t i = 0; i < sizeof server_families / sizeof server_families[0]; i++) {
        print_finding(out, doctor, &server_families[i]);
    }
}

/* ---- servers ---- */

struct node {
    char name[RQL_SERVER_URL_SIZE]; /* as in the info of the locks there */
    struct cli_counts counts;
};

struct nodes {
    struct node *node;
    size_t count;
};

static void nodes_free_p(struct nodes *self)
{
    free(self->node);
}

static int compare_nodes(const void *a, const void *b)
{
    return strcmp(((const struct node *)a)->name, ((const struct node *)b)->name);
}

/* Reads the names of all servers, sorted, including servers without locks. A single server has the
 * name in its URL. */
static rql_status read_nodes(struct cli_session *self, struct nodes *out)
{
    rql_server_info info;
    rql_status status;

    while ((status = rql_client_ping_node(self->client, out->count, &info, &self->error)) ==
           RQL_OK) {
        out->node = cli_must(reallocarray(out->node, out->count + 1, sizeof *out->node));
        (void)snprintf(out->node[out->count++].name, sizeof out->node->name, "%s",
                       info.partitions >= 0 ? info.node : info.url);
    }
    if (status != RQL_NOT_FOUND) {
        return status;
    }
    if (out->count > 1) {
        qsort(out->node, out->count, sizeof *out->node, compare_nodes);
    }
    return RQL_OK;
}

/* The figures of each server. Hosts of the swarm are not among them: a host is on each server on
 * which it holds a lock. */
static const struct {
    const char *heading;
    const char *name;
    const char *family;
    const char *help;
    size_t offset;
} node_figures[] = {
    {"LOCKS", "locks", "node_locks", "Locks that are held, by server.",
     offsetof(struct cli_counts, locks)},
    {"QUEUES", "queues", "node_queues", "Queues that somebody waits in, by server.",
     offsetof(struct cli_counts, queues)},
    {"REQUESTS", "requests", "node_requests", "Requests that wait, by server.",
     offsetof(struct cli_counts, requests)},
    {"HOSTS", "hosts", "node_hosts", "Hosts that hold or wait, by server.",
     offsetof(struct cli_counts, hosts)},
    {"DAMAGED", "damaged_keys", "node_damaged_keys",
     "Keys under the prefixes that are no locks or queues, by server.",
     offsetof(struct cli_counts, damaged)},
};

enum { NODE_FIGURES = sizeof node_figures / sizeof node_figures[0] };

static int64_t figure_of(const struct cli_counts *counts, size_t figure)
{
    int64_t value;

    (void)memcpy(&value, (const char *)counts + node_figures[figure].offset, sizeof value);
    return value;
}

/* Prints the figures of each server: in a table below the totals, in JSON as a list, in OpenMetrics
 * as a family for each figure. */
static void print_nodes(struct out *out, const struct nodes *nodes)
{
    static const char *const headings[] = {"NODE",  "LOCKS",   "QUEUES", "REQUESTS",
                                           "HOSTS", "DAMAGED", NULL};

    out_line(out, "%s", "");
    out_columns(out, headings);
    out_begin_list(out, "nodes");
    for (size_t i = 0; i < nodes->count; i++) {
        out_begin(out, NULL);
        out_text(out, "NODE", "node", nodes->node[i].name);
        for (size_t j = 0; j < NODE_FIGURES; j++) {
            out_number(out, node_figures[j].heading, node_figures[j].name, OUT_INT,
                       figure_of(&nodes->node[i].counts, j));
        }
        out_end(out);
    }
    out_end(out);
    for (size_t j = 0; j < NODE_FIGURES; j++) {
        out_family(out, node_figures[j].family, "gauge", node_figures[j].help);
        for (size_t i = 0; i < nodes->count; i++) {
            out_sample(out, node_figures[j].family, "node", nodes->node[i].name,
                       (double)figure_of(&nodes->node[i].counts, j));
        }
    }
}

/* ---- the readings ---- */

/* Prints whether a swarm is elected to flush dead hosts. Left out if the server did not say. */
static void print_flusher(struct out *out, rql_status found)
{
    if (found == RQL_OK || found == RQL_NOT_FOUND) {
        out_family(out, "swarm_flusher", "gauge", "1: a swarm is elected to flush dead hosts.");
        out_sample(out, "swarm_flusher", NULL, NULL, found == RQL_OK ? 1 : 0);
    }
}

/* Prints the current numbers. They rise and fall, so they are gauges and not counters. */
static void print_counts(struct out *out, const struct cli_counts *counts,
                         const rql_host_info_list *swarm)
{
    out_gauge(out, "locks held", "locks", "Locks that are held.", counts->locks);
    out_gauge(out, "queues", "queues", "Queues that somebody waits in.", counts->queues);
    out_gauge(out, "requests waiting", "requests", "Requests that wait.", counts->requests);
    out_gauge(out, "hosts", "hosts", "Hosts that hold or wait.", counts->hosts);
    out_gauge(out, "hosts of the swarm", "swarm_hosts", "Hosts of the swarm.",
              (int64_t)swarm->count);
    out_gauge(out, "of them dead", "zombie_hosts", "Hosts of the swarm that are dead.",
              cli_count_dead(swarm));
    out_gauge(out, "damaged keys", "damaged_keys",
              "Keys under the prefixes that are no locks or queues.", counts->damaged);
}

static void print_all(struct out *out, const struct cli_reading *reading,
                      const rql_host_info_list *swarm, struct nodes *nodes)
{
    const struct cli_counts counts = cli_count(reading, NULL);

    out_begin(out, NULL);
    print_counts(out, &counts, swarm);
    for (size_t i = 0; i < nodes->count; i++) {
        nodes->node[i].counts = cli_count(reading, nodes->node[i].name);
    }
    if (nodes->count > 0) {
        print_nodes(out, nodes);
    }
    out_end(out);
}

/* Everything is read before anything is written. */
rql_status cli_stats_read(struct cli_session *self, struct cli_classes *classes, struct out *out)
{
    CLI_AUTO(cli_reading_free) struct cli_reading reading = {.locks = NULL};
    CLI_AUTO(rql_free) rql_host_info_list *swarm = NULL;
    CLI_AUTO(doctor_free) struct doctor doctor = {.n_checks = 0};
    CLI_AUTO(nodes_free) struct nodes nodes = {.count = 0};
    const rql_options *options = &self->args->options;
    char flusher[RQL_ID_SIZE];
    rql_status found = RQL_E_UNKNOWN;
    rql_status status = cli_reading_read(&reading, self->client, &self->error);

    status = status ? status
                    : rql_swarm_hosts(self->client, options->zombie_ttl_ms, &swarm, &self->error);
    if (status == RQL_OK && self->args->node) {
        status = read_nodes(self, &nodes);
    }
    if (status == RQL_OK && out->form == OUT_OPENMETRICS) {
        const struct doctor_wish wish = {
            .options = options, .is_brief = true, .time_limit_ms = DOCTOR_MS};

        found = rql_swarm_flusher(self->client, flusher, NULL);
        if (!doctor_run(&doctor, &wish)) {
            self->error = doctor.error;
            status = self->error.status;
        }
    }
    if (status != RQL_OK) {
        return status;
    }
    print_all(out, &reading, swarm, &nodes);
    if (out->form == OUT_OPENMETRICS) {
        print_flusher(out, found);
        cli_classes_count(classes, reading.locks, reading.queues, options->dead_request_ttl_ms);
        print_classes(out, classes);
        print_server(out, &doctor);
    }
    return RQL_OK;
}

/* ---- the file ---- */

/* Reports an error, unless it is the one that was reported last. Returns the exit code. */
static int report(char said[LINE_SIZE], const char *what, int code)
{
    char line[LINE_SIZE];

    (void)snprintf(line, sizeof line, "%s", what);
    if (strcmp(said, line) != 0) {
        cli_say("%s", line);
    }
    (void)memcpy(said, line, sizeof line);
    return code;
}

/* Writes one reading. An error of the server or of the file may be temporary. `said` is the error
 * that was reported last, and is empty after a successful reading. */
static int write_reading(struct cli_session *self, struct cli_classes *classes,
                         char said[LINE_SIZE])
{
    const char *path = self->args->out_file;
    CLI_AUTO(cli_free) char *text = NULL;
    struct out out = out_fields(OUT_OPENMETRICS);
    char why[LINE_SIZE];
    char line[LINE_SIZE];
    size_t size = 0;
    rql_status status;
    int fault;

    out.to = cli_must(open_memstream(&text, &size));
    status = cli_stats_read(self, classes, &out);
    out_print(&out);
    cli_must(fclose(out.to) == 0 ? text : NULL);
    if (status != RQL_OK) {
        return report(said, self->error.message, status == RQL_E_INVALID ? CLI_USAGE : CLI_FAULT);
    }
    fault = cli_file_write(path, text);
    if (fault != 0) {
        (void)snprintf(line, sizeof line, "%.512s: %s", path,
                       cli_os_strerror(fault, why, sizeof why));
        return report(said, line, CLI_CANNOT_WRITE);
    }
    said[0] = '\0';
    return CLI_DONE;
}

/* Writes readings until a signal ends the program, or only one if there is no pause. */
static int write_readings(struct cli_session *self, struct cli_classes *classes)
{
    const struct timespec pause = cli_timespec(self->args->every_ms);
    char said[LINE_SIZE] = "";
    int code = write_reading(self, classes, said);

    self->out = out_fields(OUT_TABLE); /* everything is in the file */
    while (self->args->every_ms != CLI_UNSET) {
        (void)nanosleep(&pause, NULL);
        code = write_reading(self, classes, said);
    }
    return code;
}

static int stats(struct cli_session *self)
{
    CLI_AUTO(cli_classes_free) struct cli_classes classes = {.n_lines = 0};

    if (!cli_classes_read(&classes, self->args->classes_file)) {
        return CLI_USAGE;
    }
    if (self->args->out_file) {
        return write_readings(self, &classes);
    }
    return cli_stats_read(self, &classes, &self->out) == RQL_OK ? CLI_DONE
                                                                : cli_fault(&self->error);
}

static int check_stats(struct cli_args *args)
{
    if (args->json && args->openmetrics) {
        return cli_misused(&cli_stats, "one of --json and --openmetrics is enough", "");
    }
    if (!args->openmetrics && (args->out_file || args->classes_file)) {
        return cli_misused(&cli_stats, "--out and --classes need --openmetrics", "");
    }
    if (args->every_ms != CLI_UNSET && (!args->out_file || args->every_ms < 1000)) {
        return cli_misused(&cli_stats, "--every needs --out, and is 1s or more", "");
    }
    return CLI_DONE;
}

const struct cli_command cli_stats = {
    .name = "stats",
    .usage = "[--node] [--json | --openmetrics] [flags]",
    .summary = "Count locks, queues, waiting requests and hosts",
    .examples = "  rql stats --openmetrics --out /var/lib/prometheus/node-exporter/rql.prom\n",
    .notes = "Counts what the server shows of all programs together. What one program has done, "
             "the library counts (rql_client_stats()). With --openmetrics the server's own figures "
             "follow, with the label node if there are several servers, and locks and waits by "
             "class, never by name. In the file of classes each line is a pattern and a class, "
             "such as orders:* orders; the first match counts, and a lock without a match is of "
             "the class other.\n"
             "With --out a regular file is replaced when all is written; a device or a pipe is "
             "written to. With --every a fault is reported once, and tried again. With --node the "
             "hosts of the swarm are those of all servers.\n",
    .prepare = check_stats,
    .run = stats,
};
