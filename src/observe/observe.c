#include "observe/observe.h"

#include "base/cancel_fd.h"
#include "base/must.h"

/*
 * Log lines and events. moments.def has a row for each moment: the counters that it changes, and
 * the line and the event that it makes. The table is read here twice, once as the body of log_all()
 * and once as that of send_all(), each with its own meaning of LINE and EVENT. Macros that a
 * reading does not need are empty in it.
 */

enum { FIELDS_MAX = 8 };

/* A line lives on the stack of the caller that reports it: the listener has it for as long as its
 * call takes. */
struct line {
    rql_log_record record;
    rql_log_field fields[FIELDS_MAX];
};

/* ---- listeners ---- */

/* Decides once, so that an acquisition is logged completely or not at all. A call that asks for its
 * line is not sampled, and without a logger no sampler is called. Events are drawn separately: a
 * line without its event is possible. */
void rqli_subject_listen(struct rqli_subject *self, const rql_options *client,
                         const rql_lock_options *options)
{
    bool draws_line = options->logger && client->log_sampling_enabled && !options->log_sample_this;
    bool draws_event =
        options->instrumenter && client->instr_sampling_enabled && !options->instr_sample_this;

    self->logger = options->logger;
    self->logger_data = options->logger_data;
    if (draws_line && !rqli_is_drawn(client->log_sampler, client->log_sampler_data,
                                     client->log_sampling_percent)) {
        self->logger = NULL;
    }
    self->instrumenter = options->instrumenter;
    if (draws_event && !rqli_is_drawn(client->instr_sampler, client->instr_sampler_data,
                                      client->instr_sampling_percent)) {
        self->instrumenter = NULL;
    }
    self->instrumenter_data = options->instrumenter_data;
    self->instrument = options->instrument;
    self->ttl_ms = options->ttl_ms;
    self->queue_ttl_ms = options->queue_ttl_ms;
    self->access_strategy = options->access_strategy;
    self->logs_tries = options->log_lock_try;
}

/* ---- log lines ---- */

/* Adds a field, whose value the caller sets. FIELDS_MAX is the number of fields in the longest row
 * of moments.def. */
static rql_log_field *add(struct line *self, const char *name, rql_log_kind kind)
{
    rql_log_field *field = &self->fields[self->record.n_fields];

    RQLI_MUST(self->record.n_fields < FIELDS_MAX);
    self->record.n_fields++;
    *field = (rql_log_field){.name = name, .kind = kind};
    return field;
}

static void add_text(struct line *self, const char *name, const char *text)
{
    add(self, name, RQL_LOG_QUOTED)->text = text;
}

static void add_number(struct line *self, const char *name, rql_log_kind kind, int64_t number)
{
    add(self, name, kind)->number = number;
}

static void add_keys(struct line *self, const struct rqli_subject *s)
{
    rql_log_field *field;

    if (s->is_series) {
        field = add(self, "lock_keys", RQL_LOG_LIST);
        field->items = s->keys;
        field->n_items = s->n_keys;
    } else {
        add_text(self, "lock_key", s->keys[0]);
    }
}

/* The host has a different name in one line of the gem. */
static void add_common(struct line *self, const struct rqli_subject *s, const char *host_name)
{
    static const char *const strategies[] = {"queued", "random"};

    add_number(self, "queue_ttl", RQL_LOG_SECONDS, s->queue_ttl_ms);
    add_text(self, "acq_id", s->acquirer);
    add_text(self, host_name, s->host);
    add_text(self, "acs_strat", strategies[s->access_strategy]);
}

/* The words of a row become calls that add its fields, in the order of the row, which is the gem's.
 * *f is only read in rows that have figures, so it may be NULL for other rows. */
