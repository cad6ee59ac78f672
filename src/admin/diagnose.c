#include "admin/diagnosis.h"

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "lock/client_new.h"
#include "net/conn/conn_threads.h"
#include "options/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The order of the checks, the time that they have, and the checks that need no server. */

enum {
    FEW_DESCRIPTORS = 1024,
    EXPIRES_SOON_S = 14 * 86400,
    ROUND_TRIPS_OF_TTL = 20,
    US_PER_MS = 1000,
    US_PER_S = 1000000,
    DAY_S = 86400,
    EXAMPLES = 3,
    EXAMPLE_LENGTH = 64,
    NAMES_MAX = 4096, /* names tried to find one of a lock that a server has */
};

#define SCRATCH "rql-doctor-"
#define ALL_GROUPS "srv net mem dur acl swarm keys use clk opt loc"

RQLI_DEFINE_AUTO(struct rqli_report *, rqli_report_free);

void rql_diagnose_options_init_sized(rql_diagnose_options *options, size_t size)
{
    rqli_options_init(RQLI_OF_DIAGNOSE, options, size, NULL);
}

bool rqli_diagnosis_send(struct rqli_diagnosis *self, const char *id, struct rqli_batch *batch)
{
    const int64_t now_us = rqli_now_us();
    int64_t until_us = rqli_earlier(self->end_us, rqli_client_until_us(self->client, now_us));
    rql_error error = {.status = RQL_OK};

    if (rqli_conn_run(batch, until_us, &error) != RQL_OK) {
        rqli_report_add(self->report, id, RQL_CHECK_SKIP, "%s: %s", id, error.message);
        return false;
    }
    return true;
}

bool rqli_diagnosis_has_time(struct rqli_diagnosis *self, const char *id)
{
    if (rqli_now_us() < self->end_us) {
        return true;
    }
    rqli_report_add(self->report, id, RQL_CHECK_SKIP, "%s: no time left", id);
    return false;
}

void rqli_examples_add(struct rqli_examples *self, struct rqli_slice name)
{
    const size_t length = strlen(self->names);
    const int shown = name.length < EXAMPLE_LENGTH ? (int)name.length : EXAMPLE_LENGTH;

    if (self->count++ < EXAMPLES) {
        (void)snprintf(self->names + length, sizeof self->names - length, "%s%.*s",
                       length > 0 ? ", " : "", shown, name.data);
    }
}

/* ---- net.tls, opt, loc ---- */

/* Uses the wall clock to say how long a certificate is valid. It is the reading that is also
 * compared with the server's clock. */
static void look_at_tls(struct rqli_diagnosis *self)
{
    const int64_t left_s = (self->server.tls_expires_us - self->first.wall_us) / US_PER_S;
    const bool is_soon = self->server.tls_expires_us >= 0 && left_s < EXPIRES_SOON_S;

    if (!self->server.is_tls) {
        rqli_report_add(self->report, "net.tls", RQL_CHECK_OK, "without TLS");
        return;
    }
    rqli_report_add(self->report, "net.tls", is_soon ? RQL_CHECK_WARN : RQL_CHECK_OK,
                    "the server's certificate (%s) ends in %" PRId64 " days",
                    self->server.tls_subject, left_s / DAY_S);
    rqli_report_number(self->report, "days", left_s / DAY_S);
    rqli_report_say(self->report, "from then on nobody connects; held locks end with their ttl",
                    "renew it; new connections take it without a restart of the clients");
}

/* Says whether the retries are used up before the time of an acquisition is over: each try but
 * the first comes after a pause. */
static bool gives_up_early(const rql_options *options)
{
    const int64_t pause_ms = options->retry_delay_ms + options->retry_jitter_ms;

    return options->retry_count != RQL_FOREVER && options->timeout_ms > 0 &&
           options->retry_count < options->timeout_ms / pause_ms;
}

