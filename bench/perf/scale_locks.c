#include "common/clock.h"
#include "common/connect.h"
#include "perf/floor.h"
#include "perf/queues.h"
#include "perf/scale.h"

#include <rql/admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HELD = 100000, FILL_BATCH = 1000, URL_SIZE = 256, ZOMBIE_TTL_MS = 20 };

struct locks {
    struct fault *fault;
    struct replay *replay;
    redisContext *plain;
    rql_client *client;
    rql_client *doomed; /* whose host dies again and again */
    struct queues queues;
    double held_bytes;
    struct outcome outcome;
};

static bool judge(struct locks *self, const char *what, rql_status status, const rql_error *error)
{
    if (status) {
        fault_raise(self->fault, "%s: %s %s", what, rql_status_text(status), error->message);
    }
    return !status;
}

static bool fill_held(struct locks *self)
{
    int64_t before = replay_memory(self->replay);
    char name[32];
    int i;

    for (i = 0; i < HELD; i++) {
        (void)snprintf(name, sizeof name, "bench:held:%06d", i);
        replay_acquire(self->replay, name, HELD + i);
        if ((i + 1) % FILL_BATCH == 0 && !replay_flush(self->replay)) {
            return false;
        }
    }
    self->held_bytes = (double)(replay_memory(self->replay) - before) / HELD;
    return true;
}

static bool list(struct locks *self, int64_t *found)
{
    rql_text_list *list = NULL;
    rql_error error = {0};

    if (!judge(self, "list", rql_locks_list(self->client, &list, &error), &error)) {
        return false;
    }
    *found = (int64_t)list->count;
    (void)rql_free(list);
    return true;
}

/* One page of SCAN, parsed by hiredis and thrown away: the least that a listing can do. */
static bool scan_page(struct locks *self, char cursor[32], int64_t *found)
{
    redisReply *reply = redisCommand(self->plain, "SCAN %s MATCH rql:lock:* COUNT 500", cursor);
    bool good = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2;

    if (good) {
        (void)snprintf(cursor, 32, "%s", reply->element[0]->str);
        *found += (int64_t)reply->element[1]->elements;
    } else {
        fault_raise(self->fault, "SCAN: %s", reply ? reply->str : self->plain->errstr);
    }
    if (reply) {
        freeReplyObject(reply);
    }
    return good;
}

static bool scan(struct locks *self, int64_t *found)
{
    char cursor[32] = "0";

    *found = 0;
    do {
        if (!scan_page(self, cursor, found)) {
            return false;
        }
    } while (strcmp(cursor, "0") != 0);
    return true;
}

/* Locks of a host that sends one heartbeat and then no more. */
static bool make_zombies(struct locks *self, int64_t count)
{
    rql_lock_options options;
    rql_error error = {0};
    char name[48];
    int64_t i;

    if (!judge(self, "probe", rql_swarm_probe(self->doomed, NULL, NULL, &error), &error)) {
        return false;
    }
    rql_lock_options_init(self->doomed, &options);
    options.ttl_ms = 3600 * INT64_C(1000);
    for (i = 0; i < count; i++) {
        rql_lock *lock = NULL;

        (void)snprintf(name, sizeof name, "bench:zombie:%lld", (long long)i);
        if (!judge(self, "acquire", rql_lock_acquire(self->doomed, name, &options, &lock, &error),
                   &error)) {
            return false;
        }
        (void)rql_lock_forget(lock);
    }
    sleep_until_ns(now_ns() + 2 * (ZOMBIE_TTL_MS * RQLB_MS));
    return true;
}

static bool flush(struct locks *self, int64_t *found)
{
    rql_swarm_options options;
    rql_zombies *zombies = NULL;
    rql_error error = {0};

    rql_swarm_options_init(self->client, &options);
    options.zombie_ttl_ms = ZOMBIE_TTL_MS;
    if (!judge(self, "flush", rql_swarm_flush(self->client, &options, &zombies, &error), &error)) {
        return false;
    }
    *found = (int64_t)zombies->locks->count;
    (void)rql_free(zombies);
    return true;
}

