#include "perf/queues.h"

#include "common/clock.h"

#include <stdio.h>

enum { BATCH = 50, FILL_BATCH = 1000, FIRST_NUMBER = 100000 };

static void name_of(char out[32], int64_t length)
{
    (void)snprintf(out, 32, "bench:queue:%lld", (long long)length);
}

/* The holder, and behind it as many as wanted. */
static bool fill(struct replay *replay, int64_t length)
{
    char name[32];
    int64_t number;

    name_of(name, length);
    for (number = 0; number <= length; number++) {
        replay_acquire(replay, name, FIRST_NUMBER + number);
        if ((number + 1) % FILL_BATCH == 0 && !replay_flush(replay)) {
            return false;
        }
    }
    return replay_flush(replay) && replay_keep(replay, name);
}

bool queues_fill(struct queues *self, struct replay *replay)
{
    int64_t length = 1;
    int64_t before = 0;
    int i;

    *self = (struct queues){.replay = replay};
    for (i = 0; i < QUEUES; i++) {
        before = replay_memory(replay);
        if (!fill(replay, length)) {
            return false;
        }
        self->holder[i] = FIRST_NUMBER;
        length *= 10;
    }
    self->waiting_bytes = (double)(replay_memory(replay) - before) / QUEUE_LONGEST;
    return true;
}

static bool run_batch(struct queues *self, int index, int64_t length)
{
    char name[32];
    int64_t *holder = &self->holder[index];
    int i;

    name_of(name, length);
    for (i = 0; i < BATCH; i++) {
        replay_acquire(self->replay, name, *holder + length + 1);
        replay_release(self->replay, name, (*holder)++);
    }
    replay_acquire(self->replay, name, *holder); /* claims what was handed over */
    return replay_flush(self->replay) && replay_hear(self->replay, BATCH);
}

static int index_of(int64_t length)
{
    int i;
    int64_t power = 1;

    for (i = 0; i < QUEUES && power != length; i++) {
        power *= 10;
    }
    return i < QUEUES ? i : 0;
}

bool queues_run(struct queues *self, const struct request *request, struct outcome *out)
{
    int index = index_of(request->number);
    int64_t start_ns = now_ns();
    int64_t begun_ns = start_ns;
    int64_t ended_ns;

    *out = (struct outcome){0};
    while (begun_ns < start_ns + request->slot_ms * RQLB_MS) {
        if (!run_batch(self, index, request->number)) {
            return false;
        }
        ended_ns = now_ns();
        histogram_add(&out->times, (ended_ns - begun_ns) / BATCH);
        out->done += BATCH;
        begun_ns = ended_ns;
    }
    out->counted = out->done;
    out->counted_ns = begun_ns - start_ns;
    return true;
}
