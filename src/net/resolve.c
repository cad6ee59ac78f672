#include "net/resolve.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mask.h"
#include "base/must.h"
#include "base/scope.h"
#include "net/endpoint.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { PORT_TEXT_SIZE = 8, WAIT_US_MAX = 60 * 1000000 };

static const struct addrinfo any_stream = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};

/* One question, owned by the caller and by the thread that asks it: the last one frees it. */
struct question {
    char *host;
    char port[PORT_TEXT_SIZE];
    pthread_cond_t answered;
    pthread_mutex_t mutex;

    struct {
        struct addrinfo *list;
        int code; /* of getaddrinfo() */
        int sys_errno;
        int n_owners;
        bool is_answered;
    } shared; /* under the mutex */
};

static void question_free(struct question *self)
{
    if (self->shared.list) {
        freeaddrinfo(self->shared.list);
    }
    (void)pthread_cond_destroy(&self->answered);
    (void)pthread_mutex_destroy(&self->mutex);
    free(self->host);
    free(self);
}

static void question_leave(struct question *self)
{
    int n_left;

    RQLI_MUST(pthread_mutex_lock(&self->mutex) == 0);
    n_left = --self->shared.n_owners;
    RQLI_MUST(pthread_mutex_unlock(&self->mutex) == 0);
    if (n_left == 0) {
        question_free(self);
    }
}

RQLI_DEFINE_AUTO(struct question *, question_leave);

static struct question *question_new(const struct rqli_endpoint *endpoint)
{
    struct question *self = calloc(1, sizeof *self);
    pthread_condattr_t attributes;

    if (!self) {
        return NULL;
    }
    self->host = strdup(endpoint->host);
    if (!self->host) {
        free(self);
        return NULL;
    }
    (void)snprintf(self->port, sizeof self->port, "%d", endpoint->port);
    self->shared.n_owners = 1;
    RQLI_MUST(pthread_condattr_init(&attributes) == 0);
    RQLI_MUST(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0);
    RQLI_MUST(pthread_cond_init(&self->answered, &attributes) == 0);
    (void)pthread_condattr_destroy(&attributes);
    RQLI_MUST(pthread_mutex_init(&self->mutex, NULL) == 0);
    return self;
}

static void *ask(void *argument)
{
    struct question *self = argument;
    struct addrinfo *list = NULL;
    int code = getaddrinfo(self->host, self->port, &any_stream, &list);
    int sys_errno = errno;

    RQLI_MUST(pthread_mutex_lock(&self->mutex) == 0);
    self->shared.list = list;
    self->shared.code = code;
    self->shared.sys_errno = sys_errno;
    self->shared.is_answered = true;
    RQLI_MUST(pthread_cond_signal(&self->answered) == 0);
    RQLI_MUST(pthread_mutex_unlock(&self->mutex) == 0);
    question_leave(self);
    return NULL;
}

/* Returns an errno. */
static int start_asking(struct question *self)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t before;
    int code;

    RQLI_MUST(pthread_attr_init(&attributes) == 0);
    RQLI_MUST(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    before = rqli_mask_all();
    self->shared.n_owners++; /* no thread yet: no mutex needed */
    code = pthread_create(&thread, &attributes, ask, self);
    if (code != 0) {
        self->shared.n_owners--;
    }
    rqli_mask_restore(&before);
    (void)pthread_attr_destroy(&attributes);
    return code;
}

static struct timespec monotonic_after(int64_t us)
{
    struct timespec at;

    RQLI_MUST(clock_gettime(CLOCK_MONOTONIC, &at) == 0);
    us += at.tv_nsec / 1000;
    at.tv_sec += us / 1000000;
    at.tv_nsec = us % 1000000 * 1000;
    return at;
}

/* The mutex is held. Waits in pieces: the deadline is on a clock that also runs in suspend. */
static void await_answer(struct question *self, int64_t deadline_us)
{
    for (;;) {
        int64_t left_us = deadline_us - rqli_now_us();
        struct timespec until;

        if (self->shared.is_answered || left_us <= 0) {
            return;
        }
        until = monotonic_after(left_us < WAIT_US_MAX ? left_us : WAIT_US_MAX);
        (void)pthread_cond_timedwait(&self->answered, &self->mutex, &until);
    }
}

/* The code of getaddrinfo(), or EAI_AGAIN after the deadline. */
static int take_answer(struct question *self, int64_t deadline_us, struct addrinfo **out)
{
    int code = EAI_AGAIN;

    errno = ETIMEDOUT;
    RQLI_MUST(pthread_mutex_lock(&self->mutex) == 0);
    await_answer(self, deadline_us);
    if (self->shared.is_answered) {
        *out = RQLI_GIVE(self->shared.list);
        code = self->shared.code;
        errno = self->shared.sys_errno;
    }
    RQLI_MUST(pthread_mutex_unlock(&self->mutex) == 0);
    return code;
}

static rql_status fail_resolving(const struct rqli_endpoint *endpoint, int code, rql_error *error)
{
    char text[128];

    return rqli_fail(error, RQL_E_IO, "cannot connect to %.150s: %s", endpoint->where,
                     code == EAI_SYSTEM ? strerror_r(errno, text, sizeof text)
                                        : gai_strerror(code));
}

static rql_status resolve_name(struct addrinfo **out, const struct rqli_endpoint *endpoint,
                               int64_t deadline_us, rql_error *error)
{
    RQLI_AUTO(question_leave) struct question *question = question_new(endpoint);
    int code;

    if (!question) {
        return rqli_fail_nomem(error);
    }
    errno = start_asking(question);
    if (errno != 0) {
        return fail_resolving(endpoint, EAI_SYSTEM, error);
    }
    code = take_answer(question, deadline_us, out);
    return code == 0 ? RQL_OK : fail_resolving(endpoint, code, error);
}

rql_status rqli_resolve(struct addrinfo **out, const struct rqli_endpoint *endpoint,
                        int64_t deadline_us, rql_error *error)
{
    struct addrinfo numeric = any_stream;
    char port[PORT_TEXT_SIZE];

    (void)snprintf(port, sizeof port, "%d", endpoint->port);
    numeric.ai_flags |= AI_NUMERICHOST;
    if (getaddrinfo(endpoint->host, port, &numeric, out) == 0) {
        return RQL_OK;
    }
    return resolve_name(out, endpoint, deadline_us, error);
}
