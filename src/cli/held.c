#include "held.h"

#include "format.h"
#include "messages.h"
#include "os.h"
#include "outer.h"
#include "progress.h"
#include "signals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

enum {
    CHECK_MS = 100,
    SHOW_MS = 2000,     /* a shorter wait is not worth a line on the terminal */
    LOOK_FIRST_MS = 20, /* a shorter wait is not worth a question whose trace it waits for */
    LOOK_MS = 1000,
    TWICE_MS = 100, /* timeout(1) sends its signal twice in a row, but means it once */
};

/* ---- the held lock or series, which differ only in the names of their functions ---- */

size_t cli_held_count(const struct cli_held *self)
{
    return self->series ? rql_series_count(self->series) : 1;
}

const rql_lock *cli_held_lock(const struct cli_held *self, size_t index)
{
    return self->series ? rql_series_lock(self->series, index) : self->lock;
}

const char *cli_held_name(const struct cli_held *self, size_t index)
{
    return self->agent_lock ? self->label : rql_lock_name(cli_held_lock(self, index));
}

int64_t cli_held_token(const struct cli_held *self, size_t index)
{
    return self->agent_lock ? cli_agent_lock_token(self->agent_lock)
                            : rql_lock_token(cli_held_lock(self, index));
}

const int *cli_held_slots(const struct cli_held *self, size_t *count)
{
    return self->agent_lock ? cli_agent_lock_slots(self->agent_lock, count)
                            : rql_lock_slots(self->lock, count);
}

char *cli_join_slots(const int *slots, size_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out;

    if (!slots) {
        return NULL;
    }
    out = cli_must(open_memstream(&text, &size));
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, "%s%d", i > 0 ? "," : "", slots[i]);
    }
    return cli_must(fclose(out) == 0 ? text : NULL);
}

rql_lock_state cli_held_state(const struct cli_held *self)
{
    if (self->agent_lock) {
        return cli_agent_lock_look(self->agent_lock);
    }
    return self->series ? rql_series_get_state(self->series) : rql_lock_get_state(self->lock);
}

int64_t cli_held_remaining_ms(const struct cli_held *self)
{
    if (self->agent_lock) {
        return cli_agent_lock_remaining_ms(self->agent_lock);
    }
    return self->series ? rql_series_remaining_ms(self->series) : rql_lock_remaining_ms(self->lock);
}

bool cli_held_is_cut(const struct cli_held *self)
{
    return self->agent_lock && cli_agent_lock_is_cut(self->agent_lock);
}

int64_t cli_held_next_ms(const struct cli_held *self)
{
    return self->agent_lock ? cli_agent_lock_next_ms(self->agent_lock) : INT64_MAX;
}

/* For a series the lock that ends first decides. */
int64_t cli_held_ttl_ms(const struct cli_held *self)
{
    int64_t least_ms = INT64_MAX;

    if (self->agent_lock) {
        return cli_agent_lock_ttl_ms(self->agent_lock);
    }
    for (size_t i = 0; i < cli_held_count(self); i++) {
        rql_lock_facts facts;

        rql_lock_describe(cli_held_lock(self, i), &facts);
        least_ms = facts.ttl_ms < least_ms ? facts.ttl_ms : least_ms;
    }
    return least_ms;
}

rql_status cli_held_lost_fd(const struct cli_held *self, int *out, rql_error *error)
{
    if (self->agent_lock) {
        *out = cli_agent_lock_news_fd(self->agent_lock);
        return RQL_OK;
    }
    return self->series ? rql_series_lost_fd(self->series, out, error)
                        : rql_lock_lost_fd(self->lock, out, error);
}

/* A signal that was blocked since the acquisition takes effect. */
void cli_held_unblock(const struct cli_held *self)
{
    (void)pthread_sigmask(SIG_SETMASK, &self->mask, NULL);
}

/* The handle is gone in any case: the library keeps trying to release a lock that it could not
 * release. */
