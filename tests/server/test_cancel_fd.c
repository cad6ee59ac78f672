#include "fixture.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

/* rql_lock_options.cancel_fd ends each wait of each call, whatever the server does, and leaves no
 * request behind. */

enum {
    SOON_MS = 1000,
    CONNECT_MS = 3000,
    RACES = 100,
    QUESTIONS = 20,
    CROWD = 6,
    FILL_MAX = 16,
    REPLICAS_MS = 900
};

FIXTURE(start_server, stop_server, make_clients, free_clients);

/* ---- calls in threads of their own ---- */

struct call {
    rql_status (*make)(struct call *self);
    rql_client *client;
    const char *name;
    int fd;
    rql_lock_options options; /* ttl_ms 0: those of patient() */
    pthread_t thread;
    rql_lock *lock;
    rql_status status;
    rql_error error;
};

static int never_run(rql_lock *lock, void *data)
{
    (void)lock;
    (void)data;
    abort();
}

static int never_run_series(rql_series *series, void *data)
{
    (void)series;
    (void)data;
    abort();
}

static rql_status acquire(struct call *self)
{
    return rql_lock_acquire(self->client, self->name, &self->options, &self->lock, &self->error);
}

static rql_status run_block(struct call *self)
{
    rql_block block = {.run = never_run};

    return rql_lock_run(self->client, self->name, &self->options, &block, &self->error);
}

static rql_status wait_until_free(struct call *self)
{
    return rql_lock_wait_until_free(self->client, self->name, &self->options, &self->error);
}

static rql_status acquire_series(struct call *self, rql_series_mode mode)
{
    const char *const names[] = {"before", self->name, "behind"};
    rql_series_options options = series_of(names, 3);
    rql_series *series = NULL;

    options.lock = &self->options;
    options.mode = mode;
    return rql_series_acquire(self->client, &options, &series, &self->error);
}

static rql_status acquire_at_once(struct call *self)
{
    return acquire_series(self, RQL_SERIES_ATOMIC);
}

static rql_status acquire_as_gem(struct call *self)
{
    return acquire_series(self, RQL_SERIES_GEM);
}

static rql_status run_series(struct call *self)
{
    const char *const names[] = {self->name, "behind"};
    rql_series_options options = series_of(names, 2);
    rql_series_block block = {.run = never_run_series};

    options.lock = &self->options;
    return rql_series_run(self->client, &options, &block, &self->error);
}

static const struct kind {
    const char *name;
    rql_status (*make)(struct call *self);
    bool waits_in_queue;
    bool is_series;
} kinds[] = {
    {"acquire", acquire, true, false},
    {"run", run_block, true, false},
    {"series", acquire_at_once, true, true},
    {"series of the gem", acquire_as_gem, true, true},
    {"run with a series", run_series, true, true},
    {"wait until free", wait_until_free, false, false},
};

static void *make_call(void *data)
{
    struct call *self = data;

    self->status = self->make(self);
    return NULL;
}

static void begin(struct call *self)
{
    if (self->options.ttl_ms == 0) {
        self->options = patient(self->client);
    }
    self->options.cancel_fd = self->fd;
    self->make = self->make ? self->make : acquire;
    self->name = self->name ? self->name : "x";
    assert_int_equal(pthread_create(&self->thread, NULL, make_call, self), 0);
}

static int new_event(void)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

    assert_true(fd >= 0);
    return fd;
}

static void begin_new(struct call *self)
{
    self->fd = new_event();
    begin(self);
}

static rql_status end(struct call *self)
{
    assert_int_equal(pthread_join(self->thread, NULL), 0);
    return self->status;
}

/* The library has not read the descriptor, and it is still open. */
static rql_status end_and_close(struct call *self)
{
    rql_status status = end(self);
    eventfd_t value = 0;

    (void)eventfd_read(self->fd, &value);
    assert_int_equal(value, status == RQL_OK ? 0 : 1);
    assert_int_equal(close(self->fd), 0);
    return status;
}

static rql_status cancel(struct call *self)
{
    int64_t start_us = wait_clock_us();
    rql_status status;

    assert_int_equal(eventfd_write(self->fd, 1), 0);
    status = end_and_close(self);
    assert_in_range(wait_clock_us() - start_us, 0, SOON_MS * 1000 * wait_slowness());
    return status;
}

