#include "looker.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct top_looker {
    struct cli_session *session; /* borrowed */
    pthread_t thread;
    int wanted_fd; /* eventfds */
    int done_fd;
    bool is_busy;
    bool is_over; /* written before wanted_fd, as the next three */
    const struct top_look *before;
    char *name;
    struct top_change *change;
    struct top_known known; /* of the thread */
    _Atomic(struct top_look *) result;
};

static void *run(void *data)
{
    struct top_looker *self = data;
    eventfd_t count;

    while (eventfd_read(self->wanted_fd, &count) == 0 && !self->is_over) {
        if (self->change) {
            top_change_make(self->change, self->session->client);
        }
        atomic_store(&self->result,
                     top_look_new(self->session, &self->known, self->before, self->name));
        (void)eventfd_write(self->done_fd, 1);
    }
    return NULL;
}

struct top_looker *top_looker_start(struct cli_session *session)
{
    struct top_looker *self = cli_must(calloc(1, sizeof *self));
    sigset_t before;
    sigset_t all;

    self->session = session;
    self->wanted_fd = eventfd(0, EFD_CLOEXEC);
    self->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    if (self->wanted_fd < 0 || self->done_fd < 0 ||
        pthread_create(&self->thread, NULL, run, self) != 0) {
        cli_die_nomem();
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return self;
}

void top_looker_begin(struct top_looker *self, const struct top_look *before, const char *name,
                      struct top_change *change)
{
    if (!self->is_busy) {
        free(self->name);
        self->name = name ? cli_must(strdup(name)) : NULL;
        self->before = before;
        self->change = change;
        self->is_busy = true;
        (void)eventfd_write(self->wanted_fd, 1);
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

struct top_look *top_looker_take(struct top_looker *self)
{
    eventfd_t count;

    if (eventfd_read(self->done_fd, &count) != 0) {
        return NULL;
    }
    self->is_busy = false;
    return atomic_exchange(&self->result, NULL);
}

void top_looker_end(struct top_looker *self)
{
    self->is_over = true;
    (void)eventfd_write(self->wanted_fd, 1);
    (void)pthread_join(self->thread, NULL);
    (void)close(self->wanted_fd);
    (void)close(self->done_fd);
    free(self->name);
    top_known_free_p(&self->known);
    free(self);
}
