#include "perf/labour.h"

#include "common/clock.h"
#include "common/connect.h"
#include "perf/floor.h"

#include <errno.h>
#include <pthread.h>
#include <rql/rql.h>
#include <stdio.h>

enum { TTL_MS = 5000, TIMEOUT_MS = 10000, URL_SIZE = 256 };

struct labourer {
    struct crew *crew;
    struct seat *seat;
    rql_client *client;
    rql_lock_options options;
    struct floor floor; /* solo seats only */
    char lock_name[32];
    pthread_t thread;
};

struct team {
    struct crew *crew;
    rql_client *client;
    int first; /* seat of the first labourer */
    int step;  /* seats from one labourer to the next */
    int wanted;
    int hired;
    struct labourer labourer[SOLO_SEATS];
};

static bool fail_lock(struct labourer *self, const char *what, rql_status status,
                      const rql_error *error)
{
    fault_raise(&self->crew->fault, "%s: %s %s", what, rql_status_text(status), error->message);
    return false;
}

static bool do_ping(struct labourer *self)
{
    if (!floor_ping(&self->floor)) {
        fault_raise(&self->crew->fault, "ping: %s", self->floor.context->errstr);
        return false;
    }
    return true;
}

static bool do_floor(struct labourer *self)
{
    if (!floor_pair(&self->floor)) {
        fault_raise(&self->crew->fault, "plain lock: %s", self->floor.context->errstr);
        return false;
    }
    return true;
}

static bool do_pair(struct labourer *self)
{
    rql_lock *lock = NULL;
    rql_error error = {0};
    rql_status status =
        rql_lock_acquire(self->client, self->lock_name, &self->options, &lock, &error);

    if (status) {
        return fail_lock(self, "acquire", status, &error);
    }
    status = rql_lock_release(lock, &error);
    return status ? fail_lock(self, "release", status, &error) : true;
}

/* Counts only what was handed over: a lock that was found free was not waited for. */
static bool do_turn(struct labourer *self)
{
    rql_lock *lock = NULL;
    rql_error error = {0};
    rql_status status = rql_lock_acquire(self->client, "bench:hand", &self->options, &lock, &error);
    int64_t entered_ns = now_ns();

    if (status) {
        return fail_lock(self, "acquire", status, &error);
    }
    if (rql_lock_describe(lock).handed_over && entered_ns < self->crew->stop_ns) {
        histogram_add(&self->seat->times, entered_ns - atomic_load(&self->crew->released_ns));
    }
    atomic_store(&self->crew->released_ns, now_ns());
    status = rql_lock_release(lock, &error);
    return status ? fail_lock(self, "release", status, &error) : true;
}

/* One reading of the clock for each operation: the end of one is the start of the next. */
static void repeat_timed(struct labourer *self, bool (*operation)(struct labourer *))
{
    int64_t begun_ns = now_ns();
    int64_t ended_ns;

    while (begun_ns < self->crew->stop_ns && operation(self)) {
        ended_ns = now_ns();
        histogram_add(&self->seat->times, ended_ns - begun_ns);
        self->seat->operations++;
        begun_ns = ended_ns;
    }
}

static void repeat_turns(struct labourer *self)
{
    while (now_ns() < self->crew->stop_ns && do_turn(self)) {
        self->seat->operations++;
    }
}

/* False: time to go. */
static bool carry_out(struct labourer *self)
{
    switch (self->crew->job) {
    case JOB_PING:
        repeat_timed(self, do_ping);
        break;
    case JOB_FLOOR:
        repeat_timed(self, do_floor);
        break;
    case JOB_PAIR:
        repeat_timed(self, do_pair);
        break;
    case JOB_HANDOFF:
        repeat_turns(self);
        break;
    case JOB_QUIT:
        return false;
    }
    self->seat->ended_ns = now_ns();
    return true;
}

static void *serve(void *argument)
{
    struct labourer *self = argument;

    do {
        (void)sem_post(&self->crew->done);
        while (sem_wait(&self->seat->go) != 0 && errno == EINTR) {
        }
    } while (carry_out(self));
    floor_close(&self->floor);
    return NULL;
}

static rql_client *connect_to(const char *socket_path, struct fault *fault)
{
    char url[URL_SIZE];

    (void)snprintf(url, sizeof url, "unix://%s", socket_path);
    return connect_client(url, fault);
}

/* The team of process 0 has the solo seats; the others take turns at the rest, so that any number
 * of first hand seats is spread evenly. */
static void place(struct team *self, int process)
{
    self->first = process == 0 ? 0 : SOLO_SEATS + process - 1;
    self->step = process == 0 ? 1 : HAND_PROCESSES;
    self->wanted = process == 0 ? SOLO_SEATS : HAND_SEATS / HAND_PROCESSES;
}

static bool hire_next(struct team *self, const char *socket_path)
{
    int seat = self->first + self->hired * self->step;
    struct labourer *labourer = &self->labourer[self->hired];
    char reason[FLOOR_REASON_SIZE];

    *labourer = (struct labourer){.crew = self->crew, .client = self->client};
    labourer->seat = &self->crew->seat[seat];
    (void)snprintf(labourer->lock_name, sizeof labourer->lock_name, "bench:pair:%d", seat);
    rql_lock_options_init(self->client, &labourer->options);
    labourer->options.ttl_ms = TTL_MS;
    labourer->options.timeout_ms = TIMEOUT_MS;
    labourer->options.retry_count = RQL_FOREVER;
    if (seat < SOLO_SEATS && !floor_open(&labourer->floor, socket_path, seat, reason)) {
        fault_raise(&self->crew->fault, "connect: %s", reason);
        return false;
    }
    if (pthread_create(&labourer->thread, NULL, serve, labourer) != 0) {
        fault_raise(&self->crew->fault, "cannot start a thread");
        floor_close(&labourer->floor);
        return false;
    }
    self->hired++;
    return true;
}

int labour(struct crew *crew, int process, const char *socket_path)
{
    struct team team = {.crew = crew, .client = connect_to(socket_path, &crew->fault)};

    if (!team.client) {
        return 1;
    }
    place(&team, process);
    while (team.hired < team.wanted && hire_next(&team, socket_path)) {
    }
    while (team.hired > 0) {
        (void)pthread_join(team.labourer[--team.hired].thread, NULL);
    }
    (void)rql_client_free(team.client);
    return 0;
}
