#include "demo/watch.h"

#include "common/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct watch *watch_new(struct stage *stage, const char *url)
{
    struct watch *self = calloc(1, sizeof *self);
    rql_options options;
    rql_error error = {0};

    rql_options_init(&options);
    options.url = url;
    if (!self || rql_client_new(&options, &self->client, &error)) {
        fault_raise(&stage->fault, "watch: %s", self ? error.message : "out of memory");
        return watch_free(self);
    }
    return self;
}

struct watch *watch_free(struct watch *self)
{
    if (self) {
        (void)rql_client_free(self->client);
        free(self);
    }
    return NULL;
}

static int worker_of(const struct stage *stage, const char *acquirer)
{
    int worker;

    for (worker = 0; worker < WORKERS; worker++) {
        if (strcmp(stage->acquirer[worker], acquirer) == 0) {
            return worker;
        }
    }
    return NOBODY;
}

static void remember(struct watch *self, int worker, int64_t score_us)
{
    if (self->last_score_us[worker] == score_us || self->n_seen == SEEN_MAX) {
        return;
    }
    self->last_score_us[worker] = score_us;
    self->seen[self->n_seen++] = (struct seen){score_us, worker};
}

static void take_down(struct watch *self, const struct stage *stage, const rql_queue_info *info)
{
    size_t i;
    int worker;

    for (i = 0; i < info->n_requests && self->n_queue < WORKERS; i++) {
        worker = worker_of(stage, info->requests[i]->acquirer_id);
        if (worker != NOBODY) {
            self->queue[self->n_queue++] = worker;
            remember(self, worker, info->requests[i]->score_us);
        }
    }
}

static void take_down_node(struct watch *self, const char *node, int64_t asked_us)
{
    bool is_moved = self->node[0] != '\0' && strcmp(self->node, node) != 0;

    if (is_moved && self->n_moves < MOVES_MAX) {
        self->moves[self->n_moves++] = (struct move){self->looked_us, real_us()};
    }
    (void)snprintf(self->node, sizeof self->node, "%s", node);
    self->looked_us = asked_us;
}

void watch_queue(struct watch *self, struct stage *stage)
{
    rql_queue_info *info = NULL;
    int64_t asked_us = real_us();
    rql_error error = {0};
    rql_status status = rql_queue_inspect(self->client, LOCK_NAME, &info, &error);

    self->n_queue = 0;
    if (status == RQL_OK) {
        take_down(self, stage, info);
        take_down_node(self, info->node, asked_us);
    } else if (status < 0 && !is_passing_fault(status)) {
        fault_raise(&stage->fault, "watch: %s", error.message);
    }
    (void)rql_free(info);
}

/* A queue that is empty has no server, but a lock that is held has one. */
void watch_end(struct watch *self, struct stage *stage)
{
    rql_lock *lock = NULL;
    int64_t asked_us = real_us();
    rql_error error = {0};
    rql_status status = rql_lock_acquire(self->client, LOCK_NAME, NULL, &lock, &error);

    if (status) {
        fault_raise(&stage->fault, "watch: %s %s", rql_status_text(status), error.message);
        return;
    }
    take_down_node(self, rql_lock_node(lock), asked_us);
    (void)rql_lock_release(lock, NULL);
}