static void take_lock(struct call *self)
{
    CHECK_OK(end_and_close(self));
    CHECK_OK(rql_lock_release(self->lock, NULL));
}

static bool is_polled(void *n_calls)
{
    return calls_of("hexists") >= *(const int64_t *)n_calls;
}

/* Waits until the server has answered wait_until_free() once more. */
static void await_poll(void)
{
    int64_t n_calls = calls_of("hexists") + 1;

    assert_true(wait_until(is_polled, &n_calls, AWAIT_MS));
}

/* ---- in the queue ---- */

TEST(each_call_leaves_its_queue)
{
    EACH_ROW (kind, kinds) {
        struct call call = {.make = kind->make, .client = client};
        rql_lock *held = hold(other, "x");

        begin_new(&call);
        if (kind->waits_in_queue) {
            await_int(1, "ZCARD rql:lock_queue:x");
        } else {
            await_poll();
        }
        assert_int_equal(cancel(&call), RQL_CANCELLED);
        assert_non_null(strstr(call.error.message, "x"));
        assert_non_null(strstr(call.error.message, "cancelled"));
        CHECK_QUEUE_IS_EMPTY("x");
        CHECK_OK(rql_lock_release(held, NULL));
        expect_nothing_left("before");
        expect_nothing_left("x");
        expect_nothing_left("behind");
    }
}

/* The first waiter reads for the client, and the others sleep on words. */
TEST(waiters_behind_a_reader_are_cancelled_one_by_one)
{
    struct call calls[CROWD] = {0};
    rql_lock *held = hold(other, "x");

    for (int i = 0; i < CROWD; i++) {
        calls[i].client = client;
        begin_new(&calls[i]);
        await_int(i + 1, "ZCARD rql:lock_queue:x");
    }
    assert_int_equal(cancel(&calls[3]), RQL_CANCELLED); /* sleeps */
    assert_int_equal(cancel(&calls[0]), RQL_CANCELLED); /* reads */
    assert_int_equal(cancel(&calls[1]), RQL_CANCELLED); /* reads now */
    await_int(3, "ZCARD rql:lock_queue:x");
    CHECK_OK(rql_lock_release(held, NULL));
    take_lock(&calls[2]);
    take_lock(&calls[4]);
    take_lock(&calls[5]);
    expect_nothing_left("x");
}

/* Hand-overs reach waiters that poll and waiters that sleep on a futex. */
TEST(a_cancelled_waiter_leaves_waiters_without_a_descriptor_alone)
{
    struct call calls[CROWD] = {0};
    rql_lock *held = hold(client, "x"); /* hands over inside the client */

    for (int i = 0; i < CROWD; i++) {
        calls[i].client = client;
        calls[i].fd = i % 2 == 0 ? new_event() : -1;
        begin(&calls[i]);
        await_int(i + 1, "ZCARD rql:lock_queue:x");
    }
    assert_int_equal(cancel(&calls[2]), RQL_CANCELLED);
    CHECK_OK(rql_lock_release(held, NULL));
    for (int i = 0; i < CROWD; i++) {
        if (i == 2) {
            continue;
        }
        CHECK_OK(end(&calls[i]));
        CHECK_OK(rql_lock_release(calls[i].lock, NULL));
        if (calls[i].fd >= 0) {
            assert_int_equal(close(calls[i].fd), 0);
        }
    }
    expect_nothing_left("x");
}

TEST(one_descriptor_cancels_all_its_calls)
{
    struct call calls[CROWD] = {0};
    int fd = new_event();
    rql_lock *held = hold(other, "x");

    for (int i = 0; i < CROWD; i++) {
        calls[i] = (struct call){.client = client, .fd = fd};
        begin(&calls[i]);
    }
    await_int(CROWD, "ZCARD rql:lock_queue:x");
    assert_int_equal(eventfd_write(fd, 1), 0);
    for (int i = 0; i < CROWD; i++) {
        assert_int_equal(end(&calls[i]), RQL_CANCELLED);
    }
    CHECK_QUEUE_IS_EMPTY("x");
    CHECK_OK(rql_lock_release(held, NULL));
    assert_int_equal(close(fd), 0);
    expect_nothing_left("x");
}

