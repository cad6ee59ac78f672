#include "task.h"

#include "exit.h"
#include "list.h"

#include <rql/base.h>
#include <stdio.h>
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
    char secret[RQL_SECRET_SIZE]; /* "": none */
};

/* Returns the list of the locks whose secrets have this hash (FNV-1a). */
static struct agent_later **list_of(struct agent_tasks *self, const char *secret)
{
    uint32_t hash = 2166136261U;

    for (const char *at = secret; *at; at++) {
        hash = (hash ^ (unsigned char)*at) * 16777619U;
    }
    return &self->by_secret[hash % AGENT_SECRET_LISTS];
}

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

void agent_task_leave_later(struct agent_task *self, int64_t ttl_ms, const char *secret)
{
    const uint64_t ms = (uint64_t)(ttl_ms + ttl_ms / CLOCK_SHARE + MARGIN_MS);
    struct agent_later *later = cli_must(malloc(sizeof *later));
    struct agent_later **list = secret ? list_of(self->all, secret) : &self->all->later;

    later->task = self;
    (void)snprintf(later->secret, sizeof later->secret, "%s", secret ? secret : "");
    AGENT_LIST(list, later);
    (void)uv_timer_init(self->all->uv, &later->timer);
    uv_unref((uv_handle_t *)&later->timer); /* the end of the agent does not wait for it */
    (void)uv_timer_start(&later->timer, on_time, ms, 0);
}

void agent_tasks_on_released(struct agent_tasks *self, const char *secret)
{
    struct agent_later *later = *list_of(self, secret);

    while (later && strcmp(later->secret, secret) != 0) {
        later = later->next;
    }
    if (later) {
        on_time(&later->timer);
    }
}

static void end_all(struct agent_later *const *list)
{
    while (*list) {
        on_time(&(*list)->timer);
    }
}

void agent_tasks_end(struct agent_tasks *self)
{
    end_all(&self->later);
    for (size_t i = 0; i < AGENT_SECRET_LISTS; i++) {
        end_all(&self->by_secret[i]);
    }
}