/* Once, timed as a whole; the outcome's operations are what was found. */
static bool time_one(struct locks *self, bool (*work)(struct locks *, int64_t *), int64_t wanted)
{
    int64_t found = 0;
    int64_t begun_ns = now_ns();

    self->outcome = (struct outcome){0};
    if (!work(self, &found)) {
        return false;
    }
    self->outcome.counted_ns = now_ns() - begun_ns;
    histogram_add(&self->outcome.times, self->outcome.counted_ns);
    self->outcome.done = found;
    self->outcome.counted = found;
    if (found < wanted) {
        fault_raise(self->fault, "%lld found, at least %lld are there", (long long)found,
                    (long long)wanted);
    }
    return found >= wanted;
}

static bool tell_held(struct locks *self, const struct request *request)
{
    (void)request;
    protocol_answer_bytes(self->held_bytes);
    return true;
}

static bool tell_waiting(struct locks *self, const struct request *request)
{
    (void)request;
    protocol_answer_bytes(self->queues.waiting_bytes);
    return true;
}

static bool answer(struct locks *self, bool good)
{
    if (good) {
        protocol_answer(&self->outcome);
    }
    return good;
}

static bool time_queue(struct locks *self, const struct request *request)
{
    return answer(self, queues_run(&self->queues, request, &self->outcome));
}

static bool time_list(struct locks *self, const struct request *request)
{
    return answer(self, time_one(self, list, request->number));
}

static bool time_scan(struct locks *self, const struct request *request)
{
    return answer(self, time_one(self, scan, request->number));
}

/* An order of its own, so that what it costs the server is not taken for the cost of the flush. */
static bool prepare_flush(struct locks *self, const struct request *request)
{
    self->outcome = (struct outcome){0};
    return answer(self, make_zombies(self, request->number));
}

static bool time_flush(struct locks *self, const struct request *request)
{
    return answer(self, time_one(self, flush, request->number));
}

static bool obey(struct locks *self, const struct request *request)
{
    static const struct {
        const char *shape;
        bool (*run)(struct locks *, const struct request *);
    } orders[] = {
        {"held", tell_held}, {"waiting", tell_waiting},  {"queue", time_queue}, {"list", time_list},
        {"scan", time_scan}, {"zombies", prepare_flush}, {"flush", time_flush},
    };

    size_t i;

    for (i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        if (strcmp(orders[i].shape, request->shape) == 0) {
            return orders[i].run(self, request);
        }
    }
    fault_raise(self->fault, "not for us: %s", request->shape);
    return false;
}

static bool connect_all(struct locks *self, const char *socket_path)
{
    const struct site site = {.address = socket_path, .fault = self->fault};
    char url[URL_SIZE];
    rql_options options;

    (void)snprintf(url, sizeof url, "unix://%s", socket_path);
    rql_options_init_gem(&options);
    options.url = url;
    options.io_timeout_ms = 20000; /* for machines that are slow with 100 000 keys */
    self->replay = replay_open(socket_path, self->fault);
    self->plain = dial(&site);
    self->client = connect_client(&options, self->fault);
    self->doomed = connect_client(&options, self->fault);
    return self->replay && self->plain && self->client && self->doomed;
}

static void disconnect_all(struct locks *self)
{
    if (self->replay) {
        replay_close(self->replay);
    }
    if (self->plain) {
        redisFree(self->plain);
    }
    (void)rql_client_free(self->client);
    (void)rql_client_free(self->doomed);
}

void scale_locks(const char *socket_path, struct fault *fault)
{
    struct locks *self = calloc(1, sizeof *self);
    struct request request;

    if (!self) {
        fault_raise(fault, "out of memory");
        return;
    }
    self->fault = fault;
    if (connect_all(self, socket_path) && replay_listen(self->replay) && fill_held(self) &&
        queues_fill(&self->queues, self->replay)) {
        protocol_ready();
        while (protocol_next(&request, fault) && obey(self, &request)) {
        }
    }
    disconnect_all(self);
    free(self);
}
