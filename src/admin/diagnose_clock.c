#include "admin/diagnosis.h"

#include "base/clock.h"
#include "base/fd.h"
#include "lock/client_new.h"
#include "net/conn/batch_threads.h"
#include "net/sock/connect.h"
#include "wire/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Measures how far away the server is, and compares its clock with those of this machine. */

enum {
    PINGS_MAX = 200,
    PINGS_OF_TIME = 5,      /* a part of the whole time */
    JITTER_TIMES = 10,      /* a p99 of more than that many medians is much */
    JITTER_LEAST_US = 5000, /* less than that does no harm */
    TTL_PARTS = 20,
    SKEW_US = 1000000,
    REPLICA_SKEW_US = 500000,
    RATE_PER_MILLE = 1,
    US_PER_MS = 1000,
};

/* ---- net.rtt ---- */

static int compare_times(const void *a, const void *b)
{
    const int64_t *left = a;
    const int64_t *right = b;

    return (*left > *right) - (*left < *right);
}

/* Sends one PING after the other: sent together, they would measure how they wait for each
 * other. */
static size_t ping_often(struct rqli_diagnosis *self, int64_t took_us[PINGS_MAX])
{
    const int64_t until_us =
        rqli_after_ms(rqli_now_us(), self->options.time_limit_ms / PINGS_OF_TIME);
    size_t count = 0;

    while (count < PINGS_MAX && rqli_now_us() < until_us) {
        RQLI_AUTO(rqli_batch_give)
        struct rqli_batch *batch = rqli_batch_take(rqli_client_conn(self->client));

        if (batch) {
            rqli_command_words(&batch->command, "PING", NULL);
        }
        if (!rqli_diagnosis_run(self, "net.rtt", batch)) {
            return 0;
        }
        took_us[count++] = batch->received_us - batch->sent_us;
    }
    return count;
}

void rqli_diagnose_round_trips(struct rqli_diagnosis *self)
{
    const int64_t ttl_us = self->client->options.ttl_ms * US_PER_MS;
    int64_t took_us[PINGS_MAX];
    size_t count;
    int64_t p50_us;

    if (!rqli_diagnosis_has_time(self, "net.rtt")) {
        return;
    }
    count = ping_often(self, took_us);
    if (count == 0) {
        return;
    }
    qsort(took_us, count, sizeof *took_us, compare_times);
    p50_us = took_us[count / 2];
    self->p99_us = took_us[(count - 1) * 99 / 100];
    rqli_report_add(self->report, "net.rtt",
                    (self->p99_us > JITTER_TIMES * p50_us && self->p99_us > JITTER_LEAST_US) ||
                            self->p99_us > ttl_us / TTL_PARTS
                        ? RQL_CHECK_WARN
                        : RQL_CHECK_OK,
                    "round trips take %.2f ms, 99 %% of them at most %.2f ms",
                    (double)p50_us / 1000, (double)self->p99_us / 1000);
    rqli_report_number(self->report, "p50_us", p50_us);
    rqli_report_number(self->report, "p99_us", self->p99_us);
    rqli_report_number(self->report, "max_us", took_us[count - 1]);
    rqli_report_say(self->report,
                    "renewals, releases and hand-overs come late; ttls below 20 round trips end",
                    "look at the network and at the load of both machines; choose longer ttls");
}

/* Times a connection of its own, without a login. If the URL has a host name, that is looked up
 * again. */
void rqli_diagnose_connecting(struct rqli_diagnosis *self)
{
    const struct rqli_site *site = &self->client->fleet.first.site;
    const int64_t most_us = self->client->options.ttl_ms * US_PER_MS / TTL_PARTS;
    const int64_t begun_us = rqli_now_us();
    RQLI_AUTO(rqli_fd_close) int fd = -1;
    rql_error error = {.status = RQL_OK};
    struct rqli_peer peer = {.n_addresses = 0};
    int64_t took_us;

    if (site->path || site->master) {
        rqli_report_add(self->report, "net.connect", RQL_CHECK_OK, "no name is to be resolved");
        return;
    }
    if (!rqli_diagnosis_has_time(self, "net.connect")) {
        return;
    }
    fd = rqli_connect(site, &site->address, &peer, self->end_us, &error);
    if (fd < 0) {
        rqli_report_add(self->report, "net.connect", RQL_CHECK_SKIP, "%s", error.message);
        return;
    }
    took_us = rqli_now_us() - begun_us;
    rqli_report_add(self->report, "net.connect", took_us > most_us ? RQL_CHECK_WARN : RQL_CHECK_OK,
                    "a new connection takes %.2f ms", (double)took_us / 1000);
    rqli_report_number(self->report, "took_us", took_us);
    rqli_report_say(self->report, "when a connection is lost, leases may end before the next one",
                    "look at what resolves the name: getent ahosts %s", site->address.host);
}

