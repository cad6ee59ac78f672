#include "cmd.h"
#include "format.h"
#include "messages.h"
#include "names.h"
#include "os.h"
#include "signals.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* watch: a line for each change of a lock. The library reports changes on a thread of its own,
 * which never waits for the reader of the output: lines wait in a buffer, and what finds it full is
 * dropped and counted. */

enum { LINES_MAX = 1000, TEXT_SIZE = 1024, TIME_SIZE = 32, NAMES_AGAIN_MS = 200 };

/* Indexed by rql_change_kind. */
static const char *const kinds[] = {"now",      "granted",  "shared",    "left",   "released",
                                    "expired",  "extended", "converted", "queued", "withdrew",
                                    "requeued", "away",     "back"};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

struct watcher {
    struct cli_session *session;
    bool is_wanted[N_KINDS];
    int64_t n_left; /* events that are still to be written; CLI_UNSET: there is no limit */
    int signal_fd;
    int lines_fd; /* an event: there are lines, or all have been reported */

    struct {
        pthread_mutex_t mutex;
        char *lines[LINES_MAX]; /* a ring; owned */
        size_t first, count;
        int64_t n_dropped; /* since the last line */
        bool is_over;      /* enough was reported */
    } shared;              /* under its mutex */

    struct cli_names names; /* of the thread of the watch */
    int64_t names_ms;       /* when they were read */
};

/* ---- the thread of the watch ---- */

/* A client that is not known by name has come since the names were read. */
static void know(struct watcher *self, const char *acquirer_id)
{
    if (acquirer_id && cli_now_ms() >= self->names_ms + NAMES_AGAIN_MS &&
        !rql_clients_find(self->names.clients, acquirer_id)) {
        cli_names_free_p(&self->names);
        cli_names_read(&self->names, self->session);
        self->names_ms = cli_now_ms();
    }
}

/* Returns the time by the server's clock, or by that of this host when there is no answer. */
static int64_t time_of(const rql_change *change)
{
    return change->at_us >= 0 ? change->at_us : cli_wall_us();
}

static void print_json(const struct watcher *self, const rql_change *change, int64_t n_dropped,
                       FILE *to)
{
    struct out out = out_fields(OUT_JSON);

    out.to = to;
    out.is_line = true;
    out_begin(&out, NULL);
    out_number(&out, NULL, "at_us", OUT_INT, time_of(change));
    out_text(&out, NULL, "name", change->name);
    out_text(&out, NULL, "event", kinds[change->kind]);
    cli_print_acquirer(&out, &self->names, NULL, change->acquirer_id,
                       cli_holder_in(change->meta, change->n_meta));
    out_text(&out, NULL, "host_id", change->host_id);
    out_number(&out, NULL, "token", OUT_COUNT, change->token);
    out_number(&out, NULL, "waited_ms", OUT_COUNT, change->waited_ms);
    out_number(&out, NULL, "held_ms", OUT_COUNT, change->held_ms);
    out_number(&out, NULL, "remaining_ms", OUT_COUNT, change->remaining_ms);
    out_number(&out, NULL, "share_units", OUT_COUNT, change->share_units);
    out_number(&out, NULL, "share_limit", OUT_COUNT, change->share_limit);
    out_number(&out, NULL, "n_holders", OUT_COUNT, change->n_holders);
    out_number(&out, NULL, "waiting", OUT_COUNT, change->waiting);
    out_text(&out, NULL, "via", "poll");
    out_bool(&out, "missed", change->has_missed);
    out_text(&out, NULL, "error", change->error ? change->error->message : NULL);
    out_number(&out, NULL, "dropped", OUT_INT, n_dropped);
    out_end(&out);
    out_print(&out);
}

static void write_time(char out[TIME_SIZE], int64_t at_us)
{
    const time_t seconds = (time_t)(at_us / 1000000);
    struct tm parts;

    out[0] = '\0';
    if (localtime_r(&seconds, &parts)) {
        const size_t length = strftime(out, TIME_SIZE, "%H:%M:%S", &parts);

        (void)snprintf(out + length, TIME_SIZE - length, ".%03d", (int)(at_us / 1000 % 1000));
    }
}

/* Appends a part, with two blanks in front. */
__attribute__((format(printf, 2, 3))) static void add(char text[TEXT_SIZE], const char *format, ...)
{
    const size_t length = strlen(text);
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text + length, TEXT_SIZE - length, format, arguments);
    va_end(arguments);
}

static void add_duration(char text[TEXT_SIZE], const char *label, int64_t ms)
{
    char duration[CLI_DURATION_SIZE];

    if (ms >= 0) {
        add(text, "  %s %s", label, cli_format_duration(ms, duration));
    }
}

