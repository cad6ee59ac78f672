#include "admin/diagnosis.h"

#include "base/clock.h"
#include "base/worker.h"
#include "lock/client_new.h"
#include "net/conn/batch_threads.h"
#include "wire/answer.h"

#include <inttypes.h>
#include <rql/lock.h>
#include <stdio.h>
#include <string.h>

/* Takes a scratch lock, with one client and with two. */

enum {
    TTL_MS = 2000,
    WAIT_MS = 1000,    /* time for the lock; the waiter is given half of it to begin to listen, */
    LOOKS_LEAST = 100, /* and at least so many, as a busy machine makes few in that time */
    LOOK_US = 1000,    /* between two looks at whether the waiter waits */
    SLOW_TIMES = 20,   /* round trips that a hand-over may take */
    SLOW_LEAST_US = 20000,
    US_PER_MS = 1000,
};

#define RUBY_ACQUIRER "rql:acq:0/0/0/0/0000000000000000"
#define RUBY_HOST "rql:hst:0/0/0/0000000000000000"

/* Reports the error that a step ended with. It tells a missing right from any other cause. */
static void report_fault(struct rqli_diagnosis *self, const char *id, const char *step,
                         const rql_error *error)
{
    rqli_report_add(self->report, id, RQL_CHECK_FAIL, "%s: %s", step, error->message);
    rqli_report_say(self->report, "locks do not work here", "see what the other checks say");
}

static rql_lock_options options_of(const rql_client *client)
{
    rql_lock_options options;

    rql_lock_options_init(client, &options);
    options.ttl_ms = TTL_MS;
    options.timeout_ms = WAIT_MS;
    options.retry_count = RQL_FOREVER;
    options.conflict_strategy = RQL_WORK_THROUGH;
    options.lazy_release = false;
    options.auto_extend = false;
    return options;
}

/* Makes a text of an outcome that is no fault. */
static rql_status note_outcome(rql_status status, rql_error *error)
{
    if (status > 0) {
        (void)snprintf(error->message, sizeof error->message, "%s", rql_status_text(status));
    }
    return status;
}

/* ---- use.lock ---- */

/* Returns the step that failed, or NULL. If a lock is left behind, it expires. */
static const char *use_lock(struct rqli_diagnosis *self, rql_error *error)
{
    const rql_lock_options options = options_of(self->client);
    rql_lock *lock = NULL;
    rql_lock *again = NULL;

    if (note_outcome(rql_lock_acquire(self->client, self->scratch, &options, &lock, error),
                     error)) {
        return "acquire";
    }
    if (note_outcome(rql_lock_acquire(self->client, self->scratch, &options, &again, error),
                     error)) {
        (void)rql_lock_release(lock, NULL);
        return "re-enter";
    }
    if (note_outcome(rql_lock_release(again, error), error)) {
        (void)rql_lock_release(lock, NULL);
        return "end a re-entry";
    }
    if (note_outcome(rql_lock_extend(lock, TTL_MS, error), error)) {
        (void)rql_lock_release(lock, NULL);
        return "extend";
    }
    return note_outcome(rql_lock_release(lock, error), error) ? "release" : NULL;
}

static void look_at_lock(struct rqli_diagnosis *self)
{
    const int64_t begun_us = rqli_now_us();
    rql_error error = {.status = RQL_OK};
    const char *step = use_lock(self, &error);

    if (step) {
        report_fault(self, "use.lock", step, &error);
        return;
    }
    rqli_report_add(self->report, "use.lock", RQL_CHECK_OK,
                    "a lock was taken, re-entered, extended and released");
    rqli_report_number(self->report, "took_us", rqli_now_us() - begun_us);
}

/* ---- use.handover, net.same_server ---- */

struct waiter {
    struct rqli_worker worker; /* first */
    rql_client *client;
    const char *name;
    rql_lock *lock;
    rql_status status;
    bool was_heard; /* it was known to listen before the lock was ended */
    bool was_handed_over;
    int64_t ended_us; /* when the other client's lock was ended */
    int64_t held_us;
    rql_error error;
};

/* Waits for the lock. It polls so seldom that only a push can arrive in time. */
static int64_t wait_for_lock(struct rqli_worker *worker)
{
    struct waiter *self = (struct waiter *)worker;
    rql_lock_options options = options_of(self->client);

    options.retry_delay_ms = WAIT_MS;
    options.timeout_ms = INT64_C(10) * WAIT_MS; /* longer than its pause between polls */
    self->status = note_outcome(
        rql_lock_acquire(self->client, self->name, &options, &self->lock, &self->error),
        &self->error);
    self->held_us = rqli_now_us();
    return RQLI_WORKER_OVER;
}

/* Looks until the waiter is in the queue and listens. False: it never does, or the server does
 * not answer. */
