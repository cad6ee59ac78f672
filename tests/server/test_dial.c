#include "check.h"

#include "base/clock.h"
#include "net/sock/connect.h"
#include "net/sock/resolve.h"
#include "wait.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { FILL_MAX = 16 };

static const int64_t short_ms = 200;
static const int64_t long_ms = 10000;
static const int64_t slack_ms = 1000;

typedef int (*resolve_fn)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

static struct {
    const char *const *addresses; /* of "many.test" */
    sigset_t mask;                /* of the thread that asked for "slow.test" */
    int gate[2];                  /* "slow.test" has no answer until a byte can be read */
    int n_asked;                  /* for "slow.test" */
    int n_answered;               /* slow answers, too late or not */
    pthread_mutex_t mutex;
} names = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int resolve(const char *node, const char *service, const struct addrinfo *hints,
                   struct addrinfo **out)
{
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
    resolve_fn real;

    memcpy(&real, &symbol, sizeof real);
    return real(node, service, hints, out);
}

static int resolve_many(const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    size_t i;

    for (i = 0; names.addresses[i]; i++) {
        assert_int_equal(resolve(names.addresses[i], service, hints, out), 0);
        while (*out) {
            out = &(*out)->ai_next;
        }
    }
    return 0;
}

static int resolve_slowly(const char *service, const struct addrinfo *hints, struct addrinfo **out)
{
    int code;
    char byte;

    (void)pthread_mutex_lock(&names.mutex);
    names.n_asked++;
    (void)pthread_mutex_unlock(&names.mutex);
    (void)pthread_sigmask(SIG_BLOCK, NULL, &names.mask);
    (void)!read(names.gate[0], &byte, 1);
    code = resolve("127.0.0.1", service, hints, out);
    (void)pthread_mutex_lock(&names.mutex);
    names.n_answered++;
    (void)pthread_mutex_unlock(&names.mutex);
    return code;
}

/* Takes the place of the C library's for the whole program. */
int getaddrinfo(const char *name, const char *service, const struct addrinfo *req,
                struct addrinfo **pai)
{
    if (req->ai_flags & AI_NUMERICHOST) {
        return resolve(name, service, req, pai);
    }
    if (strcmp(name, "many.test") == 0) {
        return resolve_many(service, req, pai);
    }
    if (strcmp(name, "slow.test") == 0) {
        return resolve_slowly(service, req, pai);
    }
    return strcmp(name, "unknown.test") == 0 ? EAI_NONAME : resolve(name, service, req, pai);
}

static void forget_questions(void)
{
    (void)pthread_mutex_lock(&names.mutex);
    names.n_asked = names.n_answered = 0;
    (void)pthread_mutex_unlock(&names.mutex);
}

static bool slow_answer_came(void *data)
{
    bool came;

    (void)data;
    (void)pthread_mutex_lock(&names.mutex);
    came = names.n_answered > 0;
    (void)pthread_mutex_unlock(&names.mutex);
    return came;
}

/* A socket that listens on an IPv4 address and does not accept; port 0: any, returned. */
static int listen_at(const char *address, int *port, int backlog)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)*port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof at;

    assert_int_equal(inet_pton(AF_INET, address, &at.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static int listen_at_path(const char *path, int backlog)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

/* Connects until no more fit; what was opened is closed by drop(). */
static void fill(int listener, int fds[FILL_MAX])
{
    struct sockaddr_storage at = {0};
    socklen_t size = sizeof at;
    int i;

    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &size), 0);
    for (i = 0; i < FILL_MAX; i++) {
        fds[i] = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fds[i], (struct sockaddr *)&at, size);
    }
}

static void drop(int fds[FILL_MAX])
{
    int i;

    for (i = 0; i < FILL_MAX; i++) {
        (void)close(fds[i]);
    }
}

static struct rqli_resolver resolver; /* of all sites */
static struct rqli_url url;           /* of the site that there is */
static const struct rqli_session session = {
    .url = &url, .io_timeout_ms = 1234, .resolver = &resolver};

static struct rqli_peer peer; /* of all attempts; no test refuses one */

static struct {
    char dir[32];
    char path[64];
    char url[80];
} place;

static void make_place(void)
{
    (void)snprintf(place.dir, sizeof place.dir, "/tmp/rql-dial-XXXXXX");
    assert_non_null(mkdtemp(place.dir));
    (void)snprintf(place.path, sizeof place.path, "%s/s", place.dir);
    (void)snprintf(place.url, sizeof place.url, "unix://%s/s", place.dir);
    rqli_resolver_init(&resolver);
    assert_int_equal(pipe2(names.gate, O_CLOEXEC), 0);
}

static void remove_place(void)
{
    rqli_resolver_fini(&resolver);
    (void)close(names.gate[0]);
    (void)close(names.gate[1]);
    (void)unlink(place.path);
    assert_int_equal(rmdir(place.dir), 0);
}

static struct rqli_site at_url(const char *text)
{
    struct rqli_site site;