/* ---- clk ---- */

/* No decision depends on the wall clock: it is only compared with the server's. */
static int64_t wall_us(void)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* The thread may have been stopped between the two readings of our clocks. That cannot be told
 * from a step of the wall clock. */
static struct rqli_two_clocks read_clocks(rql_client *client)
{
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    const int64_t between_us = wall_us() - rqli_now_us();
    struct rqli_two_clocks read = {.server_us = 0};

    if (rqli_query(client, &batch, NULL, "TIME", NULL) == RQL_OK &&
        rqli_time_read(batch->reply, &read.server_us)) {
        read.sent_us = batch->sent_us;
        read.received_us = batch->received_us;
        read.wall_us = between_us + read.sent_us;
    }
    return read;
}

/* Returns by how much a difference exceeds the round trip. The server may have read its clock at
 * any moment of the trip, so a smaller difference counts as none. */
static int64_t beyond(int64_t difference_us, int64_t within_us)
{
    if (difference_us > within_us) {
        return difference_us - within_us;
    }
    return difference_us < -within_us ? difference_us + within_us : 0;
}

static void judge_skew(struct rqli_report *report, const struct rqli_two_clocks *now,
                       bool sees_ruby)
{
    const int64_t trip_us = now->received_us - now->sent_us;
    const int64_t ahead_us = beyond(now->wall_us + trip_us / 2 - now->server_us, trip_us / 2);
    const bool is_far = llabs(ahead_us) > SKEW_US;
    const rql_check_level level = sees_ruby ? RQL_CHECK_WARN : RQL_CHECK_NOTE;

    rqli_report_add(report, "clk.skew", is_far ? level : RQL_CHECK_OK,
                    "this machine's clock is %.1f s %s the server's",
                    (double)llabs(ahead_us) / 1000000, ahead_us < 0 ? "behind" : "ahead of");
    rqli_report_number(report, "ahead_us", ahead_us);
    rqli_report_say(
        report,
        sees_ruby ? "C is not affected; Ruby's workers on this machine change queues by as much"
                  : "C is not affected; Ruby's workers on this machine would be",
        "chronyc tracking, here and on the server: one of the two is wrong");
}

/* A step of the clock looks like a rate that is very wrong. */
static void judge_rate(struct rqli_report *report, const struct rqli_two_clocks *first,
                       const struct rqli_two_clocks *now)
{
    const int64_t here_us = now->sent_us - first->sent_us;
    const int64_t within_us = (now->received_us - now->sent_us) +
                              (first->received_us - first->sent_us) +
                              here_us * RATE_PER_MILLE / 1000;
    const int64_t more_us = beyond(now->server_us - first->server_us - here_us, within_us);

    if (more_us != 0) {
        rqli_report_add(report, "clk.rate", RQL_CHECK_WARN,
                        "the server's clock went %.1f ms %s than ours in %.1f ms",
                        (double)llabs(more_us) / 1000, more_us > 0 ? "further" : "less far",
                        (double)here_us / 1000);
    } else {
        rqli_report_add(report, "clk.rate", RQL_CHECK_OK,
                        "the server's clock went as ours did, in %.1f ms", (double)here_us / 1000);
    }
    rqli_report_number(report, "more_us", more_us);
    rqli_report_number(report, "in_us", here_us);
    rqli_report_say(report, "a clock that steps, or is more than 0.1 % fast, ends locks too early",
                    "chronyc tracking on the server; let it slew and not step");
}

