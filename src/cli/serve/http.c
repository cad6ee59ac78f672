#include "serve.h"

#include "format.h"
#include "listen.h"
#include "messages.h"
#include "os.h"
#include "reader.h"
#include "signals.h"

#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

/* The HTTP server: one thread, which answers from what the reader has read. */

extern const char serve_page[];
extern const char serve_page_policy[];

enum {
    CONNS_MAX = 16,     /* others wait for one of these to end */
    SILENT_S = 5,       /* a client that sends or takes nothing for this long is cut off, */
    REQUEST_MS = 5000,  /* and one whose request is not complete by then, */
    ANSWER_MS = 30000,  /* and one that has not taken all of its answer */
    MEMORY = 16 * 1024, /* of a connection: a longer request is refused */
};

/* A connection, which ends at its deadline. */
struct conn {
    int fd; /* -1: none */
    int64_t end_ms;
};

struct serve {
    struct serve_wish wish;
    struct serve_reader *reader;
    struct cli_socket socket;
    bool is_loopback; /* TCP that no other machine reaches */
    struct MHD_Daemon *daemon;
    int poll_fd; /* of the daemon */
    int stop_fd; /* an event */
    struct conn conns[CONNS_MAX];
    bool has_closed; /* a connection, since the daemon ran last */
    pthread_t thread;
};

/* ---- answers ---- */

struct answer {
    unsigned code;
    char *text; /* owned */
    size_t size;
    const char *policy; /* what a browser may load and run, by Content-Security-Policy */
    int64_t age_ms;     /* of the reading; -1: it has none */
};

__attribute__((format(printf, 3, 4))) static void say(struct answer *out, unsigned code,
                                                      const char *format, ...)
{
    va_list list;
    int length;

    va_start(list, format);
    length = vasprintf(&out->text, format, list);
    va_end(list);
    if (length < 0) {
        cli_die_nomem();
    }
    out->code = code;
    out->size = (size_t)length;
}

/* Also without a reading it is valid, and says that there is none. */
static void answer_metrics(struct serve *self, struct answer *out)
{
    size_t read_size = 0;
    int64_t age_ms = -1;
    char line[SERVE_LINE];
    CLI_AUTO(cli_free)
    char *reading = serve_reader_copy(self->reader, SERVE_METRICS, &read_size, &age_ms, line);
    struct out tail = out_fields(OUT_OPENMETRICS);

    tail.to = cli_must(open_memstream(&out->text, &out->size));
    (void)fwrite(reading ? reading : "", 1, read_size, tail.to);
    out_family(&tail, "up", "gauge",
               "1: the lock server has answered in the last 10 s, or each of several.");
    out_sample(&tail, "up", NULL, NULL, serve_reader_is_healthy(self->reader, line));
    if (reading) {
        out_family(&tail, "reading_age_seconds", "gauge", "Age of the other figures.");
        out_sample(&tail, "reading_age_seconds", NULL, NULL, (double)age_ms * 1e-3);
    }
    out_print(&tail);
    cli_must(fclose(tail.to) == 0 ? out->text : NULL);
    out->age_ms = age_ms;
}

static void answer_health(struct serve *self, struct answer *out)
{
    char line[SERVE_LINE];
    const bool is_healthy = serve_reader_is_healthy(self->reader, line);
    const char *wrong = self->wish.what_is_wrong ? self->wish.what_is_wrong(self->wish.data) : NULL;

    say(out, is_healthy && !wrong ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE, "%s\n",
        is_healthy && wrong ? wrong : line);
}

static void answer_page(struct serve *self, struct answer *out)
{
    (void)self;
    out->text = cli_must(strdup(serve_page));
    out->size = strlen(serve_page);
    out->policy = serve_page_policy;
}

static void answer_reading(struct serve *self, enum serve_kind kind, struct answer *out)
{
    char line[SERVE_LINE];

    out->text = serve_reader_copy(self->reader, kind, &out->size, &out->age_ms, line);
    if (!out->text) {
        say(out, MHD_HTTP_SERVICE_UNAVAILABLE, "%s\n", line);
    }
}

static void answer_locks(struct serve *self, struct answer *out)
{
    answer_reading(self, SERVE_LOCKS, out);
}

static void answer_history(struct serve *self, struct answer *out)
{
    answer_reading(self, SERVE_HISTORY, out);
}

#define TEXT "text/plain; charset=utf-8"

/* All that is served. */
static const struct route {
    const char *path;
    const char *type;
    bool is_of_page; /* only with --page */
    void (*answer)(struct serve *self, struct answer *out);
} routes[] = {
    {"/metrics", "application/openmetrics-text; version=1.0.0; charset=utf-8", false,
     answer_metrics},
    {"/healthz", TEXT, false, answer_health},
    {"/", "text/html; charset=utf-8", true, answer_page},
    {"/locks.json", "application/json", true, answer_locks},
    {"/history.json", "application/json", true, answer_history},
};

