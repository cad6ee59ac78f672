#include "looker.h"

#include "os.h"
#include "signals.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct top_looker {
    struct cli_session *session; /* borrowed */
    pthread_t thread;
    int wanted_fd; /* events */
    int done_fd;
    bool is_busy;
    bool is_over; /* written before wanted_fd, as the next three */
    const struct top_look *before;
    char *name;
    struct top_change *change; /* NULL: a look is wanted */
    struct top_known known;    /* of the thread */
    _Atomic(struct top_look *) result;
};

/* Waits until something is wanted. Returns false if nothing will be any more. */
static bool await(const struct top_looker *self)
{
    struct pollfd wanted = {.fd = self->wanted_fd, .events = POLLIN};

    while (!cli_os_event_take(self->wanted_fd)) {
        (void)poll(&wanted, 1, -1);
    }
    return !self->is_over;
}

static void *run(void *data)
{
    struct top_looker *self = data;

    while (await(self)) {
        if (self->change) {
            top_change_make(self->change, self->session->client);
        } else {
            atomic_store(&self->result,
                         top_look_new(self->session, &self->known, self->before, self->name));
        }
        cli_os_event_set(self->done_fd);
    }
    return NULL;
}

struct top_looker *top_looker_start(struct cli_session *session)
{
    struct top_looker *self = cli_must(calloc(1, sizeof *self));

    self->session = session;
    self->wanted_fd = cli_os_event();
    self->done_fd = cli_os_event();
    if (self->wanted_fd < 0 || self->done_fd < 0 || !cli_start_thread(&self->thread, run, self)) {
        cli_die_nomem();
    }
    return self;
}

static void begin(struct top_looker *self)
{
    self->is_busy = true;
    cli_os_event_set(self->wanted_fd);
}

void top_looker_begin(struct top_looker *self, const struct top_look *before, const char *name)
{
    if (!self->is_busy) {
        free(self->name);
        self->name = name ? cli_must(strdup(name)) : NULL;
        self->before = before;
        self->change = NULL;
        begin(self);
    }
}

void top_looker_begin_change(struct top_looker *self, struct top_change *change)
{
    if (!self->is_busy) {
        self->change = change;
        begin(self);
    }
}

bool top_looker_is_busy(const struct top_looker *self)
{
    return self->is_busy;
}

int top_looker_fd(const struct top_looker *self)
{
    return self->done_fd;
}

bool top_looker_take(struct top_looker *self, struct top_look **out)
{
    if (!cli_os_event_take(self->done_fd)) {
        return false;
    }
    self->is_busy = false;
    *out = atomic_exchange(&self->result, NULL);
    return true;
}

void top_looker_end(struct top_looker *self)
{
    self->is_over = true;
    cli_os_event_set(self->wanted_fd);
    (void)pthread_join(self->thread, NULL);
    (void)close(self->wanted_fd);
    (void)close(self->done_fd);
    free(self->name);
    top_known_free_p(&self->known);
    free(self);
}