static void look_at_options(struct rqli_diagnosis *self)
{
    const rql_options *options = &self->client->options;
    const int64_t least_ms = ROUND_TRIPS_OF_TTL * self->p99_us / US_PER_MS;

    if (options->ttl_ms < least_ms) {
        rqli_report_add(self->report, "opt.sense", RQL_CHECK_WARN,
                        "ttl_ms is %" PRId64 ", a round trip may take %" PRId64 " ms",
                        options->ttl_ms, self->p99_us / US_PER_MS);
        rqli_report_say(self->report, "locks may end before they can be renewed",
                        "set RQL_TTL_MS=%" PRId64 " or more", least_ms);
    } else if (gives_up_early(options)) {
        rqli_report_add(self->report, "opt.sense", RQL_CHECK_NOTE,
                        "an acquisition ends by its retry_count of %" PRId64
                        ", long before timeout_ms",
                        options->retry_count);
        rqli_report_say(self->report, "it does not wait as long as the timeout lets one think",
                        "set RQL_RETRY_COUNT=forever: then the timeout of %" PRId64
                        " ms is the limit",
                        options->timeout_ms);
    } else {
        rqli_report_add(self->report, "opt.sense", RQL_CHECK_OK, "the options fit");
    }
    rqli_report_number(self->report, "ttl_ms", options->ttl_ms);
    rqli_report_number(self->report, "retry_count", options->retry_count);
}

static void look_at_limits(struct rqli_diagnosis *self)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct rlimit files = {0};

    (void)getrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_cur < FEW_DESCRIPTORS) {
        rqli_report_add(self->report, "loc.limits", RQL_CHECK_WARN,
                        "this process may open %llu descriptors",
                        (unsigned long long)files.rlim_cur);
        rqli_report_say(self->report, "without one nobody can connect, and locks are lost",
                        "ulimit -n 65536, or LimitNOFILE= of its unit");
    } else if (cores == 1 && self->client->options.spin_us > 0) {
        rqli_report_add(self->report, "loc.limits", RQL_CHECK_WARN,
                        "spin_us is %" PRId64 ", on one core", self->client->options.spin_us);
        rqli_report_say(self->report, "spinning takes the processor from what is waited for",
                        "set RQL_SPIN_US=0");
    } else {
        rqli_report_add(self->report, "loc.limits", RQL_CHECK_OK, "the limits of this process fit");
    }
    /* "No limit" must not become -1, which would mean that the limit is not known. */
    rqli_report_number(self->report, "descriptors",
                       files.rlim_cur < INT64_MAX ? (int64_t)files.rlim_cur : INT64_MAX);
    rqli_report_number(self->report, "cores", cores);
}

/* ---- all ---- */

/* Each check with the groups that need its findings. The checks that find Ruby come before those
 * that matter with Ruby alone. No connection is made between the first one and the one that
 * net.same_server compares it with. The clocks are read again last. */
static const struct {
    const char *groups;
    void (*look)(struct rqli_diagnosis *self);
    bool is_of_each; /* run for each server; the others are about the first, or this machine */
} looks[] = {
    {"srv net mem dur use clk", rqli_diagnose_server, true},
    {"net opt", rqli_diagnose_round_trips, false},
    {"net", look_at_tls, false},
    {"acl", rqli_diagnose_rights, true},
    {"swarm clk use", rqli_diagnose_swarm, false},
    {"keys", rqli_diagnose_keys, false},
    {"use net", rqli_diagnose_use, true},
    {"net", rqli_diagnose_connecting, false},
    {"clk", rqli_diagnose_clocks, false},
    {"clk", rqli_diagnose_replicas, false},
    {"opt", look_at_options, false},
    {"loc", look_at_limits, false},
};

static void look_at(struct rqli_diagnosis *self, bool is_first)
{
    for (size_t i = 0; i < sizeof looks / sizeof looks[0]; i++) {
        if ((is_first || looks[i].is_of_each) && rqli_report_wants(self->report, looks[i].groups)) {
            looks[i].look(self);
        }
    }
}

/* Chooses a name that no client uses, for a lock that this server has. With several servers the
 * lock may be on another one, if this server has hardly any locks. */
static rql_status choose_scratch(struct rqli_diagnosis *self, rql_error *error)
{
    char nonce[RQLI_HEX_SIZE];
    rql_status status = RQL_OK;

    for (int i = 0; i < NAMES_MAX; i++) {
        if (!rqli_random_hex(nonce)) {
            return rqli_fail_nomem(error);
        }
        (void)snprintf(self->scratch, sizeof self->scratch, SCRATCH "%s", nonce);
        status = rqli_named_init(&self->of_scratch, self->client, self->scratch, error);
        if (status || rqli_client_node(self->client, &self->of_scratch.keys) == self->node) {
            break;
        }
    }
    return status;
}