static void log_all(enum rqli_moment moment, const struct rqli_subject *s,
                    const struct rqli_figures *f)
{
    RQLI_IGNORE_CANCEL_FD;
    struct line l;

#define KEYS add_keys(&l, s)
#define COMMON_AS(host_name) add_common(&l, s, host_name)
#define COMMON COMMON_AS("hst_id")
#define ABOUT KEYS, COMMON
#define NOTHING (void)0
#define TEXT(name, text) add_text(&l, name, text)
#define STATUS TEXT("status", rql_status_text(f->status))
#define NUMBER(name, number) add_number(&l, name, RQL_LOG_INTEGER, number)
#define MS(name, time_us) add_number(&l, name, RQL_LOG_MS, time_us)
#define TIME_OF(name, time_us) add_number(&l, name, RQL_LOG_TIME, time_us)
    switch (moment) {
#define MOMENT(name)                                                                               \
    break;                                                                                         \
    case RQLI_ON_##name:
#define LINE(text, ...)                                                                            \
    l.record = (rql_log_record){.name = (text), .fields = l.fields};                               \
    __VA_ARGS__;                                                                                   \
    s->logger(&l.record, s->logger_data);
#define STEP(text, ...)                                                                            \
    if (s->logs_tries) {                                                                           \
        LINE(text, __VA_ARGS__)                                                                    \
    }
    default: /* NOLINT(bugprone-branch-clone): not every moment goes to everybody */
#include "observe/moments.def"
        break;
    }
}

/* ---- events ---- */

/* Returns an event with its name and nothing else: -1 means no figure, NULL no text. */
static struct rql_event event_of(rql_event_kind kind, const char *name)
{
    return (struct rql_event){
        .kind = kind,
        .name = name,
        .ttl_ms = -1,
        .ts_us = -1,
        .acq_time_us = -1,
        .hold_time_us = -1,
        .rel_time_us = -1,
        .rel_key_cnt = -1,
        .tch_queue_cnt = -1,
        .at_us = -1,
        .token = -1,
        .server_token = -1,
        .share_units = -1,
        .host_cnt = -1,
        .rem_request_cnt = -1,
        .handed_over_cnt = -1,
    };
}

/* Sets the members that every event about a lock or a series has. */
static void set_request(struct rql_event *event, const struct rqli_subject *s)
{
    if (s->is_series) {
        event->lock_keys = s->keys;
        event->n_lock_keys = s->n_keys;
    } else {
        event->lock_key = s->keys[0];
    }
    event->acq_id = s->acquirer;
    event->hst_id = s->host;
    event->ttl_ms = s->ttl_ms;
    event->instrument = s->instrument;
}

/* Sends the same rows as events: SET takes the figures that the moment has, all others stay -1. */
static void send_all(enum rqli_moment moment, const struct rqli_subject *s,
                     const struct rqli_figures *f)
{
    RQLI_IGNORE_CANCEL_FD;
    struct rql_event e;

#define SET(member) e.member = f->member
#define OF_NAME e.lock_key = s->keys[0]
#define OF_IDS e.acq_id = s->acquirer, e.hst_id = s->host
#define OF_REQUEST set_request(&e, s)
#define OF_HOLD OF_REQUEST, SET(ts_us), SET(acq_time_us), SET(token), SET(share_units)
    switch (moment) {
#define MOMENT(name)                                                                               \
    break;                                                                                         \
    case RQLI_ON_##name:
#define EVENT(condition, what, name, ...)                                                          \
    if (condition) {                                                                               \
        e = event_of(RQL_EVENT_##what, name);                                                      \
        __VA_ARGS__;                                                                               \
        s->instrumenter(&e, s->instrumenter_data);                                                 \
    }
    default: /* NOLINT(bugprone-branch-clone): not every moment goes to everybody */
#include "observe/moments.def"
        break;
    }
}

void rqli_publish(enum rqli_moment moment, const struct rqli_subject *s,
                  const struct rqli_figures *f)
{
    if (s->logger) {
        log_all(moment, s, f);
    }
    if (s->instrumenter) {
        send_all(moment, s, f);
    }
}
