#ifndef PEER_H
#define PEER_H

/* A server whose part the test plays: it says what is written here, and counts what it is told. */

#include "check.h"

#include "base/clock.h"
#include "net/conn/conn_shared.h"
#include "net/conn/conn_threads.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { PEER_TEXT = 4096 };

/* What a login is answered, in the order of its questions (net/login/login.c). */
#define PEER_ID "$2\r\nid\r\n:7\r\n"
#define PEER_MODE(length, mode) "$4\r\nmode\r\n$" #length "\r\n" mode "\r\n"
#define PEER_ROLE(length, role) "$4\r\nrole\r\n$" #length "\r\n" role "\r\n"
#define PEER_HELLO "*6\r\n" PEER_ID PEER_MODE(10, "standalone") PEER_ROLE(6, "master")
#define PEER_TIME "*2\r\n$1\r\n1\r\n$1\r\n0\r\n"
#define PEER_BEHIND_HELLO PEER_TIME ":0\r\n"
#define PEER_LOGIN PEER_HELLO PEER_BEHIND_HELLO
#define PEER_EIGHT_SCRIPTS "*8\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n"
#define PEER_SCRIPTS                                                                               \
    PEER_EIGHT_SCRIPTS PEER_EIGHT_SCRIPTS PEER_EIGHT_SCRIPTS "*3\r\n:1\r\n:1\r\n:1\r\n"
/* Behind it, that all scripts are known. */
#define PEER_SEAT "$0\r\n\r\n$0\r\n\r\n" PEER_SCRIPTS
#define PEER_LOGIN_FOR_COMMANDS PEER_LOGIN PEER_SEAT
#define PEER_SUBSCRIBED "*3\r\n$9\r\nsubscribe\r\n$1\r\n-\r\n:1\r\n"
#define PEER_LOGIN_FOR_PUSHES PEER_LOGIN PEER_SUBSCRIBED PEER_SUBSCRIBED

static inline void peer_say(int peer, const char *text)
{
    size_t length = strlen(text);

    assert_int_equal(send(peer, text, length, MSG_NOSIGNAL), length);
}

/* All that has come by now is read. Returns how many commands begin in it; the last of it is kept
 * in `last`, if that is not NULL. */
static inline size_t peer_hear(int peer, char last[PEER_TEXT])
{
    char text[PEER_TEXT];
    size_t count = 0;
    ssize_t got;

    while ((got = recv(peer, text, sizeof text - 1, MSG_DONTWAIT)) > 0) {
        text[got] = '\0';
        for (const char *at = text; (at = strchr(at, '*')) != NULL; at++) {
            count++;
        }
        if (last) {
            memcpy(last, text, (size_t)got + 1);
        }
    }
    return count;
}

/* Where it listens until somebody has come, in a folder of its own. */
struct peer_place {
    char dir[32];
    char path[40];
    char url[64];
    int fd;
};

static inline void peer_listen(struct peer_place *self)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    (void)snprintf(self->dir, sizeof self->dir, "/tmp/rql-peer-XXXXXX");
    assert_non_null(mkdtemp(self->dir));
    (void)snprintf(self->path, sizeof self->path, "%s/s", self->dir);
    (void)snprintf(self->url, sizeof self->url, "unix://%s", self->path);
    memcpy(at.sun_path, self->path, sizeof self->path);
    self->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(self->fd, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(self->fd, 1), 0);
}

/* Nothing is left behind. */
static inline void peer_leave(const struct peer_place *self)
{
    (void)close(self->fd);
    (void)unlink(self->path);
    (void)rmdir(self->dir);
}

/* The connection of who comes, whose login is answered before it asks. */
static inline int peer_accept(struct peer_place *self, const char *login)
{
    int peer = accept(self->fd, NULL, NULL);

    assert_true(peer >= 0);
    peer_leave(self);
    peer_say(peer, login);
    return peer;
}

/* Has this connection be there, without a login: the first of its kind. */
static inline int peer_of(struct rqli_conn *conn)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_true(rqli_decoder_init(&conn->sock.decoder));
    conn->sock.fd = fds[0];
    conn->shared.state = UP;
    conn->shared.generation = 1;
    rqli_stream_on_connected(&conn->shared.stream, rqli_now_us());
    return fds[1];
}

#endif
