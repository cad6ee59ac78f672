#include "common/clock.h"
#include "net/login/login.h"
#include "net/sock/site.h"
#include "net/sock/socket.h"
#include "observe/observe.h"
#include "options/options.h"
#include "perf/protocol.h"
#include "perf/scale.h"

#include <rql/admin.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One after the other; what is measured is this thread's time on the processor. */

enum { TIMEOUT_MS = 10000 };

struct site_of_logins {
    rql_options options; /* with the texts of the URL's query */
    struct rqli_subject subject;
    struct rqli_session session;
    struct rqli_url url;
    struct rqli_site site;
    struct fault *fault;
};

static bool judge(const struct site_of_logins *self, rql_status status, const rql_error *error)
{
    if (status) {
        fault_raise(self->fault, "login: %s %s", rql_status_text(status), error->message);
    }
    return !status;
}

/* Its certificates are read, which is no part of a login; it has no session to be resumed. */
static bool set_up(struct site_of_logins *self, const char *url)
{
    struct rqli_session *session = &self->session;
    rql_error error = {0};
    rql_status status;

    rql_options_init_gem(&self->options);
    *session = (struct rqli_session){.url = &self->url,
                                     .connect_timeout_ms = TIMEOUT_MS,
                                     .identity = "bench",
                                     .stats = self->subject.stats,
                                     .subject = &self->subject};
    status = rqli_url_parse(&self->url, url, &error);
    if (!status) {
        status = rqli_options_set_of_url(&self->options, self->url.query, &error);
    }
    if (!status) {
        status = rqli_session_use_tls(session, &self->options, &error);
    }
    if (!status) {
        status = rqli_site_init_first(&self->site, session, &error);
    }
    if (!status && self->site.tls) {
        status = rqli_tls_context_read(self->site.tls, self->site.where, &error);
    }
    return judge(self, status, &error);
}

static int64_t processor_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * RQLB_SECOND + now.tv_nsec;
}

/* Less than 0: it failed. */
static int64_t log_in(struct site_of_logins *self)
{
    struct rqli_socket sock = {.site = &self->site, .fd = -1};
    const struct rqli_seat nobody = {0};
    struct rqli_clock_reading reading;
    rql_error error = {0};
    int64_t begun_ns = processor_ns();
    rql_status status =
        rqli_login(&sock, &nobody, rqli_after_ms(rqli_now_us(), TIMEOUT_MS), &reading, &error);
    int64_t took_ns = processor_ns() - begun_ns;

    rqli_socket_close(&sock);
    return judge(self, status, &error) ? took_ns : -1;
}

static int64_t n_resumed(const struct site_of_logins *self)
{
    rql_stats sum = {0};

    (void)rqli_stats_read(self->subject.stats, &sum);
    return sum.tls_resumed;
}

/* As if this were the first connection: nothing is resumed. */
static bool forget(struct site_of_logins *self, const char *url)
{
    rqli_site_fini(&self->site);
    rqli_url_fini(&self->url);
    return set_up(self, url);
}

/* is_full: nothing is resumed. Otherwise one more login is done and not counted: the first one has
 * nothing to resume. */
static bool measure(struct site_of_logins *self, const char *url, bool is_full, long number,
                    struct outcome *out)
{
    int64_t begun_ns;
    int64_t resumed = 0;

    memset(out, 0, sizeof *out);
    if (!is_full && log_in(self) < 0) {
        return false;
    }
    begun_ns = now_ns();
    for (long i = 0; i < number; i++) {
        int64_t before = n_resumed(self);
        int64_t took_ns = is_full && !forget(self, url) ? -1 : log_in(self);

        if (took_ns < 0) {
            return false;
        }
        histogram_add(&out->times, took_ns);
        resumed += n_resumed(self) - before;
    }
    out->done = number + !is_full;
    out->counted = number;
    out->waited = resumed;
    out->counted_ns = now_ns() - begun_ns;
    return true;
}

void scale_logins(const char *url, struct fault *fault)
{
    struct site_of_logins *self = calloc(1, sizeof *self);
    struct request request;
    static struct outcome outcome;

    if (!self) {
        fault_raise(fault, "out of memory");
        return;
    }
    self->fault = fault;
    self->subject.stats = rqli_stats_new();
    if (set_up(self, url)) {
        protocol_ready();
        while (protocol_next(&request, fault) &&
               measure(self, url, strcmp(request.shape, "full") == 0, request.number, &outcome)) {
            protocol_answer(&outcome);
        }
    }
    rqli_site_fini(&self->site);
    rqli_url_fini(&self->url);
    rqli_stats_free(self->subject.stats);
    free(self);
}
