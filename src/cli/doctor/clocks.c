#include "doctor.h"

#include "format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* net.rtt, clk: measures how far away the server is, and compares its clock with others. */

enum {
    PINGS_MAX = 200,
    PINGS_OF_TIME = 5,      /* the part of the whole time that they may take */
    JITTER_TIMES = 10,      /* a p99 of more than this many medians is much, */
    JITTER_LEAST_US = 5000, /* unless it is too short to do harm */
    TTL_PARTS = 20,
    SKEW_US = 1000000,
    REPLICA_SKEW_US = 500000,
    RATE_PER_MILLE = 1,
    US_PER_MS = 1000,
    URL_SIZE = 4608,
};

/* ---- net.rtt ---- */

/* Sends one PING after the other: sent together, they would wait for each other. */
static bool read_trips(struct doctor *self)
{
    const int64_t until_us = cli_now_us() + self->wish.time_limit_ms * US_PER_MS / PINGS_OF_TIME;
    /* A proxy does not stand in front of several masters, so there the check is left out. */
    const bool is_single = !self->is_partitioned;
    int64_t took_us[PINGS_MAX];
    size_t count = 0;
    int64_t p50_us;
    int64_t p99_us;

    while (count == 0 || (count < PINGS_MAX && cli_now_us() < until_us)) {
        const int64_t begun_us = cli_now_us();
        CLI_AUTO(rql_free) rql_reply *reply = DOCTOR_ASK(self, "PING");

        if (!reply) {
            return false;
        }
        took_us[count++] = cli_now_us() - begun_us;
    }
    qsort(took_us, count, sizeof *took_us, cli_compare_numbers);
    p50_us = took_us[count / 2];
    p99_us = took_us[(count - 1) * 99 / 100];
    doctor_number(self, "net.rtt", "p50_us", p50_us);
    doctor_number(self, "net.rtt", "p99_us", p99_us);
    doctor_number(self, "net.rtt", "max_us", took_us[count - 1]);
    doctor_flag(self, "is_slow", p99_us > self->wish.options->ttl_ms * US_PER_MS / TTL_PARTS);
    doctor_flag(self, "is_uneven", p99_us > JITTER_LEAST_US && p99_us > JITTER_TIMES * p50_us);
    doctor_text(self, "net.same_server", "run_id", self->run_id[0]);
    doctor_text(self, "net.same_server", "other_run_id", self->run_id[1]);
    doctor_flag(self, "is_single", is_single);
    doctor_flag(self, "hides_run_id", is_single && (!*self->run_id[0] || !*self->run_id[1]));
    doctor_flag(self, "are_two_servers",
                is_single && strcmp(self->run_id[0], self->run_id[1]) != 0);
    return true;
}

static const struct doctor_row trip_rows[] = {
    {"net.rtt", DOCTOR_WARN, "is_slow",
     "round trips take {p50_us:ms}, and 1 % of them more than {p99_us:ms}",
     "a lock may expire before it can be renewed; its TTL should be 20 round trips or longer",
     "set RQL_TTL_MS to a longer time, or use a nearer server"},
    {"net.rtt", DOCTOR_WARN, "is_uneven",
     "round trips take {p50_us:ms}, and 1 % of them more than {p99_us:ms}",
     "renewals, releases and hand-overs are late at times",
     "check the network, and the load of this machine and of the server"},
    DOCTOR_GOOD_ROW("net.rtt", NULL,
                    "round trips take {p50_us:ms}, and 99 % of them at most {p99_us:ms}"),

    DOCTOR_SKIP_ROW("net.same_server", "hides_run_id",
                    "whether all connections lead to the same server: no right to INFO"),
    {"net.same_server", DOCTOR_FAIL, "are_two_servers", "two connections lead to different servers",
     "each server has its own locks, so two clients can hold the same lock",
     "let the proxy or load balancer lead all connections to the master, or name the master in "
     "RQL_URL"},
    DOCTOR_GOOD_ROW("net.same_server", "is_single", "all connections lead to the same server"),
};

const struct doctor_group doctor_trips = {trip_rows, sizeof trip_rows / sizeof trip_rows[0],
                                          read_trips, 0};

/* ---- clk ---- */

/* No decision depends on the wall clock: it is only compared with the server's. */
struct doctor_clocks doctor_read_clocks(rql_client *bare)
{
    static const char *const words[] = {"TIME", NULL};
    CLI_AUTO(rql_free) rql_reply *reply = NULL;
    struct doctor_clocks read = {.wall_us = cli_wall_us(), .sent_us = cli_now_us()};

    if (doctor_send(bare, 0, words, &reply, NULL) == RQL_OK && rql_reply_count(reply) == 2) {
        read.received_us = cli_now_us();
        read.server_us =
            strtoll(rql_reply_text(rql_reply_item(reply, 0), NULL), NULL, 10) * 1000000 +
            strtoll(rql_reply_text(rql_reply_item(reply, 1), NULL), NULL, 10);
    }
    return read;
}

static int64_t trip_us(const struct doctor_clocks *read)
{
    return read->received_us - read->sent_us;
}

/* Returns how far the server's clock is ahead of ours, with an error of up to half a round trip. */
static int64_t offset_us(const struct doctor_clocks *read)
{
    return read->server_us - (read->sent_us + read->received_us) / 2;
}

/* Returns by how much a difference exceeds what the round trips can explain; 0: it does not. */
static int64_t beyond(int64_t difference_us, int64_t within_us)
{
    if (difference_us > within_us) {
        return difference_us - within_us;
    }
    return difference_us < -within_us ? difference_us + within_us : 0;
}