    CHECK_OK(rqli_url_parse(&url, text, NULL));
    CHECK_OK(rqli_site_init_first(&site, &session, NULL));
    return site;
}

static void leave(struct rqli_site *site)
{
    rqli_site_fini(site);
    rqli_url_fini(&url);
}

static struct rqli_site at_port(const char *host, int port)
{
    char text[96];

    (void)snprintf(text, sizeof text, "redis://user:sesame@%s:%d", host, port);
    return at_url(text);
}

/* Fails the test unless the site is reached; then the descriptor is the caller's. */
static int reach(struct rqli_site site)
{
    rql_error error = {0};
    int fd = -1;

    fd = rqli_connect(&site, &site.address, &peer, rqli_after_ms(rqli_now_us(), long_ms), &error);
    if (fd < 0) {
        fail_msg("%s", error.message);
    }
    leave(&site);
    return fd;
}

/* Fails the test unless the dial fails with this message within the time; returns the errno. */
static int miss(struct rqli_site site, int64_t within_ms, const char *reason)
{
    int64_t start_us = rqli_now_us();
    rql_error error = {0};
    char wanted[128];

    assert_int_equal(
        rqli_connect(&site, &site.address, &peer, rqli_after_ms(start_us, within_ms), &error), -1);
    assert_int_equal(error.status, RQL_E_IO);
    assert_in_range(rqli_now_us() - start_us, 0, (within_ms + slack_ms) * 1000 * wait_slowness());
    (void)snprintf(wanted, sizeof wanted, "cannot connect to %s: %s", site.where, reason);
    assert_string_equal(error.message, wanted);
    leave(&site);
    return error.sys_errno;
}

/* At once, and it says why. */
TEST(whoever_does_not_listen_is_named)
{
    int port = 0;

    (void)close(listen_at("127.0.0.1", &port, 1));
    assert_int_equal(miss(at_port("127.0.0.1", port), long_ms, "Connection refused"), ECONNREFUSED);
    assert_int_equal(miss(at_url(place.url), long_ms, "No such file or directory"), ENOENT);
    (void)close(listen_at_path(place.path, 1));
    assert_int_equal(miss(at_url(place.url), long_ms, "Connection refused"), ECONNREFUSED);
    (void)miss(at_port("unknown.test", 1), long_ms, gai_strerror(EAI_NONAME));
}

static int option_of(int fd, int level, int name)
{
    socklen_t size = sizeof(int);
    int value = -1;

    assert_int_equal(getsockopt(fd, level, name, &value, &size), 0);
    return value;
}

TEST(sockets_are_set_up)
{
    static const struct {
        int level, name, value;
    } of_tcp[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},  {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, 5}, {IPPROTO_TCP, TCP_KEEPINTVL, 2},
        {IPPROTO_TCP, TCP_KEEPCNT, 2},  {IPPROTO_TCP, TCP_USER_TIMEOUT, 1234},
    };

    int port = 0;
    const int listeners[] = {listen_at("127.0.0.1", &port, 1), listen_at_path(place.path, 1)};
    const int fds[] = {reach(at_port("127.0.0.1", port)), reach(at_url(place.url))};
    struct timeval limit = {1, 1};
    socklen_t size = sizeof limit;

    for (size_t i = 0; i < sizeof of_tcp / sizeof of_tcp[0]; i++) {
        assert_int_equal(option_of(fds[0], of_tcp[i].level, of_tcp[i].name), of_tcp[i].value);
    }
    assert_int_equal(getsockopt(fds[1], SOL_SOCKET, SO_SNDTIMEO, &limit, &size), 0);
    assert_int_equal(limit.tv_sec, 0);
    assert_int_equal(limit.tv_usec, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fcntl(fds[i], F_GETFL) & O_NONBLOCK, 0);
        assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
        (void)close(fds[i]);
        (void)close(listeners[i]);
    }
}

TEST(a_full_backlog_costs_the_deadline)
{
    int port = 0;
    const int listeners[] = {listen_at("127.0.0.1", &port, 0), listen_at_path(place.path, 0)};

    for (int i = 0; i < 2; i++) {
        int64_t start_us = rqli_now_us();
        int fds[FILL_MAX];

        fill(listeners[i], fds);
        assert_int_equal(miss(i == 0 ? at_port("127.0.0.1", port) : at_url(place.url), short_ms,
                              strerror(ETIMEDOUT)),
                         ETIMEDOUT);
        assert_true(rqli_now_us() - start_us >= short_ms * 1000);
        drop(fds);
        (void)close(listeners[i]);
    }
    (void)unlink(place.path);
}

static void *accept_all(void *data)
{
    const int *listener = data;
    int fd = accept(*listener, NULL, NULL);

    while (fd >= 0) {
        (void)close(fd);
        fd = accept(*listener, NULL, NULL);
    }
    return NULL;
}