static void add_who(const struct watcher *self, const rql_change *change, char text[TEXT_SIZE])
{
    char name[CLI_NAME_SIZE];

    if (change->acquirer_id) {
        add(text, "  %s",
            cli_acquirer_name(&self->names, change->acquirer_id,
                              cli_holder_in(change->meta, change->n_meta), name));
    } else if (change->n_holders == 0) {
        add(text, "  free");
    } else if (change->n_holders > 0) {
        add(text, "  %lld holders", (long long)change->n_holders);
    }
}

static void print_text(const struct watcher *self, const rql_change *change, int64_t n_dropped,
                       FILE *to)
{
    const bool is_request = change->kind >= RQL_CHANGE_QUEUED;
    CLI_AUTO(cli_free) char *safe = NULL;
    char text[TEXT_SIZE] = "";

    write_time(text, time_of(change));
    if (change->kind == RQL_CHANGE_AWAY) {
        add(text, "  away  %s", change->error->message);
    } else if (change->kind == RQL_CHANGE_BACK) {
        add(text, "  back  the server answers again");
    } else {
        add(text, "  %.256s  %-9s", change->name, kinds[change->kind]);
        add_who(self, change, text);
        if (change->token > 0) {
            add(text, "  token %lld", (long long)change->token);
        }
        add_duration(text, "waited", change->waited_ms);
        add_duration(text, "held", is_request ? -1 : change->held_ms);
        add_duration(text, "left", change->remaining_ms);
        add(text, "%s", change->has_missed ? "  missed" : "");
        if (change->waiting > 0) {
            add(text, "  waiting %lld", (long long)change->waiting);
        }
    }
    if (n_dropped > 0) {
        add(text, "  dropped %lld before", (long long)n_dropped);
    }
    safe = cli_text_for_terminal(text);
    (void)fprintf(to, "%s\n", safe);
}

static char *make_line(const struct watcher *self, const rql_change *change, int64_t n_dropped)
{
    char *line = NULL;
    size_t size = 0;
    FILE *to = cli_must(open_memstream(&line, &size));

    if (self->session->args->json) {
        print_json(self, change, n_dropped, to);
    } else {
        print_text(self, change, n_dropped, to);
    }
    return cli_must(fclose(to) == 0 ? line : NULL);
}

/* Counts what --count counts, and puts the line into the buffer. Caller holds the mutex. */
static void keep(struct watcher *self, const rql_change *change)
{
    const bool counts = change->kind != RQL_CHANGE_NOW && change->kind < RQL_CHANGE_AWAY;

    if (self->shared.is_over) {
        return;
    }
    if (self->shared.count == LINES_MAX) {
        self->shared.n_dropped++;
        return;
    }
    self->shared.lines[(self->shared.first + self->shared.count++) % LINES_MAX] =
        make_line(self, change, self->shared.n_dropped);
    self->shared.n_dropped = 0;
    if (counts && self->n_left != CLI_UNSET) {
        self->n_left--;
        self->shared.is_over = self->n_left <= 0;
    }
}

static void on_change(const rql_change *change, void *user_data)
{
    struct watcher *self = user_data;

    if ((size_t)change->kind >= N_KINDS || !self->is_wanted[change->kind]) {
        return;
    }
    know(self, change->acquirer_id);
    (void)pthread_mutex_lock(&self->shared.mutex);
    keep(self, change);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    cli_os_event_set(self->lines_fd);
}

/* ---- the main thread ---- */

/* Takes the next line, which the caller frees. NULL: there is none; *is_over: nor will be. */
static char *take_line(struct watcher *self, bool *is_over)
{
    char *line = NULL;

    (void)pthread_mutex_lock(&self->shared.mutex);
    if (self->shared.count > 0) {
        line = self->shared.lines[self->shared.first];
        self->shared.first = (self->shared.first + 1) % LINES_MAX;
        self->shared.count--;
    }
    *is_over = self->shared.is_over && !line;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return line;
}

/* Waits until the descriptor is ready. Returns the signal that came, or 0. */
static int await(const struct watcher *self, int fd, short events)
{
    struct pollfd fds[] = {{.fd = self->signal_fd, .events = POLLIN}, {.fd = fd, .events = events}};

    while (poll(fds, 2, -1) < 0 && errno == EINTR) {
    }
    return cli_os_signals_take(self->signal_fd);
}

/* A pipe that is ready takes PIPE_BUF bytes at once. Returns false after a fault. */
static bool write_line(const struct watcher *self, const char *line, int *signal_number)
{
    size_t left = strlen(line);

    while (left > 0) {
        ssize_t written;

        *signal_number = await(self, STDOUT_FILENO, POLLOUT);
        if (*signal_number != 0) {
            return true;
        }
        written = write(STDOUT_FILENO, line, left < PIPE_BUF ? left : PIPE_BUF);
        if (written < 0 && errno != EINTR && errno != EAGAIN) {
            return false;
        }
        line += written > 0 ? written : 0;
        left -= written > 0 ? (size_t)written : 0;
    }
    return true;
}

