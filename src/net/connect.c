/*
 * Everything here is given an absolute deadline, and none of the system's calls takes one: so a
 * name is resolved in a thread that can be left behind, TCP connects without blocking, and a Unix
 * socket connects with SO_SNDTIMEO, because a full backlog cannot be polled for.
 */

#include "net/connect.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/futex.h"
#include "base/must.h"
#include "base/scope.h"
#include "net/url.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ---- names to addresses ---- */

enum { PORT_TEXT_SIZE = 8 };

enum { ASKED, ANSWERED };

/* IPv4 or IPv6; the port is a number, and looked up nowhere. */
static const struct addrinfo any_stream = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};

/* getaddrinfo() cannot be interrupted and may take half a minute. So it runs in a thread of its
 * own, which a caller whose deadline has passed leaves behind: the question is owned by both, and
 * the last one frees it. */
struct question {
    char host[RQLI_HOST_SIZE];
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
    free(self);
}

RQLI_DEFINE_AUTO(struct question *, question_leave);

/* On the thread of the question. errno is each thread's own, so it is carried over: it is the
 * reason if the code is EAI_SYSTEM. */
static void *ask_resolver(void *argument)
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
    /* Before it starts: it may have ended when pthread_create() returns. */
    atomic_store_explicit(&self->n_owners, 2, memory_order_relaxed);
    code = pthread_create(&thread, &attributes, ask_resolver, self);
    if (code != 0) {
        atomic_store_explicit(&self->n_owners, 1, memory_order_relaxed);
    }
    rqli_mask_restore(&before);
    (void)pthread_attr_destroy(&attributes);
    return code;
}

/* False: not in time. */
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

/* Without the host: `where` has it, and more. errno is set by the caller: rqli_fail() keeps it. */
static rql_status fail_resolving(const char *where, int code, rql_error *error)
{
    char text[128];

    return rqli_fail(error, RQL_E_IO, "cannot connect to %.150s: %s", where,
                     code == EAI_SYSTEM ? strerror_r(errno, text, sizeof text)
                                        : gai_strerror(code));
}

/* RQL_OK: *out is the caller's. In any case the question is left behind; what is answered too late
 * is freed by its thread. */
static rql_status resolve_name(struct addrinfo **out, const struct rqli_address *address,
                               const char *where, int64_t deadline_us, rql_error *error)
{
    RQLI_AUTO(question_leave) struct question *question = calloc(1, sizeof *question);

    if (!question) {
        return rqli_fail_nomem(error);
    }
    atomic_store_explicit(&question->n_owners, 1, memory_order_relaxed);
    memcpy(question->host, address->host, sizeof question->host);
    (void)snprintf(question->port, sizeof question->port, "%d", address->port);
    errno = start_asking(question);
    if (errno != 0) {
        return fail_resolving(where, EAI_SYSTEM, error);
    }
    if (!await_answer(question, deadline_us)) {
        errno = ETIMEDOUT;
        return fail_resolving(where, EAI_AGAIN, error);
    }
    errno = question->sys_errno;
    if (question->code != 0) {
        return fail_resolving(where, question->code, error);
    }
    *out = RQLI_GIVE(question->list);
    return RQL_OK;
}

static rql_status resolve(struct addrinfo **out, const struct rqli_address *address,
                          const char *where, int64_t deadline_us, rql_error *error)
{
    struct addrinfo numeric = any_stream;
    char port[PORT_TEXT_SIZE];

    (void)snprintf(port, sizeof port, "%d", address->port);
    numeric.ai_flags |= AI_NUMERICHOST;
    if (getaddrinfo(address->host, port, &numeric, out) == 0) {
        return RQL_OK; /* an address: no server is asked, no thread needed */
    }
    return resolve_name(out, address, where, deadline_us, error);
}

/* ---- addresses to sockets ---- */

/* WAIT_MS_MAX: of one connect() to a path, which is then repeated. KEEP_*: after so long a silence
 * TCP asks the peer for a sign, then at this interval. Where there is a user timeout it decides
 * when that is given up, and not the number of probes. */
enum {
    WAIT_MS_MAX = 60000,
    ADDRESSES_MAX = 16, /* of one name; more would leave too little time for each */
    KEEP_IDLE_S = 5,
    KEEP_INTERVAL_S = 2,
    KEEP_PROBES = 2,
};

RQLI_DEFINE_AUTO(struct addrinfo *, freeaddrinfo);

static int fail_with(int code)
{
    errno = code;
    return -1;
}

/* With no time left it looks once. */
int rqli_fd_await(int fd, short events, int64_t left_us)
{
    struct pollfd wanted = {.fd = fd, .events = events};
    struct timespec left = {0};

    if (left_us > 0) {
        left.tv_sec = (time_t)(left_us / 1000000);
        left.tv_nsec = (long)(left_us % 1000000) * 1000;
    }
    return ppoll(&wanted, 1, &left, NULL);
}