rql_status cli_held_release(struct cli_held *self, rql_error *error)
{
    rql_status status = RQL_OK;

    if (self->agent_lock) {
        status = cli_agent_lock_release(self->agent_lock, error);
    } else if (self->series) {
        status = rql_series_release(self->series, NULL, error);
    } else if (!self->frees) {
        status = rql_lock_release(self->lock, error);
    } else {
        rql_lock_facts facts;

        rql_lock_describe(self->lock, &facts);
        status = rql_lock_release_by_secret(self->client, facts.name, rql_lock_secret(self->lock),
                                            error);
        (void)!rql_lock_release(self->lock, NULL); /* it frees the handle, and finds nothing */
    }

    self->agent_lock = NULL;
    self->series = NULL;
    self->lock = NULL;
    return status;
}

/* ---- the wait ---- */

/* A request on a loop. A blocking call would not do: a signal must take the request out of its
 * queue, and only the thread of its loop may ask why it is not served. */
struct waiting {
    const struct cli_session *session;
    const struct cli_args *args; /* the session's */
    struct cli_held *held;       /* filled if the status is RQL_OK and no signal came */
    rql_lock_options lock;
    rql_series_options series;

    uv_loop_t uv;
    uv_poll_t signals; /* of signal_fd */
    uv_timer_t check;  /* for temporary errors */
    uv_timer_t show;   /* shows the progress */
    uv_timer_t look;   /* asks whose trace is waited for */
    uv_timer_t last;   /* runs after the second signal */
    rql_loop *loop;
    rql_request *request;          /* while it waits */
    struct cli_progress *progress; /* or NULL */
    int signal_fd;
    int64_t signalled_ms;
    bool is_looking; /* another thread uses the trace */
    rql_refusal refusal;
    rql_error said; /* the error that was reported last; RQL_OK: none that still holds */

    int signal; /* the signal that ended the wait, or 0 */
    rql_status status;
    rql_error error;
};

/* Handles the second signal: its sender does not want to wait for the server. The request is left
 * to the rules for dead waiters. */
static void end_at_once(uv_timer_t *timer)
{
    const struct waiting *self = timer->data;

    cli_rewrite_line(NULL);
    cli_die_by(self->signal);
}

/* Handles signals. The first one cancels, and the wait continues until the request has left its
 * queue. It also counts if the grant came in the same round of the loop: no other code would ever
 * read it. */
static void on_signals(uv_poll_t *poll, int status, int events)
{
    struct waiting *self = poll->data;
    int64_t pause_ms;
    int signal_number;

    (void)status;
    (void)events;
    while ((signal_number = cli_os_signals_take(self->signal_fd)) != 0) {
        if (self->signal == 0) {
            self->signal = signal_number;
            self->signalled_ms = cli_now_ms();
            (void)rql_request_cancel(self->request); /* after the grant it is NULL, and refused */
        } else if (self->request) {
            pause_ms = self->signalled_ms + TWICE_MS - cli_now_ms();
            (void)uv_timer_start(&self->last, end_at_once, pause_ms > 0 ? (uint64_t)pause_ms : 0,
                                 0);
        }
    }
}

/* Returns whether the server cannot be reached. This shows in more than one way, from one try to
 * the next. */
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

/* Shows the progress, except for a series, where each lock has a queue of its own. */
static void show_progress(uv_timer_t *timer)
{
    struct waiting *self = timer->data;

    if (self->request && self->args->n_names == 0) {
        self->progress = cli_progress_start(self->session);
    }
}

/* Runs on another thread. */
static rql_status look(void *user_data, rql_error *error)
{
    const struct waiting *self = user_data;

    (void)error;
    cli_trace_look(&self->held->trace, self->session->client);
    return RQL_OK;
}

static void on_looked(rql_status status, const rql_error *error, void *user_data)
{
    struct waiting *self = user_data;

    (void)status;
    (void)error;
    self->is_looking = false;
}

/* Looks who holds the locks. The loop is not closed before that has ended. */
static void look_at_holders(uv_timer_t *timer)
{
    struct waiting *self = timer->data;
    const rql_work work = {.run = look, .done = on_looked, .user_data = self};

    if (self->request && !self->is_looking) {
        self->is_looking = rql_loop_run(self->loop, &work, NULL) == RQL_OK;
    }
}