static int report_write(void)
{
    if (errno == EPIPE && cli_broken_pipe_is_deadly()) {
        return -SIGPIPE;
    }
    cli_say_errno("cannot write the output", errno);
    return CLI_CANNOT_WRITE;
}

static int write_lines(struct watcher *self)
{
    int signal_number = 0;
    bool is_over = false;

    while (signal_number == 0 && !is_over) {
        CLI_AUTO(cli_free) char *line = take_line(self, &is_over);

        if (line && !write_line(self, line, &signal_number)) {
            return report_write();
        }
        if (!line && !is_over) {
            signal_number = await(self, self->lines_fd, POLLIN);
            (void)cli_os_event_take(self->lines_fd);
        }
    }
    return signal_number == 0 || signal_number == SIGINT ? CLI_DONE : -signal_number;
}

/* Marks the events of a list. Returns CLI_DONE, or CLI_USAGE after a message. */
static int read_events(const char *list, bool is_wanted[N_KINDS])
{
    CLI_AUTO(cli_free) char *copy = cli_must(strdup(list));
    char *rest = NULL;

    if (list[strspn(list, ",")] == '\0') {
        return cli_misused(&cli_watch, "no event is named by ", "--event");
    }
    for (const char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        size_t kind = 0;

        while (kind < N_KINDS && strcmp(kinds[kind], word) != 0) {
            kind++;
        }
        if (kind == N_KINDS) {
            return cli_misused(&cli_watch, "there is no event ", word);
        }
        is_wanted[kind] = true;
    }
    return CLI_DONE;
}

static void init_events(struct watcher *self)
{
    const struct cli_args *args = self->session->args;

    if (args->event) {
        (void)read_events(args->event, self->is_wanted);
    } else {
        memset(self->is_wanted, true, sizeof self->is_wanted);
    }
}

static int run(struct cli_session *session)
{
    static const int handled[] = {SIGINT, SIGTERM, SIGHUP};
    const sigset_t set = cli_signals(handled, sizeof handled / sizeof handled[0]);
    const struct cli_args *args = session->args;
    struct watcher self = {.session = session, .n_left = args->count};
    rql_watch_options options;
    rql_watch *watch = NULL;
    int code;

    session->out = out_fields(OUT_TABLE); /* each line is written by itself */
    if (args->count == 0) {
        return CLI_DONE;
    }
    rql_watch_options_init(&options);
    options.names = args->all ? NULL : args->names;
    options.n_names = args->n_names;
    options.on_change = on_change;
    options.user_data = &self;
    init_events(&self);
    (void)pthread_mutex_init(&self.shared.mutex, NULL);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    self.signal_fd = cli_os_signals(&set);
    self.lines_fd = cli_os_event();
    if (self.signal_fd < 0 || self.lines_fd < 0) {
        cli_die_nomem();
    }
    cli_names_read(&self.names, session);
    if (rql_watch_open(session->client, &options, &watch, &session->error) != RQL_OK) {
        return cli_fault(&session->error);
    }
    code = write_lines(&self);
    /* The thread may wait for a server that is silent, and nothing is held: the program ends. */
    if (code < 0) {
        cli_die_by(-code);
    }
    _Exit(code);
}

static int prepare(struct cli_args *args)
{
    bool ignored[N_KINDS] = {false};

    if (args->all == (args->name != NULL)) {
        return cli_misused(&cli_watch, "either NAME or --all is needed", "");
    }
    return args->event ? read_events(args->event, ignored) : CLI_DONE;
}

const struct cli_command cli_watch = {
    .name = "watch",
    .usage = "NAME... | --all",
    .summary = "Print a line for each change of a lock or its queue",
    .examples = "  rql watch orders:42\n"
                "  rql watch --all --event granted,expired --json\n",
    .notes =
        "The events are now (the state at the beginning), granted, shared, left, released, "
        "expired, extended, converted, queued, withdrew, requeued, away (the server does not "
        "answer), and back. --count counts all but now, away and back.\n"
        "It reads the locks each 50 ms while something changes, and up to 1 s apart while nothing "
        "does, and compares. What comes and goes between two readings is not seen; a line says "
        "missed if it can tell. A release, an unlock by force and a "
        "key that was deleted look alike: released. With --all a new name is found within 10 s.\n"
        "Names of clients are read again at most every 0.2 s: a client that has come since is "
        "shown by its id.\n"
        "If the reader of the lines is slow, 1000 of them are kept; how many were dropped is said "
        "in the next one.\n"
        "It ends after --count events, or at ^C; the exit code is 0.\n",
    .takes_names = true,
    .prepare = prepare,
    .run = run,
};
