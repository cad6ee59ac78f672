#include "format.h"
#include "held.h"
#include "messages.h"

#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <uv.h>

/* The wait is a request on a loop, not a blocking call: a signal has to take it out of its queue,
 * and only the thread of its loop may ask why it is not served. */

enum {
    CHECK_MS = 100,
    TWICE_MS = 100, /* timeout(1) sends its signal twice in a row, and means it once */
};

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};

/* A wait on its loop. */
struct waiting {
    struct cli_wait *wait;
    uv_loop_t uv;
    uv_poll_t signals;
    uv_timer_t check;
    uv_timer_t last;
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
    _Exit(CLI_SIGNALLED + signal_number);
}

/* What nohup or a shell has ignored stays ignored. */
static sigset_t block_signals(sigset_t *old_out)
{
    struct sigaction action;
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        if (sigaction(ending[i], NULL, &action) != 0 || action.sa_handler != SIG_IGN) {
            (void)sigaddset(&set, ending[i]);
        }
    }
    (void)pthread_sigmask(SIG_BLOCK, &set, old_out);
    return set;
}

/* The second signal: whoever sends it does not want to wait for the server. The request is left to
 * the rules for dead waiters. */
static void end_at_once(uv_timer_t *timer)
{
    const struct waiting *self = timer->data;

    cli_die_by(self->wait->signal);
}

static void on_signals(uv_poll_t *poll, int status, int events)
{
    struct waiting *self = poll->data;
    struct signalfd_siginfo info;
    int64_t pause_ms;

    (void)status;
    (void)events;
    while (read(self->signal_fd, &info, sizeof info) == (ssize_t)sizeof info) {
        if (self->request && self->wait->signal == 0) {
            self->wait->signal = (int)info.ssi_signo;
            self->signalled_ms = cli_now_ms();
            (void)rql_request_cancel(self->request);
        } else if (self->request) {
            pause_ms = self->signalled_ms + TWICE_MS - cli_now_ms();
            (void)uv_timer_start(&self->last, end_at_once, pause_ms > 0 ? (uint64_t)pause_ms : 0,
                                 0);
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

static void check_fault(uv_timer_t *timer)
{
    struct waiting *self = timer->data;
    rql_error fault = {.status = RQL_OK};

    if (!self->request || self->wait->signal != 0) {
        return;
    }
    (void)rql_request_fault(self->request, &fault);
    if (fault.status != RQL_OK && is_news(&self->said, &fault)) {
        cli_say_nowait("%s: waiting: %s", self->wait->held->label, fault.message);
    }
    self->said = fault;
}

/* The request is gone when its callback returns: nobody may ask it or cancel it any more. */
static void note_end(struct waiting *self, rql_status status, const rql_error *error)
{
    self->request = NULL;
    self->wait->status = status;
    if (error) {
        self->wait->error = *error;
    }
}

static void on_lock(rql_status status, rql_lock *lock, const rql_error *error, void *user_data)
{
    struct waiting *self = user_data;

    self->wait->held->lock = lock;
    note_end(self, status, error);
}

static void on_series(rql_status status, rql_series *series, const rql_error *error,
                      void *user_data)
{
    struct waiting *self = user_data;

    self->wait->held->series = series;
    note_end(self, status, error);
}

/* libuv ends the process where it finds no memory, descriptor or thread for what it sets up once.
 * The library has it do so after a check, when it makes a loop of its own. That also starts the
 * threads that connecting needs, which let no signal through: what one of them took would be lost
 * for those who wait for it here. */
static rql_status start_libuv(rql_client *client, rql_error *error)
{
    rql_loop *loop = NULL;
    const rql_status status = rql_loop_open(&loop, client, NULL, error);

    return status == RQL_OK ? rql_loop_close(loop, NULL, NULL, error) : status;
}

static rql_status open_waiting(struct waiting *self, rql_client *client, const sigset_t *set)
{
    rql_status status = start_libuv(client, &self->wait->error);

    if (status != RQL_OK) {
        return status;
    }
    self->signal_fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (self->signal_fd < 0 || uv_loop_init(&self->uv) != 0) {
        cli_die_nomem();
    }
    (void)uv_timer_init(&self->uv, &self->check);
    (void)uv_timer_init(&self->uv, &self->last);
    (void)uv_poll_init(&self->uv, &self->signals, self->signal_fd);
    self->check.data = self;
    self->last.data = self;
    self->signals.data = self;
    return rql_loop_open(&self->loop, client, &self->uv, &self->wait->error);
}

/* The loop runs on until the library has taken everything of its own off it. */
static void close_waiting(struct waiting *self)
{
    if (self->signal_fd < 0) {
        return;
    }
    uv_close((uv_handle_t *)&self->check, NULL);
    uv_close((uv_handle_t *)&self->last, NULL);
    uv_close((uv_handle_t *)&self->signals, NULL);
    if (self->loop) {
        (void)!rql_loop_close(self->loop, NULL, NULL, NULL);
    }
    (void)uv_run(&self->uv, UV_RUN_DEFAULT);
    (void)uv_loop_close(&self->uv);
    (void)close(self->signal_fd);
}

static rql_status run(struct waiting *self)
{
    struct cli_wait *wait = self->wait;
    rql_acquiring one = {.done = on_lock, .user_data = self};
    rql_series_acquiring all = {.done = on_series, .user_data = self};
    const rql_status status =
        wait->name ? rql_acquire_async(self->loop, wait->name, &wait->lock, &one, &wait->error)
                   : rql_series_acquire_async(self->loop, &wait->series, &all, &wait->error);

    if (status != RQL_OK) {
        return status;
    }
    self->request = wait->name ? one.request : all.request;
    (void)uv_poll_start(&self->signals, UV_READABLE, on_signals);
    (void)uv_timer_start(&self->check, check_fault, CHECK_MS, CHECK_MS);
    while (self->request) {
        (void)uv_run(&self->uv, UV_RUN_ONCE);
    }
    return wait->status;
}

void cli_wait(struct cli_wait *self, rql_client *client)
{
    struct waiting waiting = {.wait = self, .signal_fd = -1};
    const sigset_t set = block_signals(&self->held->mask);

    self->status = open_waiting(&waiting, client, &set);
    if (self->status == RQL_OK) {
        self->status = run(&waiting);
    }
    if (self->signal != 0 || self->status != RQL_OK) {
        /* Closing may take its time: a second signal ends it. */
        (void)pthread_sigmask(SIG_SETMASK, &self->held->mask, NULL);
    }
    close_waiting(&waiting);
    if (self->signal != 0) {
        /* It came first, or at the same time: nothing was begun under the lock. */
        (void)cli_held_release(self->held, NULL);
    }
}
