#include "cmd.h"
#include "cost.h"
#include "counts.h"
#include "format.h"
#include "locks.h"
#include "looker.h"
#include "messages.h"
#include "os.h"
#include "pace.h"
#include "print.h"
#include "screen.h"
#include "signals.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The command `rql top`: on a terminal, or as a table or an object of JSON for each look. */

enum {
    EVERY_MS = 1000,
    LEAST_EVERY_MS = 100,
    END_MS = 2000, /* for a change that is wanted at the end */
};

/* Returns the time from this look to the next one. */
static int64_t note_look(struct top_pace *self, const struct cli_args *args,
                         const struct top_look *look)
{
    return look->status == RQL_OK ? top_pace_note(self, args->every_ms, look->cost_ms)
                                  : args->every_ms;
}

/* ---- without a terminal ---- */

static void print_look(struct cli_session *self, struct top_look *look, enum top_order order)
{
    const struct top_filter filter = {.older_than_ms = self->args->older_than_ms};
    struct out out = out_fields(self->args->json ? OUT_JSON : OUT_TABLE);

    top_print(&out, look, order, &filter);
    out_print(&out);
    (void)fflush(stdout);
}

static int run_batch(struct cli_session *self, enum top_order order)
{
    const struct cli_args *args = self->args;
    __attribute__((cleanup(top_known_free_p))) struct top_known known = {.count = 0};
    struct top_pace pace = {.n_looks = 0};
    struct top_look *before = NULL;
    int64_t pause_ms = 0;
    int code = CLI_DONE;

    for (int64_t i = 0; code == CLI_DONE && (args->count == CLI_UNSET || i < args->count); i++) {
        struct top_look *look;

        if (before) {
            const struct timespec pause = cli_timespec(pause_ms);

            (void)nanosleep(&pause, NULL);
            (void)fputs(args->json ? "" : "\n", stdout);
        }
        look = top_look_new(self, &known, before, NULL);
        pause_ms = note_look(&pace, args, look);
        if (look->status == RQL_OK) {
            print_look(self, look, order);
        } else {
            self->error = look->error;
            code = cli_fault(&self->error);
        }
        if (ferror(stdout)) {
            code = CLI_CANNOT_WRITE; /* main.c reports it */
        }
        top_look_free(before);
        before = look;
    }
    top_look_free(before);
    return code;
}

/* ---- on a terminal ---- */

struct top {
    const struct cli_args *args;
    struct top_screen screen;
    struct top_view view;
    struct top_looker *looker;
    struct top_pace pace;
    struct top_look *look; /* the last one that had an answer, or NULL */
    rql_error fault;       /* of the last one, if it had none */
    int64_t next_ms;
    int64_t n_looks;
    int signal_fd;
    bool is_changing; /* a change is being made */
    bool has_changed; /* a change was made since the last look began */
    bool is_over;
    bool is_redrawn; /* what is shown has changed */
    int code;
};

static void draw(struct top *self)
{
    struct top_sheet sheet = {.width = self->screen.width, .height = self->screen.height};

    if (self->is_redrawn && top_screen_is_ready(&self->screen)) {
        sheet.lines = cli_must(calloc(sheet.height, sizeof *sheet.lines));
        top_view_draw(&self->view, self->look, self->fault.status != RQL_OK ? &self->fault : NULL,
                      &sheet);
        top_screen_show(&self->screen, sheet.lines);
        free(sheet.lines);
        self->is_redrawn = false;
    }
}

/* Returns whether the page shows a lock whose holders were not read. */
static bool lacks_holders(const struct top *self)
{
    const struct top_look *look = self->look;

    return self->view.page == TOP_LOCK && self->view.name &&
           (!look || !look->holders_of || strcmp(look->holders_of, self->view.name) != 0);
}

static bool has_change(const struct top *self)
{
    return self->view.change && self->view.change->is_wanted;
}

/* In a pause only what is not known is read, and after a change what came of it. */
static void begin_look(struct top *self)
{
    const bool is_due = self->has_changed || ((!self->view.is_paused || lacks_holders(self)) &&
                                              cli_now_ms() >= self->next_ms);

    if (is_due && !top_looker_is_busy(self->looker)) {
        self->has_changed = false;
        top_looker_begin(self->looker, self->look,
                         self->view.page == TOP_LOCK ? self->view.name : NULL);
    }
}

static void begin_change(struct top *self)
{
    if (has_change(self) && !top_looker_is_busy(self->looker)) {
        self->is_changing = true;
        top_looker_begin_change(self->looker, self->view.change);
    }
}

static void take_change(struct top *self)
{
    (void)snprintf(self->view.note, sizeof self->view.note, "%s", self->view.change->result);
    self->code = self->is_over && self->view.change->status < 0 && self->code == CLI_DONE
                     ? CLI_FAULT
                     : self->code;
    top_change_free(self->view.change);
    self->view.change = NULL;
    self->is_changing = false;
    self->has_changed = true;
}