TEST(a_deadline_holds_with_a_descriptor)
{
    struct call call = {.client = client, .fd = new_event(), .options = patient(client)};
    rql_lock *held = hold(other, "x");

    call.options.timeout_ms = 100;
    begin(&call);
    assert_int_equal(end(&call), RQL_TIMED_OUT);
    CHECK_QUEUE_IS_EMPTY("x");
    assert_int_equal(close(call.fd), 0);
    CHECK_OK(rql_lock_release(held, NULL));
}

/* ---- before the call, and at its end ---- */

TEST(a_descriptor_that_is_readable_before_the_call_sends_nothing)
{
    CHECK_OK(rql_lock_release(hold(client, "warm"), NULL));
    EACH_ROW (kind, kinds) {
        struct call call = {.make = kind->make, .client = client, .fd = new_event()};
        int64_t n_calls = calls_of("evalsha") + calls_of("hexists");

        assert_int_equal(eventfd_write(call.fd, 1), 0);
        begin(&call);
        assert_int_equal(end_and_close(&call), RQL_CANCELLED);
        assert_int_equal(calls_of("evalsha") + calls_of("hexists"), n_calls);
        expect_nothing_left("x");
    }
}

/* The end of a pipe is readable, and so is everything that is no open descriptor. */
TEST(any_descriptor_will_do)
{
    struct call call = {.client = client};
    rql_lock *held = hold(other, "x");
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    call.fd = ends[0];
    begin(&call);
    await_int(1, "ZCARD rql:lock_queue:x");
    assert_int_equal(close(ends[1]), 0);
    assert_int_equal(end(&call), RQL_CANCELLED);
    assert_int_equal(close(ends[0]), 0);
    begin(&call);
    assert_int_equal(end(&call), RQL_CANCELLED);
    CHECK_QUEUE_IS_EMPTY("x");
    CHECK_OK(rql_lock_release(held, NULL));
}

/* Returns whether the lock is held. A server that was kept from running may not confirm within the
 * time that it has: then the client withdraws the request later. */
static bool end_race(struct call *self)
{
    if (end(self) == RQL_OK) {
        CHECK_OK(rql_lock_verify(self->lock, NULL));
        CHECK_OK(rql_lock_release(self->lock, NULL));
        return true;
    }
    if (self->status == RQL_E_UNKNOWN && wait_slowness() > 1) {
        expect_nothing_left("x");
    } else {
        assert_int_equal(self->status, RQL_CANCELLED);
    }
    return false;
}

/* Whatever comes first, the result says what is true on the server. */
TEST(a_grant_and_a_cancellation_at_the_same_time)
{
    int n_held = 0;

    for (int i = 0; i < RACES; i++) {
        struct call call = {.client = client};
        rql_lock *held = hold(i % 2 == 0 ? other : client, "x");

        begin_new(&call);
        await_int(1, "ZCARD rql:lock_queue:x");
        if (i % 4 < 2) {
            CHECK_OK(rql_lock_release(held, NULL));
        }
        assert_int_equal(eventfd_write(call.fd, 1), 0);
        if (i % 4 >= 2) {
            CHECK_OK(rql_lock_release(held, NULL));
        }
        n_held += end_race(&call);
        assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
        CHECK_QUEUE_IS_EMPTY("x");
        assert_int_equal(close(call.fd), 0);
    }
    print_message("# %d of %d were held\n", n_held, RACES);
}

/* ---- signals ---- */

static int signal_pipe[2];

static void on_signal(int number)
{
    int saved = errno;

    (void)number;
    (void)!write(signal_pipe[1], "", 1);
    errno = saved;
}

/* Whichever thread runs the handler: the one that waits, or another one. */
TEST(a_signal_handler_cancels_with_a_pipe)
{
    struct sigaction act = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigaction before;
    char byte;

    assert_int_equal(pipe(signal_pipe), 0);
    assert_int_equal(sigaction(SIGUSR1, &act, &before), 0);
    EACH_ROW (kind, kinds) {
        for (int is_other = 0; is_other < 2; is_other++) {
            struct call call = {.make = kind->make, .client = client, .fd = signal_pipe[0]};
            rql_lock *held = hold(other, "x");

            begin(&call);
            if (kind->waits_in_queue) {
                await_int(1, "ZCARD rql:lock_queue:x");
            } else {
                await_poll();
            }
            assert_int_equal(pthread_kill(is_other ? pthread_self() : call.thread, SIGUSR1), 0);
            assert_int_equal(end(&call), RQL_CANCELLED);
            CHECK_QUEUE_IS_EMPTY("x");
            assert_int_equal(read(signal_pipe[0], &byte, 1), 1);
            CHECK_OK(rql_lock_release(held, NULL));
        }
    }
    assert_int_equal(sigaction(SIGUSR1, &before, NULL), 0);
    (void)close(signal_pipe[0]);
    (void)close(signal_pipe[1]);
}

