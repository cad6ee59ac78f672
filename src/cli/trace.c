#include "trace.h"

#include "file.h"
#include "format.h"
#include "messages.h"
#include "names.h"
#include "os.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    TRACE_AT = 3,
    SPAN_AT = 36,
    FLAGS_AT = 53,
    SAMPLED = 1,
    HOST_SIZE = 256,
    REASON_SIZE = 256,

    READINGS = 10,     /* of the two clocks, at most */
    READING_US = 1000, /* between two clocks that belong together, at most */

    /* Of OpenTelemetry's protocol. */
    KIND_INTERNAL = 1,
    STATUS_UNSET = 0,
    STATUS_ERROR = 2,
};

const char cli_trace_details[] =
    "With --trace FILE, FILE gets a line for each wait and each hold: a span as OTLP/JSON has it, "
    "for the receiver otlpjsonfile of an OpenTelemetry collector. rql.wait lasts until the grant, "
    "or until the wait ends without one; rql.hold lasts from the grant to the release. Both are "
    "children of the span that TRACEPARENT or --traceparent names; without it a trace begins, "
    "whose root is rql.wait. "
    "COMMAND finds the span rql.hold in TRACEPARENT, and waiters find it in the metadata of the "
    "lock: a wait of more than 20ms links to the holders that it has seen. The attributes are "
    "rql.lock, rql.mode (alone or shared), rql.outcome and rql.token, and of a wait for one lock "
    "rql.handed_over, or, if it was refused, rql.place in the queue. A trace whose flags say that "
    "it is not sampled gets no spans. A FILE that cannot be written is reported once. An rql that "
    "is killed writes no rql.hold, and one that reaches no server writes nothing.";

/* ---- ids ---- */

bool cli_is_traceparent(const char *text)
{
    rql_lock_options options;

    rql_lock_options_init(NULL, &options);
    return rql_lock_options_set(&options, "traceparent", text, NULL) == RQL_OK;
}

static bool is_sampled(const char *traceparent)
{
    return (strtol(traceparent + FLAGS_AT, NULL, 16) & SAMPLED) != 0;
}

static void copy(char *out, size_t size, const char *text)
{
    (void)snprintf(out, size, "%s", text);
}

/* Makes an id of size / 2 random bytes. They must not all be zero, so the last one is odd. */
static void make_id(char *out, size_t size)
{
    unsigned char bytes[CLI_TRACE_ID_SIZE / 2] = {0};

    if (getentropy(bytes, size / 2) != 0) {
        bytes[0] = 1; /* an old kernel: ids that are not unique only spoil the trace */
    }
    bytes[size / 2 - 1] |= 1;
    for (size_t i = 0; i < size / 2; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    }
}

/* Makes the ids of both spans. A trace that begins here is sampled, because --trace asks for it. */
static void make_ids(struct cli_trace *self, const char *caller)
{
    if (caller) {
        copy(self->trace_id, sizeof self->trace_id, caller + TRACE_AT);
        copy(self->caller_id, sizeof self->caller_id, caller + SPAN_AT);
    } else {
        make_id(self->trace_id, sizeof self->trace_id);
    }
    make_id(self->wait_id, sizeof self->wait_id);
    make_id(self->hold_id, sizeof self->hold_id);
    (void)snprintf(self->parent, sizeof self->parent, "00-%s-%s-%s", self->trace_id, self->hold_id,
                   caller ? caller + FLAGS_AT : "01");
}

/* Reads both clocks. If the process is kept from running between the two, they do not belong
 * together, and are read again. */
static void read_clocks(struct cli_trace *self)
{
    int64_t now_us = 0;
    int64_t before = 0;

    for (int i = 0; i < READINGS; i++) {
        before = cli_now_us();
        now_us = cli_wall_us();
        self->begun_us = cli_now_us();
        if (self->begun_us - before <= READING_US) {
            break;
        }
    }
    self->wall_us = now_us - self->begun_us;
}

void cli_trace_begin(struct cli_trace *self, const struct cli_args *args)
{
    const char *caller = args->traceparent;

    *self = (struct cli_trace){.args = args};
    self->is_on = args->trace_file && (!caller || is_sampled(caller));
    if (!self->is_on) {
        copy(self->parent, sizeof self->parent, caller ? caller : "");
        return;
    }
    make_ids(self, caller);
    read_clocks(self);
}

const char *cli_trace_parent(const struct cli_trace *self)
{
    return *self->parent ? self->parent : NULL;
}

/* ---- what is known of the wait ---- */

/* Notes a trace once, if there is one. Its text comes from another program, and may be anything. A
 * series that takes one lock after the other holds some of them itself. */