/* A look that had no answer leaves the last picture. */
static void take_look(struct top *self, struct top_look *look)
{
    self->fault = look->error;
    self->fault.status = look->status;
    self->view.every_ms = note_look(&self->pace, self->args, look);
    self->next_ms = look->begun_ms + self->view.every_ms;
    self->view.is_busy = self->view.every_ms > self->args->every_ms;
    if (look->status == RQL_OK) {
        top_look_free(self->look);
        self->look = look;
    } else {
        top_look_free(look);
    }
    self->n_looks++;
    self->is_over |= self->args->count != CLI_UNSET && self->n_looks >= self->args->count;
}

static void take_result(struct top *self)
{
    struct top_look *look;

    if (!top_looker_take(self->looker, &look)) {
        return;
    }
    if (look) {
        take_look(self, look);
    } else {
        take_change(self);
    }
    self->is_redrawn = true;
}

static void read_keys(struct top *self)
{
    enum top_key key;
    char letter;

    while (!self->is_over &&
           top_screen_read(&self->screen, self->view.mode == TOP_TYPING, &key, &letter)) {
        self->is_over = key == TOP_QUIT;
        if (key != TOP_NO_KEY || self->view.mode == TOP_ASKING) {
            top_view_press(&self->view, self->look, key, letter, self->screen.height);
            self->next_ms = key == TOP_ENTER ? 0 : self->next_ms; /* the holders are to be read */
        }
        self->is_redrawn = true;
    }
}

/* Stops as any program does, with the terminal as it was. The signal is blocked, so it takes effect
 * when it is unblocked; the kernel drops it if no shell is there to continue this program. */
static void suspend(struct top *self)
{
    sigset_t stop;

    top_screen_leave(&self->screen);
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTSTP);
    (void)raise(SIGTSTP);
    (void)pthread_sigmask(SIG_UNBLOCK, &stop, NULL);
    (void)pthread_sigmask(SIG_BLOCK, &stop, NULL);
    top_screen_enter(&self->screen);
}

static void read_signals(struct top *self)
{
    int number;

    while ((number = cli_os_signals_take(self->signal_fd)) != 0) {
        if (number == SIGTSTP) {
            suspend(self);
        } else if (number == SIGWINCH || number == SIGCONT) {
            top_screen_enter(&self->screen);
        } else {
            self->is_over = true;
            self->code = number == SIGINT ? CLI_DONE : -number;
        }
        self->is_redrawn = true;
    }
}

static int next_poll_ms(const struct top *self)
{
    const int64_t left_ms = self->next_ms - cli_now_ms();

    if (top_looker_is_busy(self->looker)) {
        return self->fault.status != RQL_OK ? EVERY_MS : -1; /* its age is shown */
    }
    if (self->view.is_paused && !lacks_holders(self)) {
        return self->fault.status != RQL_OK ? EVERY_MS : -1;
    }
    return left_ms > 0 ? (int)(left_ms < EVERY_MS ? left_ms : EVERY_MS) : 0;
}

static void run_loop(struct top *self)
{
    while (!self->is_over) {
        struct pollfd fds[] = {
            {.fd = self->signal_fd, .events = POLLIN},
            {.fd = top_looker_fd(self->looker), .events = POLLIN},
            {.fd = self->screen.fd,
             .events = top_screen_is_ready(&self->screen) ? POLLIN : POLLIN | POLLOUT},
        };

        begin_change(self);
        begin_look(self);
        draw(self);
        if (poll(fds, sizeof fds / sizeof fds[0], next_poll_ms(self)) == 0) {
            self->is_redrawn |= self->fault.status != RQL_OK;
        }
        top_screen_flush(&self->screen);
        read_signals(self);
        take_result(self);
        read_keys(self);
        self->is_over |= (fds[2].revents & (POLLHUP | POLLERR)) != 0;
    }
}

/* Returns whether a signal asks again for the end. */
static bool is_hurried(const struct top *self)
{
    const int number = cli_os_signals_take(self->signal_fd);

    return number != 0 && number != SIGWINCH && number != SIGCONT;
}

/* Makes the change that was wanted when the loop ended. The wait for a server that does not answer
 * is short, and a second signal ends it. */
static void end_change(struct top *self)
{
    const int64_t end_ms = cli_after_ms(END_MS);
    int64_t left_ms = END_MS;

    while (has_change(self) && left_ms > 0 && !is_hurried(self)) {
        struct pollfd fds[] = {{.fd = self->signal_fd, .events = POLLIN},
                               {.fd = top_looker_fd(self->looker), .events = POLLIN}};

        begin_change(self);
        (void)poll(fds, sizeof fds / sizeof fds[0], (int)left_ms);
        take_result(self);
        left_ms = end_ms - cli_now_ms();
    }
}

