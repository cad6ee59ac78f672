#include "proxy.h"

#include "proxy_parts.h"
#include "wait.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PAIRS = 256, BACKLOG = 256 };

static void must(bool works, const char *what)
{
    if (!works) {
        (void)fprintf(stderr, "proxy: %s: %s\n", what, strerror(errno));
        abort();
    }
}

void proxy_lock(struct proxy *proxy)
{
    (void)pthread_mutex_lock(&proxy->shared.mutex);
}

void proxy_unlock(struct proxy *proxy)
{
    (void)pthread_mutex_unlock(&proxy->shared.mutex);
}

void proxy_unlock_and_poke(struct proxy *proxy)
{
    const uint64_t one = 1;

    proxy_unlock(proxy);
    must(write(proxy->poke, &one, sizeof one) == sizeof one, "eventfd");
}

void proxy_hang_up(int fd)
{
    if (fd >= 0) {
        (void)shutdown(fd, SHUT_RDWR);
        (void)close(fd);
    }
}

static void cut_pair(struct proxy *proxy, struct pair *pair)
{
    if (!pair->cut) {
        pair->cut = true;
        proxy->shared.open--;
        (void)shutdown(pair->client, SHUT_RDWR);
        (void)shutdown(pair->server, SHUT_RDWR);
    }
}

static void free_pair(struct pair *pair)
{
    proxy_stream_fini(&pair->up);
    proxy_stream_fini(&pair->down);
    (void)close(pair->client);
    (void)close(pair->server);
    if (pair->again >= 0) {
        (void)close(pair->again);
    }
    free(pair);
}

static int dial_server(const struct proxy *proxy, int flags)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);

    must(fd >= 0, "socket");
    if (connect(fd, (const struct sockaddr *)&proxy->server, sizeof proxy->server)) {
        (void)close(fd);
        fd = -1;
    }
    return fd;
}

static void welcome(struct proxy *proxy, int client)
{
    int server = proxy->shared.open < MAX_PAIRS ? dial_server(proxy, SOCK_NONBLOCK) : -1;
    struct pair *pair;

    proxy->shared.connections++;
    if (server < 0) {
        proxy_hang_up(client);
        return;
    }
    pair = calloc(1, sizeof *pair);
    must(pair != NULL, "calloc");
    pair->client = client;
    pair->server = server;
    pair->again = proxy->shared.repeats ? dial_server(proxy, 0) : -1;
    proxy_stream_init(&pair->up, client, server, false);
    pair->up.again = pair->again;
    proxy_stream_init(&pair->down, server, client, true);
    pair->next = proxy->shared.pairs;
    proxy->shared.pairs = pair;
    proxy->shared.open++;
}

static void accept_all(struct proxy *proxy)
{
    const int yes = 1;
    int client;

    for (;;) {
        client = proxy->shared.listener < 0
                     ? -1
                     : accept4(proxy->shared.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (client < 0) {
            return;
        }
        if (proxy->is_tcp) {
            (void)setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        }
        welcome(proxy, client);
    }
}

static void move_pair(struct proxy *proxy, struct pair *pair, int64_t now_us)
{
    bool alive;

    if (pair->is_mute && !pair->cut) {
        return;
    }
    alive = !pair->cut && proxy_stream_move(&pair->up, &proxy->shared.up, now_us) &&
            proxy_stream_move(&pair->down, &proxy->shared.down, now_us);

    if (!alive || (pair->up.finished && pair->down.finished)) {
        cut_pair(proxy, pair);
    }
}

static void move_all(struct proxy *proxy, int64_t now_us)
{
    struct pair **slot = &proxy->shared.pairs;
    struct pair *pair;

    while (*slot) {
        pair = *slot;
        move_pair(proxy, pair, now_us);
        if (pair->cut) {
            *slot = pair->next;
            free_pair(pair);
        } else {
            slot = &pair->next;
        }
    }
}

static short events(bool read, bool write)
{
    return (short)((read ? POLLIN : 0) | (write ? POLLOUT : 0));
}

/* A descriptor with nothing to wait for is left out: poll() would report its hang-up for ever. */
static struct pollfd watch(int fd, short wanted)
{
    return (struct pollfd){.fd = wanted ? fd : -1, .events = wanted};
}

static int64_t sooner(int64_t a_us, int64_t b_us)
{
    return a_us < b_us ? a_us : b_us;
}

/* Returns the number of descriptors; *wake_us: when to look again anyway. */
static nfds_t watch_all(const struct proxy *proxy, struct pollfd *list, int64_t now_us,
                        int64_t *wake_us)
{
    const struct proxy_rules *up = &proxy->shared.up;
    const struct proxy_rules *down = &proxy->shared.down;
    const struct pair *pair;
    nfds_t count = 0;

    list[count++] = watch(proxy->poke, POLLIN);
    list[count++] = watch(proxy->shared.listener, POLLIN);
    for (pair = proxy->shared.pairs; pair; pair = pair->next) {
        if (pair->is_mute) {
            continue;
        }
        list[count++] =
            watch(pair->client, events(proxy_stream_wants_read(&pair->up),
                                       proxy_stream_wants_write(&pair->down, down, now_us)));
        list[count++] =
            watch(pair->server, events(proxy_stream_wants_read(&pair->down),
                                       proxy_stream_wants_write(&pair->up, up, now_us)));
        *wake_us = sooner(*wake_us, proxy_stream_wakes_us(&pair->up, up, now_us));
        *wake_us = sooner(*wake_us, proxy_stream_wakes_us(&pair->down, down, now_us));
    }
    return count;
}

static void wait_for_work(const struct proxy *proxy, struct pollfd *list, nfds_t count,
                          int64_t pause_us)
{
    const struct timespec pause = {
        .tv_sec = pause_us / 1000000,
        .tv_nsec = pause_us % 1000000 * 1000,
    };
    uint64_t pokes;

    (void)ppoll(list, count, pause_us == PROXY_STREAM_NEVER_US ? NULL : &pause, NULL);
    (void)!read(proxy->poke, &pokes, sizeof pokes); /* non-blocking */
}

static void *run(void *arg)
{
    struct pollfd list[2 + 2 * MAX_PAIRS];
    struct proxy *proxy = arg;
    int64_t wake_us;
    int64_t now_us;
    nfds_t count;

    proxy_lock(proxy);
    while (!proxy->shared.stop) {
        now_us = wait_clock_us();
        accept_all(proxy);
        move_all(proxy, now_us);
        wake_us = PROXY_STREAM_NEVER_US;
        count = watch_all(proxy, list, now_us, &wake_us);
        proxy_unlock(proxy);
        wait_for_work(proxy, list, count,
                      wake_us == PROXY_STREAM_NEVER_US ? wake_us : wake_us - now_us);
        proxy_lock(proxy);
    }
    proxy_unlock(proxy);
    return NULL;
}

static int listen_unix(const struct proxy *proxy)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    (void)unlink(proxy->local_unix.sun_path);
    must(fd >= 0 &&
             bind(fd, (const struct sockaddr *)&proxy->local_unix, sizeof proxy->local_unix) == 0 &&
             listen(fd, BACKLOG) == 0,
         proxy->local_unix.sun_path);
    return fd;
}

