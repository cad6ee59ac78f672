#include "doctor.h"

#include "format.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* use: takes a lock of its own, with one client and with two. */

enum {
    TTL_MS = 2000,
    NOTIFIED_TTL_MS = 1000, /* as rql_lock_facts::handed_over says */
    WAIT_MS = 1000,         /* time for the lock; also the pause between polls of the waiter */
    TRY_MS = 200,           /* for each name, if some of them may be of a server that is down */
    LOOK_NS = 1000000,      /* between two looks at whether the waiter is in the queue */
    LOOKS = 1000,
    ROUNDS = 3,      /* of hand-overs: the waiter subscribes in the first one */
    SLOW_TIMES = 20, /* round trips that a hand-over may take */
    SLOW_LEAST_US = 20000,
    NAMES_MAX = 4096, /* names tried to find one that belongs to this server */
    NAME_SIZE = 80,
    FAULT_SIZE = sizeof(((rql_error *)NULL)->message),
};

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

/* Returns the text of a result, which has a message only if it is a fault. */
static const char *text_of(rql_status status, const rql_error *error)
{
    return status > 0 ? rql_status_text(status) : error->message;
}

/* ---- use.lock ---- */

/* Returns true if a step succeeded; otherwise notes what failed. */
static bool did(struct doctor *self, const char *step, rql_status status, const rql_error *error)
{
    if (status != RQL_OK) {
        doctor_text(self, "use.lock", "step", step);
        doctor_text(self, "use.lock", "fault", text_of(status, error));
        doctor_flag(self, "has_failed", true);
    }
    return status == RQL_OK;
}

/* Returns whether a name that could not be locked belongs to this server. A name whose server is
 * silent counts as one of another server, because this one has just answered. */
static bool is_name_here(struct doctor *self, const char *name, rql_status fault)
{
    CLI_AUTO(rql_free) rql_lock_info_list *found = NULL;

    return fault != RQL_E_IO && fault != RQL_E_UNKNOWN &&
           rql_locks_read(self->client, &name, 1, &found, NULL) == RQL_OK &&
           strcmp(found->item[0]->node, doctor_where(self)) == 0;
}

/* Takes a lock of a name that no client uses, and that belongs to this server. With several servers
 * a name may belong to another one, which may not answer. RQL_NOT_FOUND: no name of this server was
 * found in time. */
static rql_status take_lock(struct doctor *self, char name[NAME_SIZE], rql_lock **out,
                            rql_error *error)
{
    rql_lock_options options = options_of(self->client);

    options.timeout_ms = self->is_partitioned ? TRY_MS : WAIT_MS;
    for (int i = 0; i < NAMES_MAX && cli_now_us() < self->end_us; i++) {
        rql_status status;

        (void)snprintf(name, NAME_SIZE, "rql-doctor-%.40s-%d", rql_client_identity(self->client),
                       i);
        status = rql_lock_acquire(self->client, name, &options, out, error);
        if (!self->is_partitioned ||
            (status == RQL_OK && strcmp(rql_lock_node(*out), doctor_where(self)) == 0) ||
            (status != RQL_OK && is_name_here(self, name, status))) {
            return status;
        }
        (void)rql_lock_release(*out, NULL);
        *out = NULL;
    }
    return RQL_NOT_FOUND;
}

/* Returns true if all steps succeeded, with a name that belongs to this server. If not, the lock is
 * released all the same. */
static bool use_lock(struct doctor *self, char name[NAME_SIZE])
{
    const rql_lock_options options = options_of(self->client);
    rql_client *client = self->client;
    rql_error error = {.status = RQL_OK};
    rql_lock *lock = NULL;
    rql_lock *again = NULL;
    rql_status status = take_lock(self, name, &lock, &error);

    if (status == RQL_NOT_FOUND) {
        doctor_flag(self, "has_no_name", true);
        self->n_late++;
        return false;
    }
    if (!did(self, "acquire", status, &error)) {
        return false;
    }
    if (!did(self, "re-enter", rql_lock_acquire(client, name, &options, &again, &error), &error) ||
        !did(self, "end the re-entry", rql_lock_release(again, &error), &error) ||
        !did(self, "extend", rql_lock_extend(lock, TTL_MS, &error), &error)) {
        (void)rql_lock_release(lock, NULL);
        return false;
    }
    return did(self, "release", rql_lock_release(lock, &error), &error);
}

/* ---- use.handover ---- */

struct waiter {
    rql_client *client;
    const char *name;
    rql_lock *lock;
    rql_status status;
    rql_error error;
    int64_t held_us;
    bool was_notified;
};

/* Waits for the lock. With so short a TTL the lock counts as handed over only if the notification
 * has arrived; if a poll has found the lock, it does not. */
static void *wait_for_lock(void *user_data)
{
    struct waiter *self = user_data;
    rql_lock_options options = options_of(self->client);
    rql_lock_facts facts;

    options.ttl_ms = NOTIFIED_TTL_MS;
    options.retry_delay_ms = WAIT_MS;
    options.timeout_ms = INT64_C(3) * WAIT_MS;
    self->status = rql_lock_acquire(self->client, self->name, &options, &self->lock, &self->error);
    self->held_us = cli_now_us();
    rql_lock_describe(self->lock, &facts);
    self->was_notified = facts.handed_over;
    return NULL;
}