/* Reports a temporary error. This is polled, because a request has no callback for such errors. */
static void check_fault(uv_timer_t *timer)
{
    struct waiting *self = timer->data;
    rql_error fault = {.status = RQL_OK};

    if (!self->request || self->signal != 0) {
        return;
    }
    (void)rql_request_fault(self->request, &fault);
    if (fault.status != RQL_OK && is_news(&self->said, &fault)) {
        cli_say_nowait("%s: waiting: %s", self->held->label, fault.message);
    }
    /* After a reply this is RQL_OK again, so the same error is then reported again. */
    self->said = fault;
}

/* Notes the end of the request. It is gone when its callback returns, so it must not be used any
 * more. */
static void note_end(struct waiting *self, rql_status status, const rql_error *error)
{
    self->request = NULL;
    self->status = status;
    if (error) {
        self->error = *error;
    }
}

/* Called on this thread, within uv_run(), as on_series() is. */
static void on_lock(rql_status status, rql_lock *lock, const rql_error *error, void *user_data)
{
    struct waiting *self = user_data;

    self->held->lock = lock;
    note_end(self, status, error);
}

static void on_series(rql_status status, rql_series *series, const rql_error *error,
                      void *user_data)
{
    struct waiting *self = user_data;

    self->held->series = series;
    note_end(self, status, error);
}

/* Opens the loop. libuv aborts the process if it finds no memory, descriptor or thread for its
 * global setup. When the library makes a loop of its own, it checks for them first. That also
 * starts the threads that connecting needs, with all signals blocked: a signal that such a thread
 * took would be lost for the code that waits for it here. So one loop is opened first, and closed
 * again. */
static rql_status open_waiting(struct waiting *self, rql_client *client, const sigset_t *set)
{
    rql_loop *own = NULL;
    rql_status status = rql_loop_open(client, NULL, &own, &self->error);

    if (status == RQL_OK) {
        status = rql_loop_close(own, NULL, NULL, &self->error);
    }
    if (status != RQL_OK) {
        return status;
    }
    self->signal_fd = cli_os_signals(set);
    if (self->signal_fd < 0 || uv_loop_init(&self->uv) != 0) {
        cli_die_nomem();
    }
    (void)uv_timer_init(&self->uv, &self->check);
    (void)uv_timer_init(&self->uv, &self->show);
    (void)uv_timer_init(&self->uv, &self->look);
    (void)uv_timer_init(&self->uv, &self->last);
    (void)uv_poll_init(&self->uv, &self->signals, self->signal_fd);
    self->check.data = self;
    self->show.data = self;
    self->look.data = self;
    self->last.data = self;
    self->signals.data = self;
    return rql_loop_open(client, &self->uv, &self->loop, &self->error);
}

/* Closes the loop. It runs until the library has removed all its handles from it. Without a
 * descriptor for signals nothing was set up. */
static void close_waiting(struct waiting *self)
{
    if (self->signal_fd < 0) {
        return;
    }
    uv_close((uv_handle_t *)&self->check, NULL);
    uv_close((uv_handle_t *)&self->show, NULL);
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

/* Starts the request. A single lock has its name in `name` alone: `names` is for a series. */
static rql_status begin(struct waiting *self)
{
    const struct cli_args *args = self->args;
    const bool is_series = args->n_names > 0;
    rql_acquiring one = {.done = on_lock, .user_data = self};
    rql_series_acquiring all = {.done = on_series, .user_data = self};
    const rql_status status =
        is_series ? rql_series_acquire_async(self->loop, &self->series, &all, &self->error)
                  : rql_lock_acquire_async(self->loop, args->name, &self->lock, &one, &self->error);

    if (status == RQL_OK) {
        self->request = is_series ? all.request : one.request;
    }
    return status;
}

/* Waits until the lock or series is held. The signals then stay blocked; otherwise they are
 * unblocked again. */
static void wait_until_held(struct waiting *self)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    const sigset_t set = cli_signals(ending, sizeof ending / sizeof ending[0]);

    (void)pthread_sigmask(SIG_BLOCK, &set, &self->held->mask);
    self->status = open_waiting(self, self->session->client, &set);
    if (self->status == RQL_OK) {
        self->status = begin(self);
    }
    if (self->request) {
        (void)uv_poll_start(&self->signals, UV_READABLE, on_signals);
        (void)uv_timer_start(&self->check, check_fault, CHECK_MS, CHECK_MS);
        (void)uv_timer_start(&self->show, show_progress, self->args->verbose ? 0 : SHOW_MS, 0);
    }
    if (self->request && self->held->trace.is_on) {
        (void)uv_timer_start(&self->look, look_at_holders, LOOK_FIRST_MS, LOOK_MS);
    }
    /* The callback ends this loop. It is always called, also after a permanent error. */
    while (self->request) {
        (void)uv_run(&self->uv, UV_RUN_ONCE);
    }
    cli_progress_end(self->progress);
    if (self->signal_fd >= 0) {
        /* A signal may have come after the poll that found the grant. */
        on_signals(&self->signals, 0, 0);
    }
    if (self->signal != 0 || self->status != RQL_OK) {
        /* Closing may take some time: a second signal ends the program. */
        cli_held_unblock(self->held);
    }
    close_waiting(self);
    if (self->signal != 0) {
        /* The signal came first, or at the same time: no work was begun under the lock. */
        (void)cli_held_release(self->held, NULL);
    }
}