static void look_at_others(struct rqli_diagnosis *self)
{
    const rql_server_info first = self->server;
    rql_error error = {.status = RQL_OK};

    for (size_t n = 1; (self->node = rqli_fleet_next(&self->client->fleet, self->node, NULL));
         n++) {
        rqli_report_of(self->report, rqli_node_where(self->node));
        if (!rql_client_ping_node(self->client, n, &self->server, &error) &&
            !choose_scratch(self, &error)) {
            look_at(self, false);
            continue;
        }
        rqli_report_add(self->report, "srv.role", RQL_CHECK_FAIL, "%s", error.message);
        rqli_report_say(self->report, "the locks that it has cannot be taken",
                        "start it again, or have a replica take over");
    }
    rqli_report_of(self->report, NULL);
    self->server = first;
}

static rql_status check_groups(const char *groups, rql_error *error)
{
    struct rqli_slice rest = rqli_slice_of(groups ? groups : "");

    while (rest.length > 0) {
        const struct rqli_slice group = rqli_slice_word(&rest);

        if (!rqli_has_word(ALL_GROUPS, group)) {
            return rqli_fail(error, RQL_E_INVALID, "groups has %.*s; it may have %s",
                             (int)group.length, group.data, ALL_GROUPS);
        }
    }
    return RQL_OK;
}

static rql_status check(const rql_client *client, rql_report *const *out, rql_error *error)
{
    rql_status status = rqli_client_check(client, error);

    if (!status && !out) {
        status = rqli_fail(error, RQL_E_INVALID, "rql_diagnose: out is NULL");
    }
    return status;
}

/* Reports only the missing rights, for a user that may not log in the way a locking client does.
 * The question goes over the connection of another client, whose login goes on without the rights;
 * all other checks are left out. If no right is missing, the fault of the login is returned. */
static rql_status diagnose_rights_alone(struct rqli_diagnosis *self, rql_report **out,
                                        rql_error *error)
{
    RQLI_AUTO(rqli_report_free) struct rqli_report *report = NULL;
    RQLI_AUTO(rqli_client_free) rql_client *other = NULL;
    rql_report *made = NULL;
    rql_error fault = {.status = RQL_OK};
    rql_status status = rqli_client_make(&other, &self->client->options, &fault);

    if (status) {
        return RQL_E_AUTH;
    }
    other->session.is_bare = true;
    other->options.bare_login = true;
    self->client = other;
    report = rqli_report_new(self->options.groups);
    status = report ? rql_client_ping_sized(other, &self->server, sizeof self->server, &fault)
                    : RQL_E_NOMEM;
    self->node = rqli_fleet_next(&other->fleet, NULL, NULL);
    if (status || !rqli_report_wants(report, "acl") || choose_scratch(self, &fault)) {
        return RQL_E_AUTH;
    }
    self->report = report;
    self->end_us = rqli_after_ms(rqli_now_us(), self->options.time_limit_ms);
    rqli_diagnose_rights(self);
    rqli_report_add(report, "use.lock", RQL_CHECK_SKIP,
                    "the rest was not looked at: this user cannot log in");
    status = rqli_report_give(&report, &self->server, self->uptime_s, &made, error);
    if (!status && made->n_failures == 0) {
        (void)rql_report_free(made);
        return RQL_E_AUTH;
    }
    if (!status) {
        *out = made;
    }
    return status;
}

rql_status rql_diagnose(rql_client *client, const rql_diagnose_options *options, rql_report **out,
                        rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rqli_report_free) struct rqli_report *report = NULL;
    struct rqli_diagnosis self = {.client = client, .p99_us = -1, .uptime_s = -1};
    rql_status status = check(client, out, error);

    status =
        status ? status : rqli_options_read(RQLI_OF_DIAGNOSE, &self.options, NULL, options, error);
    status = status ? status : check_groups(self.options.groups, error);
    status =
        status ? status : rql_client_ping_sized(client, &self.server, sizeof self.server, error);
    if (status == RQL_E_AUTH) {
        return diagnose_rights_alone(&self, out, error);
    }
    if (status) {
        return status;
    }
    self.node = rqli_fleet_next(&client->fleet, NULL, NULL);
    report = rqli_report_new(self.options.groups);
    status = report ? choose_scratch(&self, error) : rqli_fail_nomem(error);
    if (status) {
        return status;
    }
    self.report = report;
    self.end_us = rqli_after_ms(rqli_now_us(), self.options.time_limit_ms);
    rqli_diagnose_first_clocks(&self);
    look_at(&self, true);
    look_at_others(&self);
    return rqli_report_give(&report, &self.server, self.uptime_s, out, error);
}
