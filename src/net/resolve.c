#include "net/resolve.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/futex.h"
#include "base/must.h"
#include "base/scope.h"
#include "net/url.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { PORT_TEXT_SIZE = 8 };

enum { ASKED, ANSWERED };

static const struct addrinfo any_stream = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};

/* One question, owned by the caller and by the thread that asks it: the last one frees it. */
struct question {
    char *host;
    char port[PORT_TEXT_SIZE];
    struct addrinfo *list; /* these three are the caller's from ANSWERED on */
    int code;              /* of getaddrinfo() */
    int sys_errno;
    rqli_signal state;
    atomic_int n_owners;
};

static void question_leave(struct question *self)
{
    if (atomic_fetch_sub_explicit(&self->n_owners, 1, memory_order_acq_rel) > 1) {
        return;
    }
    if (self->list) {
        freeaddrinfo(self->list);
    }
    free(self->host);
    free(self);
}

RQLI_DEFINE_AUTO(struct question *, question_leave);

static void *ask(void *argument)
{
    struct question *self = argument;

    self->code = getaddrinfo(self->host, self->port, &any_stream, &self->list);
    self->sys_errno = errno;
    atomic_store_explicit(&self->state, ANSWERED, memory_order_release);
    rqli_signal_wake(&self->state);
    question_leave(self);
    return NULL;
}

/* Returns an errno. The thread takes none of the program's signals, and nobody joins it. */
static int start_asking(struct question *self)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t before;
    int code;

    RQLI_MUST(pthread_attr_init(&attributes) == 0);
    RQLI_MUST(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    before = rqli_mask_all();
    atomic_store_explicit(&self->n_owners, 2, memory_order_relaxed);
    code = pthread_create(&thread, &attributes, ask, self);
    if (code != 0) {
        atomic_store_explicit(&self->n_owners, 1, memory_order_relaxed);
    }
    rqli_mask_restore(&before);
    (void)pthread_attr_destroy(&attributes);
    return code;
}

static bool await_answer(struct question *self, int64_t deadline_us)
{
    bool is_late = false;

    /* The futex may end its wait early, so the clock decides; what has come by then counts. */
    while (atomic_load_explicit(&self->state, memory_order_acquire) == ASKED && !is_late) {
        is_late = rqli_now_us() >= deadline_us;
        rqli_signal_wait(&self->state, ASKED, deadline_us);
    }
    return atomic_load_explicit(&self->state, memory_order_acquire) == ANSWERED;
}

static rql_status fail_resolving(const struct rqli_endpoint *endpoint, int code, rql_error *error)
{
    char text[128];

    return rqli_fail(error, RQL_E_IO, "cannot connect to %.150s: %s", endpoint->where,
                     code == EAI_SYSTEM ? strerror_r(errno, text, sizeof text)
                                        : gai_strerror(code));
}

static rql_status resolve_name(struct addrinfo **out, const struct rqli_endpoint *endpoint,
                               const char *port, int64_t deadline_us, rql_error *error)
{
    RQLI_AUTO(question_leave) struct question *question = calloc(1, sizeof *question);

    if (!question) {
        return rqli_fail_nomem(error);
    }
    atomic_store_explicit(&question->n_owners, 1, memory_order_relaxed);
    memcpy(question->port, port, sizeof question->port);
    question->host = strdup(endpoint->host);
    if (!question->host) {
        return rqli_fail_nomem(error);
    }
    errno = start_asking(question);
    if (errno != 0) {
        return fail_resolving(endpoint, EAI_SYSTEM, error);
    }
    if (!await_answer(question, deadline_us)) {
        errno = ETIMEDOUT;
        return fail_resolving(endpoint, EAI_AGAIN, error);
    }
    errno = question->sys_errno;
    if (question->code != 0) {
        return fail_resolving(endpoint, question->code, error);
    }
    *out = RQLI_GIVE(question->list);
    return RQL_OK;
}

rql_status rqli_resolve(struct addrinfo **out, const struct rqli_endpoint *endpoint,
                        int64_t deadline_us, rql_error *error)
{
    struct addrinfo numeric = any_stream;
    char port[PORT_TEXT_SIZE];

    (void)snprintf(port, sizeof port, "%d", endpoint->port);
    numeric.ai_flags |= AI_NUMERICHOST;
    if (getaddrinfo(endpoint->host, port, &numeric, out) == 0) {
        return RQL_OK; /* an address: no server is asked, no thread needed */
    }
    return resolve_name(out, endpoint, port, deadline_us, error);
}
