#include "reader.h"

#include "doctor/doctor.h"
#include "format.h"
#include "history.h"
#include "messages.h"
#include "os.h"
#include "signals.h"
#include "stats.h"
#include "top/pace.h"
#include "top/print.h"
#include "url.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    EVERY_MS = 1000,    /* a PING; nothing is read more often */
    HEALTHY_MS = 10000, /* an answer counts for this long */
    HISTORY_DAYS = 7,
    NO_EVENT = -1,
};

/* How often a kind of reading is made: `every_ms` when a client has asked for it recently,
 * otherwise `idle_ms`. A slow server is read less often (top/pace.h). */
static const struct {
    int64_t every_ms, idle_ms;
    int64_t recent_ms;
    int64_t n_round_trips;
} rhythms[SERVE_N_KINDS] = {
    [SERVE_METRICS] = {5000, 60000, 300000, 5 * (int64_t)TOP_ROUND_TRIPS},
    [SERVE_LOCKS] = {EVERY_MS, INT64_MAX / 2, 10000, TOP_ROUND_TRIPS},
    [SERVE_HISTORY] = {60000, INT64_MAX / 2, 120000, HISTORY_DAYS + (int64_t)TOP_ROUND_TRIPS},
};

struct reading {
    char *text; /* owned; NULL: there is none yet */
    size_t size;
    int64_t begun_ms;                   /* cli_now_ms() */
    int64_t asked_ms;                   /* when a client has asked for one last */
    char fault[RQL_ERROR_MESSAGE_SIZE]; /* of the last try; "": it has succeeded */
};

struct serve_reader {
    struct cli_args args; /* those of the program, with options of this client */
    struct cli_session session;
    struct cli_classes classes;
    pthread_t reading; /* a thread that reads */
    pthread_t pinging; /* one that asks meanwhile whether the server answers */
    int wake_fd;       /* an event: a client asks for a kind that is idle */
    int over_fd;       /* an event for both threads, which is not taken */

    /* Of the first thread alone. */
    struct top_look *before;
    struct top_known known; /* the locks that a look reads without a SCAN */
    struct top_pace pace[SERVE_N_KINDS];
    int64_t next_ms[SERVE_N_KINDS];

    bool was_healthy; /* of the second one alone */

    struct {
        pthread_mutex_t mutex;
        struct reading readings[SERVE_N_KINDS];
        char url[RQL_SERVER_URL_SIZE];      /* without a password */
        int64_t answered_ms;                /* when all servers have answered a PING last */
        int64_t rtt_ms;                     /* the least that was seen */
        char fault[RQL_ERROR_MESSAGE_SIZE]; /* of the last try; "": it has succeeded */
        int n_busy;                         /* threads that talk to the server */
        bool is_over;
    } shared;
};

/* ---- what the thread does ---- */

/* Any reply counts as an answer, but for those that say that the server cannot serve: it is
 * loading its data, or has lost its master. A user may lack the right to PING. */
static bool is_answer(const rql_reply *reply)
{
    const char *text = rql_reply_text(reply, NULL);

    return rql_reply_get_type(reply) != RQL_REPLY_ERROR || strncmp(text, "NOPERM", 6) == 0;
}

/* Returns whether all servers have answered a PING. If so, *rtt_ms is the longest time that one
 * took; otherwise `fault` says why the first of the others has not answered. */
static bool ping_all(rql_client *client, int64_t *rtt_ms, char fault[RQL_ERROR_MESSAGE_SIZE])
{
    static const char *const words[] = {"PING", NULL};

    *rtt_ms = 0;
    for (size_t node = 0;; node++) {
        CLI_AUTO(rql_free) rql_reply *reply = NULL;
        const int64_t begun_ms = cli_now_ms();
        rql_error error = {.status = RQL_OK};
        const rql_status status = doctor_send(client, node, words, &reply, &error);
        const int64_t took_ms = cli_now_ms() - begun_ms;

        if (status == RQL_NOT_FOUND && node > 0) {
            return true;
        }
        if (status != RQL_OK || !is_answer(reply)) {
            (void)snprintf(fault, RQL_ERROR_MESSAGE_SIZE, "%s",
                           reply ? rql_reply_text(reply, NULL) : error.message);
            return false;
        }
        *rtt_ms = took_ms > *rtt_ms ? took_ms : *rtt_ms;
    }
}

