#include "task.h"

#include "exit.h"
#include "list.h"

#include <stdlib.h>
#include <string.h>

/* MARGIN_MS: requests leave a queue a minute after the last poll. The server's clock is another:
 * CLOCK_SHARE is the part of a TTL by which it may be slower. */
enum { WORD_BITS = 64, MARGIN_MS = 61000, CLOCK_SHARE = 50 };

void agent_tasks_fini(struct agent_tasks *self)
{
    free(self->bits);
    self->bits = NULL;
    self->n_words = 0;
}

/* Returns the index of the first word with a free number; it makes one if there is none. */
static size_t word_with_room(struct agent_tasks *self)
{
    size_t i = 0;

    while (i < self->n_words && self->bits[i] == UINT64_MAX) {
        i++;
    }
    if (i == self->n_words) {
        self->bits = cli_must(reallocarray(self->bits, ++self->n_words, sizeof *self->bits));
        self->bits[i] = 0;
    }
    return i;
}

struct agent_task *agent_task_take(struct agent_tasks *self)
{
    struct agent_task *task = cli_must(malloc(sizeof *task));
    const size_t word = word_with_room(self);
    const int bit = __builtin_ctzll(~self->bits[word]);

    self->bits[word] |= UINT64_C(1) << bit;
    *task = (struct agent_task){
        .number = word * WORD_BITS + (unsigned)bit + 1, .references = 1, .all = self};
    return task;
}

struct agent_task *agent_task_share(struct agent_task *self)
{
    self->references++;
    return self;
}

void agent_task_leave(struct agent_task *self)
{
    const uint64_t index = self->number - 1;

    if (--self->references == 0) {
        self->all->bits[index / WORD_BITS] &= ~(UINT64_C(1) << index % WORD_BITS);
        free(self);
    }
}

struct agent_later {
    uv_timer_t timer; /* first */
    struct agent_later *next;
    struct agent_later **at;
    struct agent_task *task;
};

static void on_closed(uv_handle_t *handle)
{
    struct agent_later *later = (struct agent_later *)handle;

    agent_task_leave(later->task);
    free(later);
}

static void on_time(uv_timer_t *timer)
{
    struct agent_later *later = (struct agent_later *)timer;

    AGENT_UNLIST(later);
    uv_close((uv_handle_t *)timer, on_closed);
}

void agent_task_leave_later(struct agent_task *self, int64_t ttl_ms)
{
    const uint64_t ms = (uint64_t)(ttl_ms + ttl_ms / CLOCK_SHARE + MARGIN_MS);
    struct agent_later *later = cli_must(malloc(sizeof *later));

    later->task = self;
    AGENT_LIST(&self->all->later, later);
    (void)uv_timer_init(self->all->uv, &later->timer);
    uv_unref((uv_handle_t *)&later->timer); /* the end of the agent does not wait for it */
    (void)uv_timer_start(&later->timer, on_time, ms, 0);
}

void agent_tasks_end(struct agent_tasks *self)
{
    while (self->later) {
        on_time(&self->later->timer);
    }
}
