#include "stand_in.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

struct stand_in {
    pthread_t thread;
    int listener;
    int stop; /* eventfd */
    bool resets;
    const char *const *lines;
    char url[64];
    atomic_int connections;
};

static void must(int works, const char *what)
{
    if (!works) {
        (void)fprintf(stderr, "stand_in: %s failed\n", what);
        abort();
    }
}

/* False: it is time to stop. */
static bool await(const struct stand_in *self, int fd)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLIN}, {.fd = self->stop, .events = POLLIN}};

    (void)poll(fds, 2, -1);
    return fds[1].revents == 0;
}

static bool says_something(int fd)
{
    char bytes[4096];

    return recv(fd, bytes, sizeof bytes, 0) > 0;
}

static void play(const struct stand_in *self, int fd)
{
    const struct linger at_once = {.l_onoff = 1};
    const char *const *line = self->lines;

    while (await(self, fd) && says_something(fd)) {
        if (*line) {
            must(send(fd, *line, strlen(*line), MSG_NOSIGNAL) >= 0, "send");
            line++;
        }
        if (!*line && self->resets) {
            (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
            break;
        }
    }
    (void)close(fd);
}

static void *run(void *argument)
{
    struct stand_in *self = argument;

    while (await(self, self->listener)) {
        int fd = accept4(self->listener, NULL, NULL, SOCK_CLOEXEC);

        must(fd >= 0, "accept");
        atomic_fetch_add(&self->connections, 1);
        play(self, fd);
    }
    return NULL;
}

struct stand_in *stand_in_start(const char *const *lines, bool resets)
{
    struct stand_in *self = calloc(1, sizeof *self);
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t size = sizeof at;

    must(self != NULL, "calloc");
    self->lines = lines;
    self->resets = resets;
    self->stop = eventfd(0, EFD_CLOEXEC);
    self->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    must(self->stop >= 0, "eventfd");
    must(bind(self->listener, (struct sockaddr *)&at, size) == 0, "bind");
    must(listen(self->listener, 16) == 0, "listen");
    must(getsockname(self->listener, (struct sockaddr *)&at, &size) == 0, "getsockname");
    (void)snprintf(self->url, sizeof self->url, "redis://127.0.0.1:%d", ntohs(at.sin_port));
    must(pthread_create(&self->thread, NULL, run, self) == 0, "pthread_create");
    return self;
}

void stand_in_stop(struct stand_in *self)
{
    (void)eventfd_write(self->stop, 1);
    (void)pthread_join(self->thread, NULL);
    (void)close(self->listener);
    (void)close(self->stop);
    free(self);
}

const char *stand_in_url(const struct stand_in *self)
{
    return self->url;
}

int stand_in_connections(struct stand_in *self)
{
    return self->connections;
}
