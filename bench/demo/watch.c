#include "demo/watch.h"

#include <stdlib.h>
#include <string.h>

struct watch *watch_new(struct stage *stage, const char *url)
{
    struct watch *self = calloc(1, sizeof *self);
    rql_options options;
    rql_error error = {0};

    rql_options_init(&options);
    options.url = url;
    if (!self || rql_client_new(&self->client, &options, &error)) {
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
        worker = worker_of(stage, info->requests[i].acq_id);
        if (worker != NOBODY) {
            self->queue[self->n_queue++] = worker;
            remember(self, worker, info->requests[i].score_us);
        }
    }
}

void watch_queue(struct watch *self, struct stage *stage)
{
    rql_queue_info *info = NULL;
    rql_error error = {0};
    rql_status status = rql_get_queue_info(self->client, LOCK_NAME, &info, &error);

    self->n_queue = 0;
    if (status == RQL_OK) {
        take_down(self, stage, info);
    } else if (status < 0) {
        fault_raise(&stage->fault, "watch: %s", error.message);
    }
    (void)rql_queue_info_free(info);
}