/* ---- the acquisition ---- */

/* Fills in the options of the lock. Options that were not given keep the values of the client. A
 * series uses the same for each of its locks. */
static void fill_lock(struct waiting *self, rql_lock_options *out)
{
    const struct cli_args *args = self->args;
    const rql_client *client = self->session->client;

    rql_lock_options_init(client, out);
    out->meta = args->n_meta > 0 ? args->meta : NULL;
    out->n_meta = args->n_meta;
    out->traceparent = cli_trace_parent(&self->held->trace);
    if (self->held->trace.is_on && args->n_names == 0) {
        rql_result_init(&self->refusal);
        out->refusal = &self->refusal; /* it has the place in the queue */
    }
    out->fail_fast = args->fail_fast;
    out->nested = cli_is_nested();
    out->detailed_acq_timeout_error = true;
    out->auto_extend = args->command && out->auto_extend; /* `lock` lets its lock expire */
    if (args->wait_ms != CLI_UNSET) {
        out->timeout_ms = args->wait_ms;
        out->retry_count = RQL_FOREVER; /* overrides the environment */
    }
    if (args->max_hold_ms != CLI_UNSET) {
        out->max_hold_ms = args->max_hold_ms;
    }
    out->hold_at_least_ms = args->hold_at_least_ms;
    if (args->max_waiters != CLI_UNSET) {
        out->max_waiters = args->max_waiters;
    }
    if (cli_head_start_ms(args) != CLI_UNSET) {
        out->head_start_ms = cli_head_start_ms(args);
    }
    if (args->shared) {
        rql_lock_options_share(out);
    }
    if (args->permits != CLI_UNSET) {
        rql_lock_options_permit(out, args->units == CLI_UNSET ? 1 : args->units, args->permits);
        out->share_slots = args->slots;
    }
    /* With a ttl of at most --max-hold the lock ends in time even if no process is left to release
     * it. */
    if (args->max_hold_ms > 0 && args->max_hold_ms < out->ttl_ms) {
        out->ttl_ms = args->max_hold_ms;
    }
}

/* Called on the client's background thread. A drain whose time is over has failed, and asks for
 * nothing any more. */
static void on_wanted(rql_lock *lock, const rql_wanted *wanted, void *user_data)
{
    struct cli_asked *asked = user_data;

    (void)lock;
    if (wanted->within_ms > 0) {
        atomic_store(&asked->until_ms, cli_after_ms(wanted->within_ms));
        cli_os_event_set(asked->fd);
    }
}

/* ---- the trace ---- */

/* Notes a grant before the lock is claimed: if that fails, the handle is gone. */
static void trace_grant(struct cli_held *held)
{
    int64_t tokens[RQL_SERIES_MAX];
    rql_lock_facts facts;

    for (size_t i = 0; i < cli_held_count(held); i++) {
        tokens[i] = cli_held_token(held, i);
    }
    if (held->lock) {
        rql_lock_describe(held->lock, &facts);
    }
    cli_trace_grant(&held->trace, held->lock ? &facts : NULL, tokens, cli_held_count(held));
}

static void trace_refusal(struct waiting *self)
{
    struct cli_trace *trace = &self->held->trace;

    if (self->lock.refusal) {
        trace->place = self->refusal.position;
        rql_refusal_clear(&self->refusal);
    }
    cli_trace_end_wait(trace,
                       self->signal != 0  ? "cancelled"
                       : self->status < 0 ? "failed"
                                          : "refused",
                       self->signal == 0 && self->status < 0 ? &self->error : NULL);
}