/* ---- replicas that do not answer ---- */

static void begin_durable(struct call *self, const char *name)
{
    *self = (struct call){.client = client, .name = name, .options = patient(client)};
    self->options.replicas = 1;
    self->options.replica_timeout_ms = REPLICAS_MS;
    self->options.durability_is_advice = true;
    begin_new(self);
}

/* Two writes wait for replicas, one after the other, and three calls gather in a third. The first
 * of them, which reads, and the last, which hears how safe all three are, are cancelled when
 * their replies have come: the one between them has to read. */
TEST(a_caller_that_waits_for_the_acks_of_another_reads_when_that_one_leaves)
{
    static const char *const names[] = {"first", "second", "reads", "stays", "hears"};
    struct call calls[N_ROWS(names)];
    const int64_t begun_us = wait_clock_us();

    for (size_t i = 0; i < N_ROWS(names); i++) {
        begin_durable(&calls[i], names[i]);
        (void)poll(NULL, 0, 30); /* nothing shows that a call stands in line */
    }
    CHECK_OK(end_and_close(&calls[0]));
    CHECK_OK(end_and_close(&calls[1]));
    (void)poll(NULL, 0, REPLICAS_MS / 5); /* nor that its reply has come */
    for (size_t i = N_ROWS(names) - 1; i >= 2; i -= 2) {
        assert_int_equal(eventfd_write(calls[i].fd, 1), 0);
        assert_int_not_equal(end(&calls[i]), RQL_OK);
        assert_int_equal(close(calls[i].fd), 0);
    }
    CHECK_OK(end_and_close(&calls[3]));
    assert_in_range(wait_clock_us() - begun_us, 0, 4 * REPLICAS_MS * 1000 * wait_slowness());
    for (size_t i = 0; i < N_ROWS(names); i++) {
        if (calls[i].lock) {
            CHECK_OK(rql_lock_release(calls[i].lock, NULL));
        }
    }
}

/* ---- a silent server ---- */

/* What was sent may have been done: the client withdraws it when the server is back. */
TEST(a_silent_server_does_not_hold_up_a_cancellation)
{
    CHECK_OK(rql_lock_release(hold(client, "warm"), NULL));
    EACH_ROW (kind, kinds) {
        struct call calls[CROWD] = {0};
        int fd = new_event();
        int64_t start_us;

        redis_server_pause(&server);
        for (int i = 0; i < CROWD; i++) {
            calls[i] = (struct call){.make = kind->make, .client = client, .fd = fd};
            begin(&calls[i]);
        }
        (void)poll(NULL, 0, 20); /* nothing shows that the calls have been sent */
        start_us = wait_clock_us();
        assert_int_equal(eventfd_write(fd, 1), 0);
        for (int i = 0; i < CROWD; i++) {
            rql_status status = end(&calls[i]);

            if (kind->waits_in_queue && status != RQL_E_UNKNOWN) {
                assert_int_equal(status, RQL_CANCELLED); /* was not sent yet */
            } else if (!kind->waits_in_queue) {
                assert_int_equal(status, RQL_CANCELLED);
            }
        }
        assert_in_range(wait_clock_us() - start_us, 0, SOON_MS * 1000 * wait_slowness());
        redis_server_resume(&server);
        expect_nothing_left("before");
        expect_nothing_left("x");
        expect_nothing_left("behind");
        assert_int_equal(close(fd), 0);
    }
}

TEST(a_request_in_the_queue_of_a_silent_server_is_withdrawn_later)
{
    struct call call = {.client = client};
    rql_lock *held = hold(other, "x");

    begin_new(&call);
    await_int(1, "ZCARD rql:lock_queue:x");
    redis_server_pause(&server);
    assert_int_equal(cancel(&call), RQL_E_UNKNOWN);
    redis_server_resume(&server);
    CHECK_OK(rql_lock_release(held, NULL));
    expect_nothing_left("x");
}

/* ---- connecting ---- */