static void add_link(struct cli_trace *self, const char *traceparent)
{
    if (!traceparent || strcmp(traceparent, self->parent) == 0) {
        return;
    }
    for (size_t i = 0; i < self->n_links; i++) {
        if (strcmp(self->links[i], traceparent) == 0) {
            return;
        }
    }
    if (self->n_links < CLI_LINKS_MAX && cli_is_traceparent(traceparent)) {
        copy(self->links[self->n_links++], CLI_TRACEPARENT_SIZE, traceparent);
    }
}

void cli_trace_look(struct cli_trace *self, rql_client *client)
{
    for (size_t i = 0; i < cli_args_count(self->args) && self->n_links < CLI_LINKS_MAX; i++) {
        CLI_AUTO(rql_free) rql_holder_list *list = NULL;

        if (rql_lock_holders(client, cli_args_name(self->args, i), &list, NULL) != RQL_OK) {
            return; /* the wait itself reports a server that does not answer */
        }
        for (size_t j = 0; j < list->count; j++) {
            const rql_holder_info *holder = list->item[j];

            add_link(self, cli_meta_value(holder->meta, holder->n_meta, "traceparent"));
        }
    }
}

void cli_trace_grant(struct cli_trace *self, const rql_lock_facts *facts, const int64_t *tokens,
                     size_t count)
{
    const int64_t granted_us = cli_now_us();

    self->has_facts = facts != NULL;
    self->is_handed_over = facts && facts->handed_over;
    self->waited_us = facts ? facts->waited_us : granted_us - self->begun_us;
    self->begun_us = granted_us - self->waited_us; /* what came before the request is no wait */
    self->n_tokens = count;
    memcpy(self->tokens, tokens, count * sizeof *tokens);
}

/* ---- attributes: OTLP has a list of objects with a key and a typed value ---- */

static void begin_attribute(struct out *out, const char *key)
{
    out_begin(out, NULL);
    out_text(out, NULL, "key", key);
    out_begin(out, "value");
}

static void end_attribute(struct out *out)
{
    out_end(out);
    out_end(out);
}

static void put_text(struct out *out, const char *key, const char *text)
{
    begin_attribute(out, key);
    out_text(out, NULL, "stringValue", text);
    end_attribute(out);
}

static void put_bool(struct out *out, const char *key, bool value)
{
    begin_attribute(out, key);
    out_bool(out, "boolValue", value);
    end_attribute(out);
}

/* Writes a number of 64 bits as a text, as JSON of Protobuf does. */
static void put_int_value(struct out *out, const char *key, int64_t value)
{
    char text[CLI_DURATION_SIZE];

    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    out_text(out, NULL, key, text);
}

static void put_int(struct out *out, const char *key, int64_t value)
{
    begin_attribute(out, key);
    put_int_value(out, "intValue", value);
    end_attribute(out);
}

static void begin_values(struct out *out, const char *key)
{
    begin_attribute(out, key);
    out_begin(out, "arrayValue");
    out_begin_list(out, "values");
}

static void end_values(struct out *out)
{
    out_end(out);
    out_end(out);
    end_attribute(out);
}

/* Writes a name or a token; of a series, a list of them in the given order. */
static void put_names(struct out *out, const struct cli_trace *self)
{
    if (self->args->n_names == 0) {
        put_text(out, "rql.lock", self->args->name);
        return;
    }
    begin_values(out, "rql.lock");
    for (size_t i = 0; i < self->args->n_names; i++) {
        out_begin(out, NULL);
        out_text(out, NULL, "stringValue", self->args->names[i]);
        out_end(out);
    }
    end_values(out);
}

static void put_tokens(struct out *out, const struct cli_trace *self)
{
    if (self->args->n_names == 0) {
        put_int(out, "rql.token", self->tokens[0]);
        return;
    }
    begin_values(out, "rql.token");
    for (size_t i = 0; i < self->n_tokens; i++) {
        out_begin(out, NULL);
        put_int_value(out, "intValue", self->tokens[i]);
        out_end(out);
    }
    end_values(out);
}

/* ---- a span ---- */

struct span {
    const char *name;
    const char *id;
    const char *parent_id;
    int64_t begun_us; /* as cli_now_us() */
    int64_t ended_us;
    const char *outcome;
    const rql_error *error; /* or NULL */
    bool is_wait;
};

static void put_attributes(struct out *out, const struct cli_trace *self, const struct span *span)
{
    const bool is_shared = self->args->shared || self->args->permits != CLI_UNSET;

    out_begin_list(out, "attributes");
    put_names(out, self);
    put_text(out, "rql.mode", is_shared ? "shared" : "alone");
    put_text(out, "rql.outcome", span->outcome);
    if (self->n_tokens > 0) {
        put_tokens(out, self);
    }
    if (span->is_wait && self->place > 0) {
        put_int(out, "rql.place", self->place);
    }
    if (span->is_wait && self->has_facts) {
        put_bool(out, "rql.handed_over", self->is_handed_over);
    }
    out_end(out);
}