TEST(a_backlog_that_gets_room_is_waited_for)
{
    int fds[FILL_MAX];
    int listener = listen_at_path(place.path, 0);
    pthread_t thread;

    fill(listener, fds);
    assert_int_equal(pthread_create(&thread, NULL, accept_all, &listener), 0);
    (void)close(reach(at_url(place.url)));
    (void)shutdown(listener, SHUT_RDWR);
    assert_int_equal(pthread_join(thread, NULL), 0);
    drop(fds);
    (void)close(listener);
}

static void ignore(int number)
{
    (void)number;
}

/* Interrupts whatever the thread does, every millisecond; 0 ends it. */
static void storm(int us)
{
    const struct itimerval every = {{0, us}, {0, us}};
    const struct sigaction action = {.sa_handler = ignore};

    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &every, NULL), 0);
}

TEST(signals_neither_end_nor_prolong_a_dial)
{
    storm(1000);
    a_full_backlog_costs_the_deadline();
    storm(0);
}

TEST(deadlines_may_have_passed_or_be_endless)
{
    int listener = listen_at_path(place.path, 1);
    struct rqli_site site = at_url(place.url);
    rql_error error = {0};
    int fd;

    fd = rqli_connect(&site, &site.address, &peer, 0, &error);
    assert_int_equal(fd, -1);
    assert_int_equal(error.status, RQL_E_IO);
    fd = rqli_connect(&site, &site.address, &peer, RQLI_NEVER_US, &error);
    assert_true(fd >= 0);
    leave(&site);
    (void)close(fd);
    (void)close(listener);
}

TEST(localhost_is_found_whatever_comes_first)
{
    int port = 0;
    int listener = listen_at("127.0.0.1", &port, 1);

    (void)close(reach(at_port("localhost", port)));
    (void)close(listener);
}

/* One that does not answer uses up its share of the time, an eighth. */
TEST(every_address_is_tried)
{
    static const char *const addresses[] = {"127.0.0.3", "127.0.0.2", "127.0.0.4",
                                            "127.0.0.5", "127.0.0.6", "127.0.0.7",
                                            "127.0.0.8", "127.0.0.1", NULL};
    int port = 0;
    int listener = listen_at("127.0.0.1", &port, 1);
    int dead = listen_at("127.0.0.3", &port, 0);
    int fds[FILL_MAX];
    struct rqli_site site = at_port("many.test", port);
    int64_t deadline_us;
    rql_error error = {0};
    int fd;

    names.addresses = addresses;
    fill(dead, fds);
    deadline_us = rqli_after_ms(rqli_now_us(), short_ms * 20);
    fd = rqli_connect(&site, &site.address, &peer, deadline_us, &error);
    assert_true(fd >= 0);
    assert_true(rqli_now_us() < deadline_us);
    leave(&site);
    (void)close(fd);
    drop(fds);
    (void)close(dead);
    (void)close(listener);
}

TEST(a_name_is_resolved_afresh)
{
    static const char *const before[] = {"127.0.0.2", NULL};
    static const char *const after[] = {"127.0.0.1", NULL};
    int port = 0;
    int listener = listen_at("127.0.0.1", &port, 1);

    names.addresses = before;
    assert_int_equal(miss(at_port("many.test", port), long_ms, "Connection refused"), ECONNREFUSED);
    names.addresses = after;
    (void)close(reach(at_port("many.test", port)));
    (void)close(listener);
}

TEST(a_hanging_resolver_costs_only_the_deadline)
{
    forget_questions();
    assert_int_equal(miss(at_port("slow.test", 1), short_ms, gai_strerror(EAI_AGAIN)), ETIMEDOUT);
    assert_false(slow_answer_came(NULL));
    assert_int_equal(write(names.gate[1], "x", 1), 1);
    assert_true(wait_until(slow_answer_came, NULL, long_ms));
    assert_int_equal(sigismember(&names.mask, SIGALRM), 1);
    assert_int_equal(sigismember(&names.mask, SIGTERM), 1);
}

static int n_asked(void)
{
    int count;

    (void)pthread_mutex_lock(&names.mutex);
    count = names.n_asked;
    (void)pthread_mutex_unlock(&names.mutex);
    return count;
}

/* However many connections are tried, and each of them again. Its answer is waited for. */
TEST(a_hanging_resolver_is_asked_once)
{
    int port = 0;
    int listener = listen_at("127.0.0.1", &port, 1);

    forget_questions();
    for (int i = 0; i < 8; i++) {
        (void)miss(at_port("slow.test", port), short_ms / 8, gai_strerror(EAI_AGAIN));
    }
    assert_int_equal(write(names.gate[1], "x", 1), 1);
    assert_true(wait_until(slow_answer_came, NULL, long_ms));
    assert_int_equal(n_asked(), 1);
    assert_int_equal(write(names.gate[1], "x", 1), 1);
    (void)close(reach(at_port("slow.test", port)));
    (void)close(listener);
}

static void remove_socket(void)
{
    (void)unlink(place.path);
}

FIXTURE(make_place, remove_place, remove_socket, NULL);
