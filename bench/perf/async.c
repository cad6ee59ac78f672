/*
 * Many acquisitions in flight on one loop. By hand:
 *
 *   rql-bench-async SOCKET
 *
 * Orders are those of protocol.h: "pairs|turns NUMBER SLOT_MS 0", with so many in flight, each
 * after a lock of its own, or all after one.
 */

#include "common/clock.h"
#include "common/connect.h"
#include "perf/protocol.h"

#include <rql/admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { TTL_MS = 5000, URL_SIZE = 256, FLIGHTS_MAX = 10000 };

struct fleet {
    struct fault fault;
    uv_loop_t uv;
    rql_client *client;
    rql_loop *loop;
    rql_lock_options options;
    struct outcome outcome;
    bool is_turns;
    int64_t count_from_ns;
    int64_t stop_ns;
    int64_t released_ns; /* when the last holder called release */
};

/* One of those in flight: it takes a lock, gives it back, and begins again. */
struct flight {
    struct fleet *fleet;
    int64_t asked_ns;
    char name[32];
};

static void ask(struct flight *self);

static void fail(struct fleet *self, const char *what, rql_status status, const rql_error *error)
{
    fault_raise(&self->fault, "%s: %s %s", what, rql_status_text(status),
                error ? error->message : "");
}

static void note(struct fleet *self, int64_t now, int64_t took_ns, bool has_time)
{
    self->outcome.done++;
    if (now < self->count_from_ns || now >= self->stop_ns) {
        return;
    }
    self->outcome.counted++;
    if (has_time) {
        self->outcome.waited += self->is_turns;
        histogram_add(&self->outcome.times, took_ns);
    }
}

static void released(rql_status status, const rql_error *error, void *user_data)
{
    struct flight *self = user_data;
    int64_t now = now_ns();

    if (status) {
        fail(self->fleet, "release", status, error);
        return;
    }
    if (!self->fleet->is_turns) {
        note(self->fleet, now, now - self->asked_ns, true);
    }
    if (now < self->fleet->stop_ns && !fault_text(&self->fleet->fault)) {
        ask(self);
    }
}

static void acquired(rql_status status, rql_lock *lock, const rql_error *error, void *user_data)
{
    struct flight *self = user_data;
    struct fleet *fleet = self->fleet;
    const rql_done done = {released, self};
    rql_error fault = {0};
    int64_t now = now_ns();

    if (status) {
        fail(fleet, "acquire", status, error);
        return;
    }
    if (fleet->is_turns) {
        note(fleet, now, now - fleet->released_ns, self->asked_ns < fleet->released_ns);
    }
    fleet->released_ns = now_ns();
    status = rql_lock_release_async(fleet->loop, lock, &done, &fault);
    if (status) {
        fail(fleet, "release", status, &fault);
    }
}

static void ask(struct flight *self)
{
    rql_acquiring what = {.done = acquired, .user_data = self};
    rql_error error = {0};
    rql_status status;

    self->asked_ns = now_ns();
    status =
        rql_lock_acquire_async(self->fleet->loop, self->name, &self->fleet->options, &what, &error);
    if (status) {
        fail(self->fleet, "acquire", status, &error);
    }
}

/* The loop ends when nothing is under way any more. */
static void fly(struct fleet *self, const struct request *request, struct flight *flights)
{
    int64_t start_ns = now_ns();
    long i;

    self->is_turns = strcmp(request->shape, "turns") == 0;
    self->outcome = (struct outcome){.counted_ns = request->slot_ms * RQLB_MS * 3 / 4};
    self->count_from_ns = start_ns + request->slot_ms * RQLB_MS / 4;
    self->stop_ns = start_ns + request->slot_ms * RQLB_MS;
    self->released_ns = 0;
    for (i = 0; i < request->number; i++) {
        flights[i].fleet = self;
        (void)snprintf(flights[i].name, sizeof flights[i].name, "bench:async:%ld",
                       self->is_turns ? -1 : i);
        ask(&flights[i]);
    }
    (void)uv_run(&self->uv, UV_RUN_DEFAULT);
}

static bool obey(struct fleet *self, const struct request *request)
{
    bool known = strcmp(request->shape, "pairs") == 0 || strcmp(request->shape, "turns") == 0;
    struct flight *flights;

    if (!known || request->number > FLIGHTS_MAX) {
        fault_raise(&self->fault, "not for us: %s %ld", request->shape, request->number);
        return false;
    }
    flights = calloc((size_t)request->number, sizeof *flights);
    if (!flights) {
        fault_raise(&self->fault, "out of memory");
        return false;
    }
    fly(self, request, flights);
    free(flights);
    if (fault_text(&self->fault)) {
        return false;
    }
    protocol_answer(&self->outcome);
    return true;
}

static bool open_loop(struct fleet *self, const char *socket_path)
{
    char url[URL_SIZE];
    rql_options options;
    rql_error error = {0};
    rql_status status;

    (void)snprintf(url, sizeof url, "unix://%s", socket_path);
    rql_options_init_gem(&options);
    options.url = url;
    self->client = connect_client(&options, &self->fault);
    if (!self->client) {
        return false;
    }
    status = rql_loop_open(self->client, &self->uv, &self->loop, &error);
    if (status) {
        fail(self, "loop", status, &error);
        return false;
    }
    rql_lock_options_init(self->client, &self->options);
    self->options.ttl_ms = TTL_MS;
    self->options.timeout_ms = RQL_FOREVER;
    self->options.retry_count = RQL_FOREVER;
    return true;
}

static void close_loop(struct fleet *self)
{
    if (self->loop && rql_loop_close(self->loop, NULL, NULL, NULL) == RQL_OK) {
        (void)uv_run(&self->uv, UV_RUN_DEFAULT);
    }
    (void)rql_client_free(self->client);
    (void)uv_loop_close(&self->uv);
}

static int serve(struct fleet *self, const char *socket_path)
{
    struct request request;

    if (uv_loop_init(&self->uv) != 0) {
        (void)fprintf(stderr, "async: no loop\n");
        return 3;
    }
    if (open_loop(self, socket_path)) {
        protocol_ready();
        while (protocol_next(&request, &self->fault) && obey(self, &request)) {
        }
    }
    close_loop(self);
    if (fault_text(&self->fault)) {
        (void)fprintf(stderr, "async: %s\n", fault_text(&self->fault));
        return 3;
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct fleet *fleet;
    int status;

    if (argc != 2) {
        (void)fprintf(stderr, "usage: %s SOCKET\n", argv[0]);
        return 2;
    }
    fleet = calloc(1, sizeof *fleet);
    if (!fleet) {
        perror(argv[0]);
        return 3;
    }
    status = serve(fleet, argv[1]);
    free(fleet);
    return status;
}