void rqli_judge_clocks(struct rqli_report *report, const struct rqli_two_clocks *first,
                       const struct rqli_two_clocks *now, bool sees_ruby)
{
    judge_skew(report, now, sees_ruby);
    judge_rate(report, first, now);
}

void rqli_diagnose_first_clocks(struct rqli_diagnosis *self)
{
    self->first = read_clocks(self->client);
}

void rqli_diagnose_clocks(struct rqli_diagnosis *self)
{
    struct rqli_two_clocks now;

    if (!rqli_diagnosis_has_time(self, "clk.skew")) {
        return;
    }
    now = read_clocks(self->client);
    if (self->first.server_us == 0 || now.server_us == 0) {
        rqli_report_add(self->report, "clk.skew", RQL_CHECK_SKIP, "clocks: no answer to TIME");
        return;
    }
    rqli_judge_clocks(self->report, &self->first, &now, self->n_ruby > 0);
}

/* ---- clk.replicas ---- */

/* Returns how far the server's clock is ahead of ours, with an error of up to half a round trip. */
static int64_t offset_us(const struct rqli_two_clocks *read)
{
    return read->server_us - (read->sent_us + read->received_us) / 2;
}

static int64_t trip_us(const struct rqli_two_clocks *read)
{
    return read->received_us - read->sent_us;
}

/* Reads the clock of a replica with a client like ours that connects to this address, whichever
 * server is the master. The client does not announce what we have seen, because no script may be
 * sent to a replica. */
static struct rqli_two_clocks read_replica(struct rqli_diagnosis *self,
                                           const struct rqli_address *at)
{
    RQLI_AUTO(rqli_client_free) rql_client *other = NULL;

    if (rqli_client_make(&other, &self->client->options, NULL) != RQL_OK) {
        return (struct rqli_two_clocks){.server_us = 0};
    }
    other->fleet.first.site.path = NULL;
    other->fleet.first.site.address = *at;
    other->fleet.first.site.master = NULL;
    other->session.eras = NULL;
    other->fleet.tells_first = false;
    return read_clocks(other);
}

/* Reports the replica with the worst clock, and how many replicas can be reached from here. */
void rqli_diagnose_replicas(struct rqli_diagnosis *self)
{
    const struct rqli_two_clocks master = read_clocks(self->client);
    char text[RQLI_ADDRESS_TEXT_SIZE] = "";
    int64_t worst_us = 0;
    size_t reached = 0;

    for (size_t i = 0; i < self->n_replicas && master.server_us > 0; i++) {
        struct rqli_two_clocks replica;
        int64_t ahead_us;

        if (!rqli_diagnosis_has_time(self, "clk.replicas")) {
            return;
        }
        replica = read_replica(self, &self->replicas[i]);
        reached += replica.server_us > 0;
        ahead_us = replica.server_us == 0 ? 0
                                          : beyond(offset_us(&replica) - offset_us(&master),
                                                   (trip_us(&replica) + trip_us(&master)) / 2);
        if (llabs(ahead_us) > llabs(worst_us)) {
            worst_us = ahead_us;
            (void)rqli_address_print(&self->replicas[i], text);
        }
    }
    if (llabs(worst_us) > REPLICA_SKEW_US) {
        rqli_report_add(self->report, "clk.replicas", RQL_CHECK_WARN,
                        "the clock of replica %s is %.1f s %s the master's", text,
                        (double)llabs(worst_us) / 1000000, worst_us < 0 ? "behind" : "ahead of");
    } else {
        rqli_report_add(self->report, "clk.replicas",
                        reached < self->n_replicas ? RQL_CHECK_SKIP : RQL_CHECK_OK,
                        "the clocks of %zu of %zu replicas were read, and go as the master's",
                        reached, self->n_replicas);
    }
    rqli_report_number(self->report, "replicas", (int64_t)self->n_replicas);
    rqli_report_number(self->report, "reached", (int64_t)reached);
    rqli_report_number(self->report, "worst_us", worst_us);
    rqli_report_say(self->report, "after a failover locks end early or late, and tokens may fall",
                    "chronyc tracking on each server; let clocks slew and not step");
}