static bool await_waiter(struct rqli_diagnosis *self, const char *id, const char *identity)
{
    const int64_t until_us = rqli_after_ms(rqli_now_us(), WAIT_MS / 2);

    for (int n_looks = 0; n_looks < LOOKS_LEAST || rqli_now_us() < until_us; n_looks++) {
        RQLI_AUTO(rqli_batch_give)
        struct rqli_batch *batch = rqli_client_batch(self->client, self->of_scratch.keys.set);

        if (batch) {
            rqli_command_words(&batch->command, "ZCARD", self->of_scratch.keys.queue.data, NULL);
            rqli_push_ping(&batch->command, self->of_scratch.keys.set, identity);
        }
        if (!rqli_diagnosis_run(self, id, batch) || !batch) {
            return false;
        }
        if (batch->reply[0].integer > 0 && batch->reply[1].integer > 0) {
            return true;
        }
        rqli_sleep_until(rqli_now_us() + LOOK_US);
    }
    return false;
}

static void judge_hand_over(struct rqli_diagnosis *self, const struct waiter *waiter)
{
    const int64_t took_us = waiter->held_us - waiter->ended_us;
    const int64_t slow_us = SLOW_TIMES * self->server.round_trip_us;
    const bool was_pushed = waiter->was_heard && waiter->was_handed_over;

    if (waiter->status != RQL_OK && waiter->was_heard) {
        report_fault(self, "use.handover", "a waiter", &waiter->error);
        return;
    }
    if (!was_pushed) {
        rqli_report_add(self->report, "use.handover", RQL_CHECK_FAIL,
                        "a waiter of another client was not told that the lock is its own");
        rqli_report_say(
            self->report, "waiters learn of a free lock by asking: late, and with more load",
            "this user needs %s, and a proxy has to lead all connections to one server",
            self->client->is_partitioned ? "+ssubscribe +sunsubscribe and channels &rql:*"
                                         : "+subscribe and channels &rql:wake:*");
        return;
    }
    rqli_report_add(self->report, "use.handover",
                    took_us > slow_us && took_us > SLOW_LEAST_US ? RQL_CHECK_WARN : RQL_CHECK_OK,
                    "a lock was handed to another client in %.2f ms", (double)took_us / 1000);
    rqli_report_number(self->report, "took_us", took_us);
    rqli_report_say(self->report, "that is more than 20 round trips: something delays pushes",
                    "look for a proxy between, and at the load of both machines");
}

/* Lets another client wait for the lock while it is held. When that client is known to listen,
 * calls `end` to end the lock. False: no thread could be started. */
static bool hand_over(struct rqli_diagnosis *self, struct waiter *waiter, const char *id,
                      void (*end)(struct rqli_diagnosis *self, rql_lock *lock), rql_lock *lock)
{
    waiter->worker = (struct rqli_worker){.name = "rql-doctor", .step = wait_for_lock};
    waiter->name = self->scratch;
    waiter->status = RQL_TIMED_OUT;
    if (!rqli_worker_start(&waiter->worker)) {
        rqli_report_add(self->report, id, RQL_CHECK_SKIP, "%s: no thread", id);
        end(self, lock);
        return false;
    }
    waiter->was_heard = await_waiter(self, id, rql_client_identity(waiter->client));
    waiter->ended_us = rqli_now_us();
    end(self, lock);
    rqli_worker_stop(&waiter->worker);
    if (waiter->lock) {
        rql_lock_facts facts;

        rql_lock_describe(waiter->lock, &facts);
        waiter->was_handed_over = facts.handed_over;
        (void)rql_lock_release(waiter->lock, NULL);
    }
    return true;
}

static void release(struct rqli_diagnosis *self, rql_lock *lock)
{
    (void)self;
    (void)rql_lock_release(lock, NULL);
}

static void look_at_hand_over(struct rqli_diagnosis *self, rql_client *other)
{
    const rql_lock_options options = options_of(self->client);
    struct waiter waiter = {.client = other};
    rql_error error = {.status = RQL_OK};
    rql_lock *lock = NULL;

    if (note_outcome(rql_lock_acquire(self->client, self->scratch, &options, &lock, &error),
                     &error)) {
        report_fault(self, "use.handover", "acquire", &error);
        return;
    }
    if (hand_over(self, &waiter, "use.handover", release, lock)) {
        judge_hand_over(self, &waiter);
    }
}

static void copy_run_id(rql_client *client, char run_id[RQLI_HEX_SIZE + 8])
{
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;

    if (rqli_query(client, &batch, NULL, "INFO", "server", NULL) == RQL_OK) {
        rqli_reply_copy_between(run_id, RQLI_HEX_SIZE + 8, batch->reply, "\nrun_id:", "\r");
    }
}