static void ping(struct serve_reader *self)
{
    char fault[RQL_ERROR_MESSAGE_SIZE] = "";
    int64_t rtt_ms;
    const bool are_there = ping_all(self->session.client, &rtt_ms, fault);
    const int64_t now_ms = cli_now_ms();

    (void)pthread_mutex_lock(&self->shared.mutex);
    if (are_there) {
        self->shared.answered_ms = now_ms;
        self->shared.rtt_ms = rtt_ms < self->shared.rtt_ms ? rtt_ms : self->shared.rtt_ms;
    }
    (void)snprintf(self->shared.fault, sizeof self->shared.fault, "%s", fault);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

static rql_status read_metrics(struct serve_reader *self, FILE *to)
{
    struct out out = out_fields(OUT_OPENMETRICS);

    out.to = to;
    return cli_stats_read(&self->session, &self->classes, &out);
}

/* A look of long ago says nothing about how fast the queues move now. */
static rql_status read_locks(struct serve_reader *self, FILE *to)
{
    const bool is_next =
        self->before && cli_now_ms() - self->before->begun_ms < rhythms[SERVE_LOCKS].recent_ms;
    const struct top_filter filter = {.older_than_ms = CLI_UNSET};
    struct top_look *look =
        top_look_new(&self->session, &self->known, is_next ? self->before : NULL, NULL);
    const rql_status status = look->status;
    struct out out = out_fields(OUT_JSON);

    if (status != RQL_OK) {
        self->session.error = look->error;
        top_look_free(look);
        return status;
    }
    out.to = to;
    top_print(&out, look, TOP_WAITING, &filter);
    out_print(&out);
    top_look_free(self->before);
    self->before = look;
    return RQL_OK;
}

static rql_status read_history(struct serve_reader *self, FILE *to)
{
    struct out out = out_fields(OUT_JSON);
    rql_status status;

    out.to = to;
    status = cli_history_read(&self->session, HISTORY_DAYS, &out);
    if (!status) {
        out_print(&out);
    }
    return status;
}

static rql_status read_text(struct serve_reader *self, enum serve_kind kind, FILE *to)
{
    switch (kind) {
    case SERVE_METRICS:
        return read_metrics(self, to);
    case SERVE_LOCKS:
        return read_locks(self, to);
    case SERVE_HISTORY:
    case SERVE_N_KINDS:
        break;
    }
    return read_history(self, to);
}

/* Notes the fault of a reading, and reports it once. While the server does not answer,
 * report_health() does. */
static void report_reading(struct serve_reader *self, struct reading *reading, const char *fault)
{
    bool is_new;

    if (*fault) {
        ping(self); /* the server may not answer any more since the other thread has asked */
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    is_new = *fault && !*self->shared.fault && strcmp(reading->fault, fault) != 0;
    (void)snprintf(reading->fault, sizeof reading->fault, "%s", fault);
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (is_new) {
        cli_say("%s", fault);
    }
}

static int64_t least_rtt_ms(struct serve_reader *self)
{
    int64_t rtt_ms;

    (void)pthread_mutex_lock(&self->shared.mutex);
    rtt_ms = self->shared.rtt_ms;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return rtt_ms;
}

static void read_kind(struct serve_reader *self, enum serve_kind kind)
{
    const int64_t begun_ms = cli_now_ms();
    char *text = NULL;
    size_t size = 0;
    FILE *to = cli_must(open_memstream(&text, &size));
    const rql_status status = read_text(self, kind, to);
    struct reading *reading = &self->shared.readings[kind];

    cli_must(fclose(to) == 0 ? text : NULL);
    self->next_ms[kind] = begun_ms + rhythms[kind].every_ms;
    self->pace[kind].rtt_ms = rhythms[kind].n_round_trips * least_rtt_ms(self);
    if (status == RQL_OK) {
        self->next_ms[kind] = begun_ms + top_pace_note(&self->pace[kind], rhythms[kind].every_ms,
                                                       cli_now_ms() - begun_ms);
    }
    report_reading(self, reading, status == RQL_OK ? "" : self->session.error.message);
    (void)pthread_mutex_lock(&self->shared.mutex);
    if (status == RQL_OK) {
        char *old = reading->text;

        reading->text = text;
        reading->size = size;
        reading->begun_ms = begun_ms;
        text = old;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    free(text);
}

/* The first reading is made at once, so that the first client finds one. Without the page no client
 * can ask for locks or the history. */
static bool is_due(struct serve_reader *self, enum serve_kind kind, int64_t now_ms)
{
    const struct reading *reading = &self->shared.readings[kind];
    bool is_idle;
    int64_t idle_until_ms;

    (void)pthread_mutex_lock(&self->shared.mutex);
    is_idle = now_ms - reading->asked_ms > rhythms[kind].recent_ms;
    idle_until_ms = reading->text ? reading->begun_ms + rhythms[kind].idle_ms : 0;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return (kind == SERVE_METRICS || self->args.page) && now_ms >= self->next_ms[kind] &&
           (!is_idle || now_ms >= idle_until_ms);
}

/* Reports once that the server is gone, or there again. */
static void report_health(struct serve_reader *self)
{
    char line[SERVE_LINE];
    const bool is_healthy = serve_reader_is_healthy(self, line);

    if (is_healthy != self->was_healthy) {
        self->was_healthy = is_healthy;
        cli_say("%s", is_healthy ? "the server answers again" : line);
    }
}

/* Waits for the next round of a thread, or until the event. Returns whether there is a next
 * round. */
static bool await_round(struct serve_reader *self, int event, int64_t next_ms)
{
    struct pollfd wake[] = {{.fd = self->over_fd, .events = POLLIN},
                            {.fd = event, .events = POLLIN}};
    bool goes_on;
    int64_t left_ms;

    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.n_busy--;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    do {
        left_ms = next_ms - cli_now_ms();
    } while (left_ms > 0 && poll(wake, 2, (int)left_ms) < 0);
    (void)pthread_mutex_lock(&self->shared.mutex);
    goes_on = !self->shared.is_over;
    self->shared.n_busy += goes_on;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return goes_on;
}

static void read_due(struct serve_reader *self)
{
    for (enum serve_kind kind = 0; kind < SERVE_N_KINDS; kind++) {
        if (is_due(self, kind, cli_now_ms())) {
            read_kind(self, kind);
        }
    }
}

static void read_url(struct serve_reader *self)
{
    rql_server_info info = {.url = ""};

    (void)!rql_client_ping(self->session.client, &info, NULL); /* ping() reports a fault */
    (void)pthread_mutex_lock(&self->shared.mutex);
    (void)snprintf(self->shared.url, sizeof self->shared.url, "%s", info.url);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

static void *run_readings(void *data)
{
    struct serve_reader *self = data;
    int64_t begun_ms;

    do {
        begun_ms = cli_now_ms();
        (void)cli_os_event_take(self->wake_fd);
        read_due(self);
    } while (await_round(self, self->wake_fd, begun_ms + EVERY_MS));
    return NULL;
}

/* A reading of many keys takes longer than an answer counts. */
static void *run_pings(void *data)
{
    struct serve_reader *self = data;
    int64_t begun_ms;

    read_url(self);
    do {
        begun_ms = cli_now_ms();
        ping(self);
        report_health(self);
    } while (await_round(self, NO_EVENT, begun_ms + EVERY_MS));
    return NULL;
}

/* ---- its beginning and its end ---- */

static void free_all(struct serve_reader *self)
{
    for (size_t i = 0; i < SERVE_N_KINDS; i++) {
        free(self->shared.readings[i].text);
    }
    top_look_free(self->before);
    top_known_free_p(&self->known);
    cli_classes_free_p(&self->classes);
    (void)rql_client_free(self->session.client);
    cli_close_p(&self->wake_fd);
    cli_close_p(&self->over_fd);
    (void)pthread_mutex_destroy(&self->shared.mutex);
    free(self);
}

/* The client of the reader has connections of its own, so that no large reply delays the locks of
 * this program. It takes no lock, has no name, and starts no private server. */
static int make_client(struct serve_reader *self)
{
    rql_options *options = &self->args.options;

    options->client_names = false;
    options->auto_swarm = false;
    if (rql_client_new(options, &self->session.client, &self->session.error) != RQL_OK) {
        return cli_url_fault(&self->args, &self->session.error);
    }
    return cli_classes_read(&self->classes, self->args.classes_file) ? CLI_DONE : CLI_USAGE;
}

int serve_reader_new(const struct cli_args *args, struct serve_reader **out)
{
    struct serve_reader *self = cli_must(calloc(1, sizeof *self));
    int code;

    self->args = *args;
    self->args.name = NULL; /* of an action, for the swarm; here it would be a glob */
    self->session.args = &self->args;
    self->was_healthy = true;
    self->shared.rtt_ms = INT32_MAX; /* as long as it is not known, no reading counts as slow */
    self->shared.n_busy = 2;
    self->shared.answered_ms = -1;
    for (size_t i = 0; i < SERVE_N_KINDS; i++) {
        self->shared.readings[i].asked_ms = -rhythms[i].recent_ms;
    }
    (void)pthread_mutex_init(&self->shared.mutex, NULL);
    self->wake_fd = cli_os_event();
    self->over_fd = cli_os_event();
    code = make_client(self);
    if (code != CLI_DONE) {
        free_all(self);
        return code;
    }
    *out = self;
    return CLI_DONE;
}

void serve_reader_start(struct serve_reader *self)
{
    if (self->wake_fd < 0 || self->over_fd < 0 ||
        !cli_start_thread(&self->pinging, run_pings, self) ||
        !cli_start_thread(&self->reading, run_readings, self)) {
        cli_die_nomem();
    }
}

void serve_reader_end(struct serve_reader *self)
{
    bool is_busy;

    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.is_over = true;
    is_busy = self->shared.n_busy > 0;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    cli_os_event_set(self->over_fd);
    if (is_busy) {
        (void)pthread_detach(self->reading);
        (void)pthread_detach(self->pinging);
    } else {
        (void)pthread_join(self->reading, NULL);
        (void)pthread_join(self->pinging, NULL);
        free_all(self);
    }
}

/* ---- what clients ask for ---- */

char *serve_reader_copy(struct serve_reader *self, enum serve_kind kind, size_t *size,
                        int64_t *age_ms, char why[SERVE_LINE])
{
    struct reading *reading = &self->shared.readings[kind];
    const int64_t now_ms = cli_now_ms();
    char *copy = NULL;
    bool was_idle;

    (void)pthread_mutex_lock(&self->shared.mutex);
    was_idle = now_ms - reading->asked_ms > rhythms[kind].recent_ms;
    reading->asked_ms = now_ms;
    if (reading->text) {
        copy = cli_must(malloc(reading->size + 1));
        memcpy(copy, reading->text, reading->size + 1);
        *size = reading->size;
        *age_ms = now_ms - reading->begun_ms;
    } else {
        (void)snprintf(why, SERVE_LINE, "nothing was read yet%s%s", *reading->fault ? ": " : "",
                       reading->fault);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    if (was_idle) {
        cli_os_event_set(self->wake_fd);
    }
    return copy;
}

bool serve_reader_is_healthy(struct serve_reader *self, char line[SERVE_LINE])
{
    char age[CLI_DURATION_SIZE];
    int64_t silent_ms;
    bool is_healthy;

    (void)pthread_mutex_lock(&self->shared.mutex);
    silent_ms = self->shared.answered_ms >= 0 ? cli_now_ms() - self->shared.answered_ms : -1;
    is_healthy = silent_ms >= 0 && silent_ms <= HEALTHY_MS;
    (void)cli_format_duration(silent_ms, age);
    if (is_healthy) {
        (void)snprintf(line, SERVE_LINE, "ok: %s answered %s ago", self->shared.url, age);
    } else {
        (void)snprintf(line, SERVE_LINE, "no answer%s%s%s%s", silent_ms >= 0 ? " for " : " yet",
                       silent_ms >= 0 ? age : "", *self->shared.fault ? ": " : "",
                       self->shared.fault);
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return is_healthy;
}