/* Port 0 in proxy->local_tcp becomes the port that the system chose. */
static int listen_tcp(struct proxy *proxy)
{
    socklen_t size = sizeof proxy->local_tcp;
    struct sockaddr *address = (struct sockaddr *)&proxy->local_tcp;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int yes = 1;

    must(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
             bind(fd, address, size) == 0 && listen(fd, BACKLOG) == 0 &&
             getsockname(fd, address, &size) == 0,
         "a port of 127.0.0.0/8");
    return fd;
}

int proxy_open_listener(struct proxy *proxy)
{
    return proxy->is_tcp ? listen_tcp(proxy) : listen_unix(proxy);
}

static void set_addresses(struct proxy *proxy, const char *server_socket_path, in_addr_t host,
                          int port)
{
    const size_t size = sizeof proxy->server.sun_path;
    int length;

    proxy->server.sun_family = AF_UNIX;
    proxy->local_unix.sun_family = AF_UNIX;
    proxy->local_tcp.sin_family = AF_INET;
    proxy->local_tcp.sin_addr.s_addr = htonl(host);
    proxy->local_tcp.sin_port = htons((uint16_t)port);
    (void)snprintf(proxy->server.sun_path, size, "%s", server_socket_path);
    /* Beside the server's socket, and unique among the proxies of this process. */
    length = snprintf(proxy->local_unix.sun_path, size, "%s.p%d", server_socket_path, proxy->poke);
    must(length > 0 && (size_t)length < size, "the server's socket path is too long");
}

static void start_thread(struct proxy *proxy)
{
    sigset_t all;
    sigset_t before;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    must(pthread_create(&proxy->thread, NULL, run, proxy) == 0, "pthread_create");
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* With a scheme by TCP; port 0: one that the system chooses. */
static struct proxy *start(const char *server_socket_path, const char *scheme, in_addr_t host,
                           int port)
{
    struct proxy *proxy = calloc(1, sizeof *proxy);
    char name[INET_ADDRSTRLEN];

    must(proxy != NULL, "calloc");
    proxy->is_tcp = scheme != NULL;
    proxy->poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    must(proxy->poke >= 0, "eventfd");
    (void)pthread_mutex_init(&proxy->shared.mutex, NULL);
    set_addresses(proxy, server_socket_path, host, port);
    proxy->shared.up.cut_after = -1;
    proxy->shared.down.cut_after = -1;
    proxy->shared.listener = proxy_open_listener(proxy);
    if (scheme) {
        (void)inet_ntop(AF_INET, &proxy->local_tcp.sin_addr, name, sizeof name);
        (void)snprintf(proxy->url, sizeof proxy->url, "%s://%s:%d", scheme, name,
                       proxy_port(proxy));
    } else {
        (void)snprintf(proxy->url, sizeof proxy->url, "unix://%s", proxy->local_unix.sun_path);
    }
    start_thread(proxy);
    return proxy;
}

struct proxy *proxy_start(const char *server_socket_path)
{
    return start(server_socket_path, NULL, INADDR_LOOPBACK, 0);
}

struct proxy *proxy_start_tcp(const char *server_socket_path)
{
    return start(server_socket_path, "redis", INADDR_LOOPBACK, 0);
}

struct proxy *proxy_start_beside(const char *server_socket_path, const char *host, int port)
{
    return start(server_socket_path, "redis+cluster", ntohl(inet_addr(host)), port);
}

void proxy_cut_all(struct proxy *proxy)
{
    struct pair *pair;

    for (pair = proxy->shared.pairs; pair; pair = pair->next) {
        cut_pair(proxy, pair);
    }
}

struct proxy *proxy_stop(struct proxy *proxy)
{
    if (!proxy) {
        return NULL;
    }
    proxy_lock(proxy);
    proxy->shared.stop = true;
    proxy_cut_all(proxy);
    proxy_unlock_and_poke(proxy);
    (void)pthread_join(proxy->thread, NULL);

    move_all(proxy, 0); /* all are cut: only frees them */
    proxy_hang_up(proxy->shared.listener);
    if (!proxy->is_tcp) {
        (void)unlink(proxy->local_unix.sun_path);
    }
    (void)close(proxy->poke);
    (void)pthread_mutex_destroy(&proxy->shared.mutex);
    free(proxy);
    return NULL;
}