/* 0, or -1 with errno: what became of a connect that was in progress. A socket has room to send
 * when that has failed, too: SO_ERROR tells. */
static int await_connected(int fd, int64_t deadline_us)
{
    int code = 0;
    socklen_t size = sizeof code;
    int ready;

    do {
        ready = rqli_fd_await(fd, POLLOUT, deadline_us - rqli_now_us());
    } while ((ready < 0 && errno == EINTR) || (ready == 0 && rqli_now_us() < deadline_us));
    if (ready == 0) {
        return fail_with(ETIMEDOUT);
    }
    if (ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0) {
        return -1;
    }
    return code == 0 ? 0 : fail_with(code);
}

/* The descriptor, or -1 with errno. It is non-blocking for as long as it connects only: those who
 * use it later sleep in recv(). */
static int connect_address(const struct addrinfo *address, int64_t deadline_us)
{
    RQLI_AUTO(rqli_fd_close)
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int flags;

    if (fd < 0) {
        return -1;
    }
    /* An interrupted connect goes on in the background like one in progress. */
    if (connect(fd, address->ai_addr, address->ai_addrlen) != 0 &&
        ((errno != EINPROGRESS && errno != EINTR) || await_connected(fd, deadline_us) != 0)) {
        return -1;
    }
    flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0) {
        return -1;
    }
    return rqli_fd_give(&fd);
}

/* Each address gets its share of the time that is left, so a dead one cannot use up all of it. -1:
 * errno is that of the last one. */
static int connect_any(const struct addrinfo *list, int64_t deadline_us)
{
    int n_left = 0;
    int fd = -1;

    for (const struct addrinfo *at = list; at && n_left < ADDRESSES_MAX; at = at->ai_next) {
        n_left++;
    }
    for (; n_left > 0 && fd < 0; list = list->ai_next) {
        int64_t now_us = rqli_now_us();

        fd = connect_address(list, now_us + (deadline_us - now_us) / n_left);
        n_left--;
    }
    return fd;
}

static int set_option(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof value);
}

/* Keep-alive, so that a peer that vanished without a word is noticed; the user timeout, so that
 * bytes which it does not acknowledge are not sent again for many minutes. No delay: our commands
 * are complete when they are sent, and an answer is waited for. */
static bool set_up_tcp(int fd, int64_t io_timeout_ms)
{
    return set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1) == 0 &&
           set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_PROBES) == 0 &&
           set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (int)io_timeout_ms) == 0;
}

/* 0: without a limit. */
static int limit_send_ms(int fd, int ms)
{
    const struct timeval limit = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * INT64_C(1000)};

    return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* EAGAIN: the server's backlog was full all the time. The limit is taken back in the end:
 * SO_SNDTIMEO would hold for every send. */
static int connect_path(int fd, const struct sockaddr_un *address, int64_t deadline_us)
{
    for (;;) {
        int64_t left_ms = (deadline_us - rqli_now_us() + 999) / 1000; /* 0 would be no limit */

        if (left_ms <= 0) {
            return fail_with(ETIMEDOUT);
        }
        if (limit_send_ms(fd, left_ms < WAIT_MS_MAX ? (int)left_ms : WAIT_MS_MAX) != 0) {
            return -1;
        }
        if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0) {
            return limit_send_ms(fd, 0);
        }
        if (errno != EINTR && errno != EAGAIN) {
            return -1;
        }
    }
}

int rqli_connect_unix(const char *path, int64_t deadline_us)
{
    RQLI_AUTO(rqli_fd_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (fd < 0) {
        return -1;
    }
    if (strlen(path) >= sizeof address.sun_path) {
        return fail_with(ENAMETOOLONG);
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (connect_path(fd, &address, deadline_us) != 0) {
        return -1;
    }
    return rqli_fd_give(&fd);
}

/* Not for `local:`, where rqli_local_join() finds the server and connects. */
rql_status rqli_connect(const struct rqli_endpoint *endpoint, const struct rqli_address *to,
                        int64_t deadline_us, int *out_fd, rql_error *error)
{
    RQLI_AUTO(freeaddrinfo) struct addrinfo *list = NULL;
    RQLI_AUTO(rqli_fd_close) int fd = -1;
    rql_status status = RQL_OK;
    char text[128];

    if (endpoint->kind == RQLI_ENDPOINT_UNIX) {
        fd = rqli_connect_unix(endpoint->path, deadline_us);
    } else {
        status = resolve(&list, to, endpoint->where, deadline_us, error);
        if (status) {
            return status;
        }
        fd = connect_any(list, deadline_us);
    }
    if (fd < 0 ||
        (endpoint->kind == RQLI_ENDPOINT_TCP && !set_up_tcp(fd, endpoint->io_timeout_ms))) {
        return rqli_fail(error, RQL_E_IO, "cannot connect to %.150s: %s", endpoint->where,
                         strerror_r(errno, text, sizeof text));
    }
    *out_fd = rqli_fd_give(&fd);
    return RQL_OK;
}