/* Waits until the queue has a request. It may have none if the waiter has failed. */
static void await_waiter(struct doctor *self, const char *name)
{
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    bool is_there = false;

    for (int i = 0; i < LOOKS && !is_there; i++) {
        CLI_AUTO(rql_free) rql_queue_info *queue = NULL;

        is_there =
            rql_queue_inspect(self->client, name, &queue, NULL) == RQL_OK && queue->n_requests > 0;
        if (!is_there) {
            (void)nanosleep(&pause, NULL);
        }
    }
}

/* Hands the lock of this name to a waiter of another client. Returns how long that took; -1: it
 * failed, and the fault says why. */
static int64_t hand_over(struct doctor *self, const char *name, rql_client *other,
                         bool *was_notified, char fault[FAULT_SIZE])
{
    const rql_lock_options options = options_of(self->client);
    struct waiter waiter = {.client = other, .name = name};
    rql_error error = {.status = RQL_OK};
    rql_lock *lock = NULL;
    pthread_t thread;
    int64_t begun_us;
    rql_status status = rql_lock_acquire(self->client, name, &options, &lock, &error);

    if (status != RQL_OK || pthread_create(&thread, NULL, wait_for_lock, &waiter) != 0) {
        (void)snprintf(fault, FAULT_SIZE, "%s",
                       status ? text_of(status, &error) : "no thread could be started");
        (void)rql_lock_release(lock, NULL);
        return -1;
    }
    await_waiter(self, name);
    begun_us = cli_now_us();
    (void)rql_lock_release(lock, NULL);
    (void)pthread_join(thread, NULL);
    (void)rql_lock_release(waiter.lock, NULL);
    *was_notified = waiter.was_notified;
    (void)snprintf(fault, FAULT_SIZE, "%s", text_of(waiter.status, &waiter.error));
    return waiter.status == RQL_OK ? waiter.held_us - begun_us : -1;
}

/* A waiter that may not subscribe fails, or has its lock only when it polls. */
static void read_hand_over(struct doctor *self, const char *name)
{
    CLI_AUTO(rql_client_free) rql_client *other = NULL;
    rql_options options = *self->wish.options;
    char fault[FAULT_SIZE] = "no memory for a second client";
    bool was_notified = false;
    int64_t took_us = -1;

    options.auto_swarm = false;
    options.connections = 1;
    if (rql_client_new(&options, &other, NULL) == RQL_OK) {
        for (int i = 0; i < ROUNDS && !was_notified && (i == 0 || took_us >= 0); i++) {
            took_us = hand_over(self, name, other, &was_notified, fault);
        }
    }
    doctor_number(self, "use.handover", "took_us", took_us);
    doctor_number(self, "", "handover_us", took_us);
    doctor_text(self, "", "fault", fault);
    doctor_flag(self, "has_waiter_failed", took_us < 0);
    doctor_flag(self, "was_polled", took_us >= 0 && !was_notified);
    doctor_flag(self, "was_slow",
                took_us > SLOW_LEAST_US && took_us > SLOW_TIMES * self->server.round_trip_us);
    doctor_text(self, "", "rules",
                self->is_partitioned ? "+ssubscribe +sunsubscribe '&rql:*'"
                                     : "+subscribe '&rql:wake:*'");
}

/* ---- the table ---- */

static bool read_use(struct doctor *self)
{
    const int64_t begun_us = cli_now_us();
    char name[NAME_SIZE];

    if (strcmp(self->server.role, "replica") == 0) {
        doctor_flag(self, "is_replica", true);
    } else if (use_lock(self, name)) {
        doctor_number(self, "use.lock", "took_us", cli_now_us() - begun_us);
        read_hand_over(self, name);
    }
    return true;
}

static const struct doctor_row rows[] = {
    DOCTOR_SKIP_ROW("use.lock", "is_replica", "whether a lock can be taken: not on a replica"),
    DOCTOR_SKIP_ROW("use.lock", "has_no_name",
                    "whether a lock can be taken: no name of this server was found in time"),
    {"use.lock", DOCTOR_FAIL, "has_failed", "{step}: {fault}", "locks do not work here",
     "fix the other problems first, then run rql doctor again"},
    DOCTOR_GOOD_ROW("use.lock", NULL, "a lock was acquired, re-entered, extended and released"),

    DOCTOR_SKIP_ROW("use.handover", "is_replica",
                    "whether a lock is handed over: not on a replica"),
    DOCTOR_SKIP_ROW("use.handover", "has_failed",
                    "whether a lock is handed over: none can be taken"),
    DOCTOR_SKIP_ROW("use.handover", "has_no_name",
                    "whether a lock is handed over: no name of this server was found in time"),
    {"use.handover", DOCTOR_FAIL, "has_waiter_failed", "a waiter failed: {fault}",
     "waiters do not get the lock that is released",
     "grant the user {rules}, or fix the fault that the title names"},
    {"use.handover", DOCTOR_FAIL, "was_polled", "a waiter was not notified that it has the lock",
     "waiters poll for the lock: they get it late, and load the server more",
     "grant the user {rules}; a proxy must lead all connections to the same server"},
    {"use.handover", DOCTOR_WARN, "was_slow",
     "a lock was handed to another client in {handover_us:ms}",
     "that is more than 20 round trips: something delays the server's messages",
     "check for a proxy between, and the load of this machine and of the server"},
    DOCTOR_GOOD_ROW("use.handover", NULL,
                    "a lock was handed to another client in {handover_us:ms}"),
};

const struct doctor_group doctor_use = {rows, sizeof rows / sizeof rows[0], read_use,
                                        DOCTOR_EACH | DOCTOR_LOCKS};