typedef int (*resolve_fn)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static int names_gate[2];
static atomic_int n_names;

/* Takes the place of the C library's: "slow.test" has no answer until the gate is closed. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *req,
                struct addrinfo **pai)
{
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
    resolve_fn real;
    char byte;

    memcpy(&real, &symbol, sizeof real);
    if (!(req->ai_flags & AI_NUMERICHOST) && strcmp(name, "slow.test") == 0) {
        atomic_fetch_add(&n_names, 1);
        (void)!read(names_gate[0], &byte, 1);
        return EAI_AGAIN;
    }
    return real(name, service, req, pai);
}

static bool is_asked_for(void *data)
{
    (void)data;
    return atomic_load(&n_names) > 0;
}

static int listen_at(int *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof at;

    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

/* A listener whose backlog is full: it answers no further attempt. */
static int fill_up(char url[TEXT_SIZE], bool is_path, int fds[FILL_MAX])
{
    struct sockaddr_un path = {.sun_family = AF_UNIX};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr *address = is_path ? (struct sockaddr *)&path : (struct sockaddr *)&at;
    socklen_t size = is_path ? sizeof path : sizeof at;
    int kind = SOCK_STREAM | SOCK_CLOEXEC;
    int fd = socket(address->sa_family, kind, 0);

    (void)snprintf(path.sun_path, sizeof path.sun_path, "%s/full", server.dir);
    assert_int_equal(bind(fd, address, size), 0);
    assert_int_equal(listen(fd, 0), 0);
    assert_int_equal(getsockname(fd, address, &size), 0);
    if (is_path) {
        (void)snprintf(url, TEXT_SIZE, "unix://%s", path.sun_path);
    } else {
        (void)snprintf(url, TEXT_SIZE, "redis://127.0.0.1:%d", ntohs(at.sin_port));
    }
    for (int i = 0; i < FILL_MAX; i++) {
        fds[i] = socket(address->sa_family, kind | SOCK_NONBLOCK, 0);
        (void)connect(fds[i], address, size);
    }
    return fd;
}

/* CONNECT_MS is long enough for three cancellations. A client of a cluster is freed when its thread
 * has ended its own attempt to connect.
 *
 * One thread connects, and the other waits for it: each by itself is cancelled. The second connects
 * when the first is gone. */
static void cancel_connecting(const char *url, const struct kind *kind, bool (*is_on)(void *data),
                              void *data)
{
    rql_options options = client_options();
    struct call calls[3] = {0};

    options.url = url;
    options.connect_timeout_ms = CONNECT_MS;
    options.tls_verify = RQL_TLS_NONE;
    calls[0].client = new_client_with(&options);
    for (size_t i = 0; i < N_ROWS(calls); i++) {
        calls[i] = (struct call){.make = kind->make, .client = calls[0].client};
        begin_new(&calls[i]);
        assert_true(wait_until(is_on, data, AWAIT_MS));
    }
    assert_int_equal(cancel(&calls[2]), RQL_CANCELLED);
    assert_int_equal(cancel(&calls[0]), RQL_CANCELLED);
    assert_int_equal(cancel(&calls[1]), RQL_CANCELLED);
    assert_null(rql_client_free(calls[0].client));
}

static bool is_connected_to(void *listener)
{
    return wait_readable(*(int *)listener, 0);
}

static bool is_later(void *us)
{
    return wait_clock_us() > *(int64_t *)us;
}

TEST(connecting_to_a_server_that_never_answers_is_cancelled)
{
    static const char *const schemes[] = {"redis", "rediss", "redis+cluster", "redis+sentinel"};

    for (size_t i = 0; i < N_ROWS(schemes); i++) {
        EACH_ROW (kind, kinds) {
            char url[TEXT_SIZE];
            int listener;
            int port;

            if (kind->is_series && strcmp(schemes[i], "redis+cluster") == 0) {
                continue; /* its names are in different partitions */
            }
            listener = listen_at(&port);

            (void)snprintf(url, sizeof url, "%s://127.0.0.1:%d%s", schemes[i], port,
                           strstr(schemes[i], "sentinel") ? "/m" : "");
            print_message("# %s\n", url);
            cancel_connecting(url, kind, is_connected_to, &listener);
            (void)close(listener);
        }
    }
}