/* Returns false if the connections lead to two servers, which have two locks of one name. */
static bool look_at_same_server(struct rqli_diagnosis *self, rql_client *other)
{
    char ours[RQLI_HEX_SIZE + 8] = "";
    char others[RQLI_HEX_SIZE + 8] = "";

    copy_run_id(self->client, ours);
    copy_run_id(other, others);
    if (!*ours || !*others) {
        rqli_report_add(self->report, "net.same_server", RQL_CHECK_SKIP,
                        "whether all connections lead to one server: no right to INFO");
        return true;
    }
    rqli_report_add(self->report, "net.same_server",
                    strcmp(ours, others) == 0 ? RQL_CHECK_OK : RQL_CHECK_FAIL,
                    strcmp(ours, others) == 0 ? "two connections lead to one server"
                                              : "two connections lead to two servers");
    rqli_report_text(self->report, "run_id", ours);
    rqli_report_text(self->report, "other_run_id", others);
    rqli_report_say(self->report, "each has locks of its own: two hold what one should",
                    "have the proxy or load balancer lead all connections to the master, or name "
                    "the master in RQL_URL");
    return strcmp(ours, others) == 0;
}

/* ---- use.tracking ---- */

/* Writes a lock the way Ruby does. */
static bool hold_as_ruby(struct rqli_diagnosis *self)
{
    const char *key = self->of_scratch.keys.lock.data;
    RQLI_AUTO(rqli_batch_give)
    struct rqli_batch *batch = rqli_batch_take(rqli_client_conn(self->client));

    if (batch) {
        rqli_command_words(&batch->command, "HSET", key, "acq_id", RUBY_ACQUIRER, "hst_id",
                           RUBY_HOST, "ts", "1.0", "ini_ttl", "2000", NULL);
        rqli_command_words(&batch->command, "PEXPIRE", key, "2000", NULL);
    }
    return rqli_diagnosis_run(self, "use.tracking", batch) && batch->reply[0].integer > 0;
}

/* Releases the lock the way Ruby does, without notifying the waiter. It first gives the waiter
 * time to have the key tracked, which happens after its first poll; no command can show that. */
static void end_as_ruby(struct rqli_diagnosis *self, rql_lock *none)
{
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;

    (void)none;
    rqli_sleep_until(rqli_now_us() + rqli_client_grace_us(self->client));
    (void)rqli_query(self->client, &batch, NULL, "DEL", self->of_scratch.keys.lock.data, NULL);
}

static void report_tracking(struct rqli_diagnosis *self, bool is_told)
{
    rqli_report_add(self->report, "use.tracking",
                    is_told            ? RQL_CHECK_OK
                    : self->n_ruby > 0 ? RQL_CHECK_WARN
                                       : RQL_CHECK_NOTE,
                    is_told ? "what Ruby releases is told to waiters"
                            : "what Ruby releases is not told to waiters");
    rqli_report_number(self->report, "ruby", self->n_ruby);
    rqli_report_say(self->report, "behind a lock of Ruby's waiters poll, and come late",
                    "this user needs +client|tracking +client|caching '&__redis__:invalidate', and "
                    "a proxy must not stand between");
}

static bool is_refused(const rql_server_info *server)
{
    for (size_t i = 0; i < server->n_refused; i++) {
        if (strcmp(server->refused[i], "CLIENT TRACKING") == 0 ||
            strcmp(server->refused[i], "CLIENT CACHING") == 0) {
            return true;
        }
    }
    return false;
}

static void look_at_tracking(struct rqli_diagnosis *self, rql_client *other)
{
    struct waiter waiter = {.client = other};

    if (is_refused(&self->server)) {
        report_tracking(self, false);
    } else if (hold_as_ruby(self) && hand_over(self, &waiter, "use.tracking", end_as_ruby, NULL)) {
        report_tracking(self, waiter.status == RQL_OK &&
                                  waiter.held_us - waiter.ended_us < WAIT_MS * US_PER_MS / 2);
    }
}

/* ---- all ---- */

/* The other client is made without a swarm. With several servers the last checks are left out: a
 * proxy does not stand in front of several masters, and Ruby does not use them. */
static void look_with_another(struct rqli_diagnosis *self)
{
    RQLI_AUTO(rqli_client_free) rql_client *other = NULL;
    rql_error error = {.status = RQL_OK};

    if (rqli_client_make(&other, &self->client->options, &error) != RQL_OK ||
        rql_client_connect(other, &error) != RQL_OK) {
        report_fault(self, "use.handover", "a second connection", &error);
        return;
    }
    if (!self->client->is_partitioned && !look_at_same_server(self, other)) {
        return;
    }
    if (rqli_diagnosis_has_time(self, "use.handover")) {
        look_at_hand_over(self, other);
    }
    if (!self->client->is_partitioned && rqli_diagnosis_has_time(self, "use.tracking")) {
        look_at_tracking(self, other);
    }
}

void rqli_diagnose_use(struct rqli_diagnosis *self)
{
    if (strcmp(self->server.role, "replica") == 0) {
        rqli_report_add(self->report, "use.lock", RQL_CHECK_SKIP,
                        "whether a lock can be taken: not on a replica");
        return;
    }
    if (rqli_diagnosis_has_time(self, "use.lock")) {
        look_at_lock(self);
    }
    if (rqli_diagnosis_has_time(self, "use.handover")) {
        look_with_another(self);
    }
}