static void put_links(struct out *out, const struct cli_trace *self)
{
    char trace_id[CLI_TRACE_ID_SIZE];
    char span_id[CLI_SPAN_ID_SIZE];

    out_begin_list(out, "links");
    for (size_t i = 0; i < self->n_links; i++) {
        copy(trace_id, sizeof trace_id, self->links[i] + TRACE_AT);
        copy(span_id, sizeof span_id, self->links[i] + SPAN_AT);
        out_begin(out, NULL);
        out_text(out, NULL, "traceId", trace_id);
        out_text(out, NULL, "spanId", span_id);
        out_end(out);
    }
    out_end(out);
}

static void put_time(struct out *out, const char *key, const struct cli_trace *self, int64_t us)
{
    const long long wall_us = us + self->wall_us;
    char text[CLI_DURATION_SIZE];

    (void)snprintf(text, sizeof text, "%lld000", wall_us);
    out_text(out, NULL, key, text);
}

static void put_status(struct out *out, const rql_error *error)
{
    const bool is_fault = error && error->status != RQL_OK;

    out_begin(out, "status");
    if (is_fault) {
        out_text(out, NULL, "message", error->message);
    }
    out_number(out, NULL, "code", OUT_INT, is_fault ? STATUS_ERROR : STATUS_UNSET);
    out_end(out);
}

static void put_span(struct out *out, const struct cli_trace *self, const struct span *span)
{
    out_begin(out, NULL);
    out_text(out, NULL, "traceId", self->trace_id);
    out_text(out, NULL, "spanId", span->id);
    if (*span->parent_id) {
        out_text(out, NULL, "parentSpanId", span->parent_id);
    }
    out_text(out, NULL, "name", span->name);
    out_number(out, NULL, "kind", OUT_INT, KIND_INTERNAL);
    put_time(out, "startTimeUnixNano", self, span->begun_us);
    put_time(out, "endTimeUnixNano", self, span->ended_us);
    put_attributes(out, self, span);
    if (span->is_wait && self->n_links > 0) {
        put_links(out, self);
    }
    put_status(out, span->error);
    out_end(out);
}

static void put_resource(struct out *out)
{
    char host[HOST_SIZE] = "";

    (void)gethostname(host, sizeof host - 1);
    out_begin(out, "resource");
    out_begin_list(out, "attributes");
    put_text(out, "service.name", "rql");
    put_text(out, "host.name", host);
    put_int(out, "process.pid", getpid());
    out_end(out);
    out_end(out);
}

/* ---- a line: one request of an exporter ---- */

static void put_request(struct out *out, const struct cli_trace *self, const struct span *span)
{
    out_begin(out, NULL);
    out_begin_list(out, "resourceSpans");
    out_begin(out, NULL);
    put_resource(out);
    out_begin_list(out, "scopeSpans");
    out_begin(out, NULL);
    out_begin(out, "scope");
    out_text(out, NULL, "name", "rql");
    out_text(out, NULL, "version", rql_version());
    out_end(out);
    out_begin_list(out, "spans");
    put_span(out, self, span);
    out_end(out);
    out_end(out);
    out_end(out);
    out_end(out);
    out_end(out);
    out_end(out);
}

static void write_span(struct cli_trace *self, const struct span *span)
{
    CLI_AUTO(cli_free) char *line = NULL;
    struct out out = out_fields(OUT_JSON);
    char reason[REASON_SIZE];
    size_t size = 0;
    int fault;

    out.is_line = true;
    out.to = cli_must(open_memstream(&line, &size));
    put_request(&out, self, span);
    out_print(&out);
    cli_must(fclose(out.to) == 0 ? line : NULL);
    fault = cli_file_append(self->args->trace_file, line, size);
    if (fault != 0 && !self->has_failed) {
        self->has_failed = true;
        cli_say_nowait("%s: spans are not written: %s", self->args->trace_file,
                       cli_os_strerror(fault, reason, sizeof reason));
    }
}

void cli_trace_end_wait(struct cli_trace *self, const char *outcome, const rql_error *error)
{
    const struct span span = {
        .name = "rql.wait",
        .id = self->wait_id,
        .parent_id = self->caller_id,
        .begun_us = self->begun_us,
        .ended_us = self->n_tokens > 0 ? self->begun_us + self->waited_us : cli_now_us(),
        .outcome = outcome,
        .error = error,
        .is_wait = true,
    };

    if (self->is_on) {
        write_span(self, &span);
    }
}

/* A trace that begins here has one root: the wait. */
void cli_trace_end_hold(struct cli_trace *self, const char *outcome, const rql_error *error)
{
    const struct span span = {
        .name = "rql.hold",
        .id = self->hold_id,
        .parent_id = *self->caller_id ? self->caller_id : self->wait_id,
        .begun_us = self->begun_us + self->waited_us,
        .ended_us = cli_now_us(),
        .outcome = outcome,
        .error = error,
    };

    if (self->is_on) {
        write_span(self, &span);
    }
}
