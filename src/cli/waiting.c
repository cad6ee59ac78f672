#include "waiting.h"

#include "output.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <uv.h>

enum {
    LOOK_MS = 100,
    TWICE_MS = 100, /* timeout(1) sends its signal twice in a row, and means it once */
};

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};

/* The loop that a wait runs on. */
struct world {
    struct cli_waiting *waiting;
    uv_loop_t uv;
    uv_poll_t signals;
    uv_timer_t look;
    uv_timer_t last;
    uv_work_t nothing;
    rql_loop *loop;
    rql_request *request; /* while it is under way */
    int signal_fd;
    int64_t signalled_ms;
    rql_error said; /* RQL_OK: nothing that still holds */
};

_Noreturn void cli_die_by(int signal_number)
{
    const struct sigaction plain = {.sa_handler = SIG_DFL};
    sigset_t set;

    (void)sigaction(signal_number, &plain, NULL);
    (void)raise(signal_number);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, signal_number);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    _Exit(128 + signal_number);
}

void cli_wait_unblock(const sigset_t *mask)
{
    (void)pthread_sigmask(SIG_SETMASK, mask, NULL);
}

/* What nohup or a shell has ignored stays ignored. */
static sigset_t block_signals(sigset_t *old_out)
{
    struct sigaction action;
    sigset_t set;
    size_t i;

    (void)sigemptyset(&set);
    for (i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        if (sigaction(ending[i], NULL, &action) != 0 || action.sa_handler != SIG_IGN) {
            (void)sigaddset(&set, ending[i]);
        }
    }
    (void)pthread_sigmask(SIG_BLOCK, &set, old_out);
    return set;
}

static void end_at_once(uv_timer_t *timer)
{
    const struct world *self = timer->data;

    cli_die_by(self->waiting->signal);
}

static void take_signal(struct world *self, int signal_number)
{
    const int64_t now_ms = cli_now_ms();
    int64_t pause_ms;

    if (self->waiting->signal == 0) {
        self->waiting->signal = signal_number;
        self->signalled_ms = now_ms;
        (void)rql_request_cancel(self->request);
        return;
    }
    pause_ms = self->signalled_ms + TWICE_MS - now_ms;
    (void)uv_timer_start(&self->last, end_at_once, pause_ms > 0 ? (uint64_t)pause_ms : 0, 0);
}

static void on_signals(uv_poll_t *poll, int status, int events)
{
    struct world *self = poll->data;
    struct signalfd_siginfo info;

    (void)status;
    (void)events;
    while (read(self->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (self->request) {
            take_signal(self, (int)info.ssi_signo);
        }
    }
}

/* That it cannot be reached shows in more than one way, from one try to the next. */
static bool is_away(rql_status status)
{
    return status == RQL_E_IO || status == RQL_E_UNKNOWN;
}

static bool is_news(const rql_error *said, const rql_error *now)
{
    if (is_away(now->status)) {
        return !is_away(said->status);
    }
    return now->status != said->status || strcmp(now->message, said->message) != 0;
}

static void look(uv_timer_t *timer)
{
    struct world *self = timer->data;
    rql_error fault = {.status = RQL_OK};

    if (!self->request || self->waiting->signal != 0) {
        return;
    }
    (void)rql_request_fault(self->request, &fault);
    if (fault.status != RQL_OK && is_news(&self->said, &fault)) {
        cli_tell("%s: waiting: %s", self->waiting->label, fault.message);
    }
    self->said = fault;
}

static void note_end(struct world *self, rql_status status, const rql_error *error)
{
    self->request = NULL;
    self->waiting->status = status;
    if (error) {
        self->waiting->error = *error;
    }
}

static void on_lock(rql_status status, rql_lock *lock, const rql_error *error, void *user_data)
{
    struct world *self = user_data;

    self->waiting->lock = lock;
    note_end(self, status, error);
}

static void on_series(rql_status status, rql_series *series, const rql_error *error,
                      void *user_data)
{
    struct world *self = user_data;

    self->waiting->series = series;
    note_end(self, status, error);
}

static rql_status begin(struct world *self)
{
    struct cli_waiting *waiting = self->waiting;
    rql_acquiring one = {.done = on_lock, .user_data = self};
    rql_series_acquiring all = {.done = on_series, .user_data = self};
    rql_status status;

    if (waiting->name) {
        status =
            rql_acquire_async(self->loop, waiting->name, waiting->options, &one, &waiting->error);
        self->request = status == RQL_OK ? one.request : NULL;
    } else {
        status =
            rql_series_acquire_async(self->loop, waiting->series_options, &all, &waiting->error);
        self->request = status == RQL_OK ? all.request : NULL;
    }
    return status;
}

static void do_nothing(uv_work_t *work)
{
    (void)work;
}

/* libuv's threads, which connecting needs, live on and inherit this mask: a signal that one of them
 * let through would be lost for those who wait for it here. */
static void start_pool(struct world *self)
{
    sigset_t all;
    sigset_t old;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    (void)uv_queue_work(&self->uv, &self->nothing, do_nothing, NULL);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static bool open_world(struct world *self, const sigset_t *set)
{
    self->signal_fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (self->signal_fd < 0) {
        return false;
    }
    if (uv_loop_init(&self->uv) != 0) {
        (void)close(self->signal_fd);
        return false;
    }
    (void)uv_timer_init(&self->uv, &self->look);
    (void)uv_timer_init(&self->uv, &self->last);
    (void)uv_poll_init(&self->uv, &self->signals, self->signal_fd);
    self->look.data = self;
    self->last.data = self;
    self->signals.data = self;
    start_pool(self);
    return true;
}

static void close_world(struct world *self)
{
    uv_close((uv_handle_t *)&self->look, NULL);
    uv_close((uv_handle_t *)&self->last, NULL);
    uv_close((uv_handle_t *)&self->signals, NULL);
    if (self->loop) {
        (void)!rql_loop_close(self->loop, NULL, NULL, NULL);
    }
    (void)uv_run(&self->uv, UV_RUN_DEFAULT);
    (void)uv_loop_close(&self->uv);
    (void)close(self->signal_fd);
}

static void run(struct world *self)
{
    self->waiting->status = begin(self);
    if (self->request) {
        (void)uv_poll_start(&self->signals, UV_READABLE, on_signals);
        (void)uv_timer_start(&self->look, look, LOOK_MS, LOOK_MS);
    }
    while (self->request) {
        (void)uv_run(&self->uv, UV_RUN_ONCE);
    }
}

/* The signal came first, or at the same time: then nothing was begun under the lock. */
static void give_back(struct cli_waiting *self)
{
    (void)rql_lock_release(self->lock, NULL);
    (void)rql_series_release(self->series, NULL, NULL);
    self->lock = NULL;
    self->series = NULL;
}

void cli_wait(struct cli_waiting *self, rql_client *client)
{
    struct world world = {.waiting = self};
    const sigset_t set = block_signals(&self->mask);

    self->error = (rql_error){.status = RQL_OK};
    self->signal = 0;
    if (!open_world(&world, &set)) {
        cli_die_nomem();
    }
    self->status = rql_loop_open(&world.loop, client, &world.uv, &self->error);
    if (self->status == RQL_OK) {
        run(&world);
    }
    if (self->signal != 0 || self->status != RQL_OK) {
        cli_wait_unblock(&self->mask); /* closing may take its time: a second signal ends it */
    }
    close_world(&world);
    if (self->signal != 0) {
        give_back(self);
    }
}