static const struct route *find_route(const struct serve *self, const char *path)
{
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (strcmp(path, routes[i].path) == 0 && (!routes[i].is_of_page || self->wish.args->page)) {
            return &routes[i];
        }
    }
    return NULL;
}

/* ---- requests ---- */

static const char *header_of(struct MHD_Connection *connection, const char *name)
{
    return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

/* Returns whether the client has called this server by a name that others may own. Such a name can
 * be made to lead here by a web site that its visitor's browser then lets read the answers. */
static bool is_misled(const struct serve *self, struct MHD_Connection *connection)
{
    const char *host = self->is_loopback ? header_of(connection, MHD_HTTP_HEADER_HOST) : NULL;
    static const char local[] = "localhost";

    if (!host || *host == '[') { /* HTTP 1.0, or a number */
        return false;
    }
    if (strncasecmp(host, local, sizeof local - 1) == 0) {
        host += sizeof local - 1;
        return *host != '\0' && *host != ':';
    }
    return host[strspn(host, "0123456789.:")] != '\0';
}

/* Returns whether a body follows the headers. */
static bool has_body(struct MHD_Connection *connection)
{
    const char *length = header_of(connection, MHD_HTTP_HEADER_CONTENT_LENGTH);

    return header_of(connection, MHD_HTTP_HEADER_TRANSFER_ENCODING) ||
           (length && length[strspn(length, "0")] != '\0');
}

static bool is_reading(const char *method)
{
    return strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

/* Returns the type of the answer. */
static const char *find_answer(struct serve *self, struct MHD_Connection *connection,
                               const char *path, const char *method, struct answer *out)
{
    const struct route *route = find_route(self, path);

    if (is_misled(self, connection)) {
        say(out, MHD_HTTP_MISDIRECTED_REQUEST,
            "the header Host names another server; a number or localhost is expected\n");
    } else if (!route) {
        say(out, MHD_HTTP_NOT_FOUND, "no such path\n");
    } else if (!is_reading(method)) {
        say(out, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are allowed\n");
    } else if (has_body(connection)) {
        say(out, MHD_HTTP_CONTENT_TOO_LARGE, "a request has no body here\n");
    } else {
        route->answer(self, out);
        return out->code == MHD_HTTP_OK ? route->type : TEXT;
    }
    return TEXT;
}

static void add_headers(struct MHD_Response *response, const char *type,
                        const struct answer *answer)
{
    char age[CLI_DURATION_SIZE];

    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    (void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    (void)MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    (void)MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    (void)MHD_add_response_header(response, "Cross-Origin-Resource-Policy", "same-origin");
    (void)MHD_add_response_header(response, "Content-Security-Policy", answer->policy);
    if (answer->code == MHD_HTTP_METHOD_NOT_ALLOWED) {
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    }
    if (answer->age_ms >= 0) {
        (void)snprintf(age, sizeof age, "%lld", (long long)(answer->age_ms / 1000));
        (void)MHD_add_response_header(response, MHD_HTTP_HEADER_AGE, age);
    }
}

static struct conn *conn_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/* Called with the headers of a request, and again for each part of a body that it may have. */
/* NOLINTNEXTLINE(readability-function-size): libmicrohttpd gives so many arguments */
static enum MHD_Result on_request(void *data, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *body,
                                  size_t *body_size, void **state)
{
    struct serve *self = data;
    struct conn *conn = conn_of(connection);
    struct answer answer = {.code = MHD_HTTP_OK, .policy = "default-src 'none'", .age_ms = -1};
    const char *type;
    struct MHD_Response *response;
    enum MHD_Result result;

    (void)version;
    (void)body;
    if (*state) { /* it was answered, and what follows is thrown away */
        *body_size = 0;
        return MHD_YES;
    }
    *state = self;
    if (conn) {
        conn->end_ms = cli_now_ms() + ANSWER_MS;
    }
    type = find_answer(self, connection, path, method, &answer);
    response = MHD_create_response_from_buffer(answer.size, answer.text, MHD_RESPMEM_MUST_FREE);
    cli_must(response);
    add_headers(response, type, &answer);
    result = MHD_queue_response(connection, answer.code, response);
    MHD_destroy_response(response);
    return result;
}

/* ---- connections ---- */

static void on_connection(void *data, struct MHD_Connection *connection, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct serve *self = data;
    struct conn *conn = *context;

    if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
        self->has_closed = true;
        if (conn) {
            conn->fd = -1;
        }
        return;
    }
    for (size_t i = 0; !conn && i < CONNS_MAX; i++) {
        if (self->conns[i].fd < 0) {
            conn = &self->conns[i];
        }
    }
    if (conn) {
        conn->fd =
            MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
        conn->end_ms = cli_now_ms() + REQUEST_MS;
        *context = conn;
    }
}

/* Cuts off the connections whose time is over, for which the daemon frees them. Returns the
 * milliseconds to the next deadline, or -1. */
static int64_t cut_off(struct serve *self)
{
    const int64_t now_ms = cli_now_ms();
    int64_t least_ms = -1;

    for (size_t i = 0; i < CONNS_MAX; i++) {
        struct conn *conn = &self->conns[i];
        const int64_t left_ms = conn->end_ms > now_ms ? conn->end_ms - now_ms : 0;

        if (conn->fd >= 0 && left_ms == 0) {
            (void)shutdown(conn->fd, SHUT_RDWR);
        } else if (conn->fd >= 0 && (least_ms < 0 || left_ms < least_ms)) {
            least_ms = left_ms;
        }
    }
    return least_ms;
}

static void *run(void *data)
{
    struct serve *self = data;
    bool is_over = false;

    while (!is_over) {
        struct pollfd fds[] = {{.fd = self->poll_fd, .events = POLLIN},
                               {.fd = self->stop_fd, .events = POLLIN}};
        const int64_t cut_ms = cut_off(self);
        MHD_UNSIGNED_LONG_LONG limit_ms = 0;
        int64_t pause_ms = cut_ms;

        if (MHD_get_timeout(self->daemon, &limit_ms) == MHD_YES &&
            (pause_ms < 0 || limit_ms < (MHD_UNSIGNED_LONG_LONG)pause_ms)) {
            pause_ms = (int64_t)limit_ms;
        }
        (void)poll(fds, sizeof fds / sizeof fds[0], (int)pause_ms);
        is_over = fds[1].revents != 0;
        do { /* at the limit of connections the daemon listens again only when it runs again */
            self->has_closed = false;
            (void)MHD_run(self->daemon);
        } while (self->has_closed);
    }
    return NULL;
}

/* ---- the beginning and the end ---- */

static const char unix_prefix[] = "unix:";

/* Returns the path, or NULL for an address. */
static const char *path_of(const char *listen)
{
    const size_t length = sizeof unix_prefix - 1;

    return strncmp(listen, unix_prefix, length) == 0 ? listen + length : NULL;
}

int serve_check(const struct cli_command *command, const struct cli_args *args, const char *address)
{
    if (!address && (args->page || args->classes_file)) {
        return cli_misused(command, "--page and --classes need an address for HTTP", "");
    }
    if (address && (path_of(address) ? *path_of(address) == '\0'
                                     : cli_address_kind(address) == CLI_ADDRESS_BAD)) {
        return cli_misused(command,
                           "HTTP can be served at 127.0.0.1:PORT, [::1]:PORT or unix:PATH, "
                           "not at ",
                           address);
    }
    return CLI_DONE;
}

static bool open_socket(struct serve *self)
{
    const char *listen = self->wish.listen;
    const char *path = path_of(listen);

    self->is_loopback = !path && cli_address_kind(listen) == CLI_ADDRESS_LOOPBACK;
    return path ? cli_socket_open(&self->socket, path) : cli_socket_open_tcp(&self->socket, listen);
}

/* The daemon has no thread of its own: run() waits for it. */
static void start_daemon(struct serve *self)
{
    self->daemon = cli_must(MHD_start_daemon(
        MHD_USE_EPOLL, 0, NULL, NULL, on_request, self, MHD_OPTION_LISTEN_SOCKET, self->socket.fd,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)SILENT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)MEMORY,
        MHD_OPTION_NOTIFY_CONNECTION, on_connection, self, MHD_OPTION_END));
    self->poll_fd = MHD_get_daemon_info(self->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
}

static void start_thread(struct serve *self)
{
    self->stop_fd = cli_os_event();
    if (self->stop_fd < 0 || !cli_start_thread(&self->thread, run, self)) {
        cli_die_nomem();
    }
}

int serve_start(const struct serve_wish *wish, struct serve **out)
{
    struct serve *self = cli_must(calloc(1, sizeof *self));
    int code = CLI_FAULT;

    self->wish = *wish;
    for (size_t i = 0; i < CONNS_MAX; i++) {
        self->conns[i].fd = -1;
    }
    if (open_socket(self)) {
        code = serve_reader_new(wish->args, &self->reader);
        if (code == CLI_DONE) {
            cli_say("HTTP at %s", wish->listen);
            start_daemon(self);
            serve_reader_start(self->reader);
            start_thread(self);
            *out = self;
            return CLI_DONE;
        }
        cli_socket_close(&self->socket);
    }
    free(self);
    return code;
}

void serve_stop(struct serve *self)
{
    if (!self) {
        return;
    }
    cli_os_event_set(self->stop_fd);
    (void)pthread_join(self->thread, NULL);
    (void)MHD_quiesce_daemon(self->daemon); /* leaves the socket to its owner */
    MHD_stop_daemon(self->daemon);
    cli_socket_close(&self->socket);
    serve_reader_end(self->reader);
    (void)close(self->stop_fd);
    free(self);
}