/* Reports a wait that ended without a lock. With --json the output is null, because a refusal is an
 * answer. */
static int refuse(struct cli_session *session, const struct waiting *self)
{
    session->error = self->error;
    if (self->signal != 0) {
        return -self->signal;
    }
    if (self->status < 0) {
        return cli_fault(&self->error);
    }
    self->held->is_refused = true;
    if (!self->held->is_quiet) {
        out_print(&session->out);
        cli_say("%s", self->error.message);
    }
    return cli_code_of_refusal(session->args, CLI_REFUSED);
}

/* Claims the locks. A lock that was handed over lasts for one second until it is claimed. The claim
 * is made before the lock is relied on, and fails at once if the lock is already gone. If the claim
 * fails, all is released. */
static int claim(struct cli_held *held)
{
    rql_error error = {.status = RQL_OK};
    rql_status status = RQL_OK;

    for (size_t i = 0; status == RQL_OK && i < cli_held_count(held); i++) {
        rql_lock_facts facts;

        rql_lock_describe(cli_held_lock(held, i), &facts);
        if (facts.handed_over) {
            /* This extends a whole series at once, with the ttl of this lock. A lock that lives
             * longer already is not shortened. */
            status = held->series ? rql_series_extend(held->series, facts.ttl_ms, &error)
                                  : rql_lock_extend(held->lock, facts.ttl_ms, &error);
        }
    }
    cli_trace_end_wait(&held->trace, "granted", NULL);
    if (status == RQL_OK) {
        return CLI_DONE;
    }
    cli_trace_end_hold(&held->trace, "lost", &error);
    (void)cli_held_release(held, NULL);
    cli_held_unblock(held);
    held->is_missed = status == RQL_NOT_HELD || cli_may_pass(status);
    if (status == RQL_NOT_HELD) {
        cli_say("%s: lost as soon as it was acquired", held->label);
        return CLI_LOST;
    }
    return cli_fault(&error);
}

static rql_series_mode mode_of(const struct cli_args *args)
{
    if (args->gem) {
        return RQL_SERIES_GEM;
    }
    return args->sorted ? RQL_SERIES_SORTED : RQL_SERIES_ATOMIC;
}

int cli_acquire(struct cli_session *session, struct cli_held *held)
{
    const struct cli_args *args = session->args;
    struct waiting waiting = {.session = session, .args = args, .held = held, .signal_fd = -1};
    const char *outer = cli_find_outer_lock(session);

    held->client = session->client;
    held->frees = args->hold_at_least_ms > 0;
    if (outer) {
        out_print(&session->out);
        return cli_refuse_outer_lock(args, outer);
    }
    cli_trace_begin(&held->trace, args);
    fill_lock(&waiting, &waiting.lock);
    if (held->asked && waiting.lock.auto_extend) {
        waiting.lock.on_wanted = on_wanted;
        waiting.lock.on_wanted_data = held->asked;
    }
    rql_series_options_init(&waiting.series);
    waiting.series.mode = mode_of(args);
    waiting.series.names = args->names;
    waiting.series.n_names = args->n_names;
    waiting.series.lock = &waiting.lock;
    wait_until_held(&waiting);
    if (waiting.signal == 0 && waiting.status == RQL_OK) {
        trace_grant(held);
        return claim(held);
    }
    trace_refusal(&waiting);
    return refuse(session, &waiting);
}

/* The signals stay as they are during the wait: the agent withdraws the request of a program that
 * has ended. */
int cli_acquire_from_agent(const struct cli_args *args, struct cli_held *held)
{
    int code;

    (void)pthread_sigmask(SIG_BLOCK, NULL, &held->mask);
    cli_trace_begin(&held->trace, args);
    code = cli_agent_lock_acquire(args, cli_trace_parent(&held->trace), &held->agent_lock,
                                  &held->is_refused);
    if (held->agent_lock) {
        trace_grant(held);
    }
    cli_trace_end_wait(&held->trace,
                       held->agent_lock   ? "granted"
                       : held->is_refused ? "refused"
                                          : "failed",
                       NULL);
    return code;
}