/* Says what has become of that change, on the screen of the shell. */
static void report_change(struct top *self)
{
    if (has_change(self)) {
        top_change_say_unanswered(self->view.change, self->is_changing);
        self->code = self->code == CLI_DONE ? CLI_FAULT : self->code;
    } else {
        cli_say_nowait("%s", self->view.note);
    }
}

static int run_screen(struct cli_session *session, enum top_order order,
                      const rql_server_info *server)
{
    static const int handled[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                  SIGUSR2, SIGALRM, SIGTSTP, SIGCONT, SIGWINCH};
    const sigset_t set = cli_signals(handled, sizeof handled / sizeof handled[0]);
    struct top self = {.args = session->args,
                       .view = {.order = order,
                                .url = server->url,
                                .pattern = session->args->name,
                                .every_ms = session->args->every_ms,
                                .older_than_ms = session->args->older_than_ms,
                                .may_change = top_may_change(session)},
                       .is_over = session->args->count == 0,
                       .is_redrawn = true};
    bool was_wanted;
    bool is_busy;

    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    self.signal_fd = cli_os_signals(&set);
    if (self.signal_fd < 0 || !top_screen_open(&self.screen)) {
        return CLI_FAULT;
    }
    self.screen.is_plain = out_is_plain();
    self.looker = top_looker_start(session);
    run_loop(&self);
    was_wanted = has_change(&self);
    end_change(&self);
    top_screen_close(&self.screen);
    if (was_wanted) {
        report_change(&self);
    }
    is_busy = top_looker_is_busy(self.looker);
    if (is_busy) {
        /* Nothing is held, and who presses q does not want to wait for an answer. */
        if (self.code < 0) {
            cli_die_by(-self.code);
        }
        _Exit(self.code);
    }
    top_looker_end(self.looker);
    top_look_free(self.look);
    top_view_free_p(&self.view);
    (void)close(self.signal_fd);
    return self.code;
}

/* ---- the command ---- */

static enum top_order order_of(const struct cli_args *args)
{
    size_t i = 0;

    while (args->sort && i < TOP_N_ORDERS && strcmp(top_order_names[i], args->sort) != 0) {
        i++;
    }
    return (enum top_order)i;
}

static bool is_screen(const struct cli_args *args)
{
    const char *terminal = secure_getenv("TERM");
    __attribute__((cleanup(cli_close_p))) int fd = -1;

    if (args->batch || args->json || !isatty(STDOUT_FILENO) || !terminal || *terminal == '\0' ||
        strcmp(terminal, "dumb") == 0) {
        return false;
    }
    fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    return fd >= 0;
}

static int run(struct cli_session *self)
{
    const enum top_order order = order_of(self->args);
    rql_server_info info;

    self->out = out_fields(OUT_TABLE); /* each look has one of its own */
    if (!is_screen(self->args)) {
        return run_batch(self, order);
    }
    if (rql_client_ping(self->client, &info, &self->error) < 0) {
        return cli_fault(&self->error);
    }
    return run_screen(self, order, &info);
}

static int prepare(struct cli_args *args)
{
    args->every_ms = args->every_ms == CLI_UNSET ? EVERY_MS : args->every_ms;
    if (args->every_ms < LEAST_EVERY_MS) {
        return cli_misused(&cli_top_command, "--every is 100ms or more", "");
    }
    if (order_of(args) == TOP_N_ORDERS) {
        return cli_misused(&cli_top_command,
                           "it can be sorted by waiting, held, left, served or "
                           "name, not by ",
                           args->sort);
    }
    return CLI_DONE;
}

const struct cli_command cli_top_command = {
    .name = "top",
    .usage = "[GLOB] [--sort KEY]",
    .summary = "Watch who holds what, and how fast the queues move",
    .examples = "  rql top                    keys: enter / s b h u x space q\n"
                "  rql top 'orders:*' --json -n 1\n",
    .notes = CLI_GLOB_NOTE
    "Enter shows the holders and the queue of a lock, b who waits for whom, h the hosts of the "
    "swarm; / shows names like a pattern, s sorts by another column, and S in the other "
    "direction. SERVED/S counts requests that left the front of a queue "
    "between two looks; with a + there may have been more. EXPECT is the wait of the last in the "
    "queue at this rate. LEFT is what is left of the TTL, which renewals make longer. ALIVE is the "
    "time since the last heartbeat of a host, if a swarm runs.\n"
    "u ends the grant that is shown, and no newer one; x removes a request. Both ask first, and "
    "are not there with --read-only, or if the user lacks the rights.\n"
    "New names are looked for every 10 s; between, only the known ones are read. A server with "
    "many locks is looked at less often: (busy). Without a terminal, or with -b, each look is a "
    "table.\n",
    .takes_glob = true,
    .prepare = prepare,
    .run = run,
};