TEST(connecting_to_a_full_backlog_is_cancelled)
{
    for (int is_path = 0; is_path < 2; is_path++) {
        EACH_ROW (kind, kinds) {
            char url[TEXT_SIZE];
            int fds[FILL_MAX];
            int listener = fill_up(url, is_path, fds);
            int64_t us = wait_clock_us() + 5000; /* nothing shows that a thread connects */

            print_message("# %s\n", url);
            cancel_connecting(url, kind, is_later, &us);
            for (int i = 0; i < FILL_MAX; i++) {
                (void)close(fds[i]);
            }
            (void)close(listener);
            if (is_path) {
                (void)unlink(url + strlen("unix://"));
            }
        }
    }
}

TEST(name_resolution_is_cancelled)
{
    assert_int_equal(pipe(names_gate), 0);
    EACH_ROW (kind, kinds) {
        atomic_store(&n_names, 0);
        cancel_connecting("redis://slow.test:1", kind, is_asked_for, NULL);
    }
    (void)close(names_gate[1]);
}

/* A cancelled attempt is no failure of the server: other callers do not pause because of it. */
TEST(a_cancelled_attempt_delays_no_other_caller)
{
    struct call calls[2] = {{.client = client, .name = "x"}, {.client = client, .name = "y"}};

    int n_open;

    redis_server_pause(&server);
    n_open = count_descriptors();
    begin_new(&calls[0]);
    await_descriptors(n_open + 2); /* the one that cancels, and the socket */
    begin_new(&calls[1]);
    await_descriptors(n_open + 4); /* that, and the one by which it is woken */
    assert_int_equal(cancel(&calls[0]), RQL_CANCELLED);
    redis_server_resume(&server);
    take_lock(&calls[1]);
    expect_nothing_left("x");
}

/* ---- calls within calls ---- */

struct within {
    int fd;
    int n_lines;
    rql_lock *held;
    rql_status status;
};

static void cancel_and_call(const rql_log_record *record, void *data)
{
    struct within *self = data;

    (void)record;
    if (++self->n_lines != 2) { /* the first line is from before the wait for the lock begins */
        return;
    }
    (void)eventfd_write(self->fd, 1);
    self->status = RQL_OK;
    for (int i = 0; i < QUESTIONS && !self->status; i++) {
        self->status =
            rql_lock_verify(self->held, NULL); /* one round trip, and no second attempt */
    }
}

/* A descriptor cancels the call that it was given to, not the calls of the call's listeners. */
TEST(calls_of_a_listener_are_not_cancelled)
{
    struct within within = {.fd = new_event(), .status = RQL_E_INVALID};
    rql_lock_options options = patient(client);
    rql_lock *held = hold(other, "x");
    rql_lock *lock = NULL;

    if (RQLI_LIGHT) {
        skip();
    }
    within.held = hold(other, "y");
    options.logger = cancel_and_call;
    options.logger_data = &within;
    options.log_lock_try = true;
    options.cancel_fd = within.fd;
    assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, NULL), RQL_CANCELLED);
    CHECK_OK(within.status);
    CHECK_OK(rql_lock_release(within.held, NULL));
    CHECK_OK(rql_lock_release(held, NULL));
    expect_nothing_left("x");
    assert_int_equal(close(within.fd), 0);
}

/* ---- forks ---- */

static int use_child(void)
{
    rql_client *own = new_client();
    int fd = eventfd(0, EFD_CLOEXEC);
    rql_lock_options options = patient(own);
    rql_lock *lock = NULL;
    rql_status status;

    options.cancel_fd = fd;
    options.auto_extend = false;
    status = rql_lock_acquire(own, "y", &options, &lock, NULL);
    if (!status) {
        status = rql_lock_release(lock, NULL);
    }
    (void)rql_client_free(own);
    return status == RQL_OK ? 0 : 1;
}

TEST(a_child_of_fork_has_no_waits_of_its_parent)
{
    struct call calls[2] = {{.client = client}, {.client = client}};
    rql_lock *held = hold(other, "x");
    int code = -1;
    pid_t child;

    for (int i = 0; i < 2; i++) {
        begin_new(&calls[i]);
        await_int(i + 1, "ZCARD rql:lock_queue:x");
    }
    child = fork();
    if (child == 0) {
        _exit(use_child());
    }
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    CHECK_OK(rql_lock_release(held, NULL));
    take_lock(&calls[0]);
    take_lock(&calls[1]);
    expect_nothing_left("x");
}