/* Writes the URL of a replica, with the login and the TLS settings of the URL of its master. */
static void write_url(const char *url, const char *address, char out[URL_SIZE])
{
    const char *login = strstr(url, "://") ? strstr(url, "://") + 3 : url;
    const size_t length = strcspn(login, "/?");
    const char *at = memrchr(login, '@', length);
    const bool is_tcp = strncmp(url, "redis://", 8) == 0 || strncmp(url, "rediss://", 9) == 0;
    const char *query = is_tcp ? strchr(login + length, '?') : NULL;

    (void)snprintf(out, URL_SIZE, "%s://%.*s%s%s",
                   strncmp(url, "rediss", 6) == 0 ? "rediss" : "redis",
                   at ? (int)(at + 1 - login) : 0, login, address, query ? query : "");
}

/* Finds the replica with the worst clock, and how many replicas can be reached from here. */
static void read_replicas(struct doctor *self, const struct doctor_clocks *master)
{
    const char *worst = "";
    int64_t worst_us = 0;
    int64_t reached = 0;

    for (size_t i = 0; i < self->n_replicas && cli_now_us() < self->end_us; i++) {
        CLI_AUTO(rql_client_free) rql_client *client = NULL;
        struct doctor_clocks read = {.server_us = 0};
        char url[URL_SIZE];
        int64_t ahead_us;

        write_url(self->wish.options->url, self->replicas[i], url);
        client = doctor_bare_client(self->wish.options, url, NULL);
        explicit_bzero(url, sizeof url);
        if (client) {
            read = doctor_read_clocks(client);
        }
        if (read.server_us == 0) {
            continue;
        }
        reached++;
        ahead_us =
            beyond(offset_us(&read) - offset_us(master), (trip_us(&read) + trip_us(master)) / 2);
        if (llabs(ahead_us) > llabs(worst_us)) {
            worst_us = ahead_us;
            worst = self->replicas[i];
        }
    }
    doctor_text(self, "", "replica", worst);
    doctor_number(self, "clk.skew", "reached", reached);
    doctor_number(self, "clk.skew", "replica_ahead_us", worst_us);
    doctor_text(self, "", "replica_side", worst_us < 0 ? "behind" : "ahead of");
    doctor_number(self, "clk.skew", "replicas", (int64_t)self->n_replicas);
    doctor_flag(self, "is_replica_hidden", reached < (int64_t)self->n_replicas);
    doctor_flag(self, "is_replica_off", llabs(worst_us) > REPLICA_SKEW_US);
}

static bool read_clocks(struct doctor *self)
{
    const struct doctor_clocks *first = &self->clocks;
    const struct doctor_clocks now = doctor_read_clocks(self->bare);
    const int64_t here_us = now.sent_us - first->sent_us;
    const int64_t within_us = trip_us(&now) + trip_us(first) + here_us * RATE_PER_MILLE / 1000;
    int64_t ahead_us;
    int64_t more_us;

    if (first->server_us == 0 || now.server_us == 0) {
        (void)snprintf(self->error.message, sizeof self->error.message, "no right to TIME");
        return false;
    }
    more_us = beyond(now.server_us - first->server_us - here_us, within_us);
    ahead_us = beyond(now.wall_us + trip_us(&now) / 2 - now.server_us, trip_us(&now) / 2);
    doctor_number(self, "clk.rate", "more_us", more_us);
    doctor_number(self, "clk.rate", "in_us", here_us);
    doctor_text(self, "", "rate_side", more_us < 0 ? "less" : "more");
    doctor_number(self, "", "off_us", llabs(more_us));
    doctor_flag(self, "runs_differently", more_us != 0); /* a step looks like that, too */
    doctor_number(self, "clk.skew", "ahead_us", ahead_us);
    doctor_text(self, "", "side", ahead_us < 0 ? "behind" : "ahead of");
    doctor_flag(self, "is_off", llabs(ahead_us) > SKEW_US);
    doctor_flag(self, "is_off_with_ruby", llabs(ahead_us) > SKEW_US && self->n_ruby > 0);
    read_replicas(self, &now);
    return true;
}

static const struct doctor_row clock_rows[] = {
    {"clk.rate", DOCTOR_WARN, "runs_differently",
     "in {in_us:ms}, the server's clock advanced {off_us:ms} {rate_side} than this machine's",
     "a clock that jumps, or is more than 0.1 % too fast, ends locks too early",
     "run chronyc tracking on the server; let its clock slew, not step"},
    DOCTOR_GOOD_ROW("clk.rate", NULL, "the server's clock runs as fast as this machine's"),

    {"clk.skew", DOCTOR_WARN, "is_replica_off",
     "the clock of replica {replica} is {replica_ahead_us:s} {replica_side} the master's",
     "after a failover, locks end too early or too late, and tokens may fall",
     "run chronyc tracking on each server; let clocks slew, not step"},
    {"clk.skew", DOCTOR_WARN, "is_off_with_ruby",
     "this machine's clock is {ahead_us:s} {side} the server's",
     "Ruby workers on this machine write wrong times into queues; C workers do not",
     "run chronyc tracking on both machines: one of the clocks is wrong"},
    {"clk.skew", DOCTOR_NOTE, "is_off", "this machine's clock is {ahead_us:s} {side} the server's",
     "locks are not affected; Ruby workers on this machine would be",
     "run chronyc tracking on both machines: one of the clocks is wrong"},
    DOCTOR_SKIP_ROW("clk.skew", "is_replica_hidden",
                    "clocks of replicas: {reached} of {replicas} could be reached"),
    DOCTOR_GOOD_ROW("clk.skew", NULL, "this machine's clock is {ahead_us:s} {side} the server's"),
};

const struct doctor_group doctor_clocks = {clock_rows, sizeof clock_rows / sizeof clock_rows[0],
                                           read_clocks, DOCTOR_BRIEF};
