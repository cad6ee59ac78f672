#ifndef RQLI_SOCKET_H
#define RQLI_SOCKET_H

/* One connection: a socket and the decoder of incoming bytes. It has no lock and no thread of its
 * own; its owner says which thread may read and which may write. */

#include "base/clock.h"
#include "net/sock/decode.h"
#include "net/sock/master.h"
#include "wire/command.h"

#include <sys/types.h>

struct rqli_site;
struct rqli_tls;

enum { RQLI_ADDRESS_SIZE = 128, RQLI_RUN_ID_SIZE = 48 };

/* How the server identifies a connection. The number alone says nothing once the server was
 * restarted, because a new run assigns the same numbers again. */
struct rqli_seat {
    int64_t client_id;               /* CLIENT ID; 0: none */
    char address[RQLI_ADDRESS_SIZE]; /* CLIENT INFO's addr; "": unknown */
    char run_id[RQLI_RUN_ID_SIZE];   /* of this run of the server; "": unknown */
};

struct rqli_socket {
    const struct rqli_site *site;
    struct rqli_address node; /* of TCP: the server it leads, or led, to */
    struct rqli_peer peer;    /* of TCP: which of that server's addresses */
    int fd;                   /* -1: closed */
    struct rqli_tls *tls;     /* NULL: not encrypted */
    int64_t read_limit_us;    /* SO_RCVTIMEO as it is set */
    struct rqli_seat seat;
    bool is_read_only;                 /* the server took no write at login */
    uint64_t scripts;                  /* those that the server knew then; a bit for each */
    int64_t renew_us;                  /* when its login is to be renewed; 0: never */
    struct rqli_master_conn of_master; /* if sentinels say which server it is */
    struct rqli_decoder decoder;
};

void rqli_socket_close(struct rqli_socket *self); /* may be closed already */

/* Sends all bytes, or returns false (errno says why: EPIPE, EAGAIN at the deadline, ...). */
bool rqli_socket_send(struct rqli_socket *self, const char *bytes, size_t length,
                      int64_t deadline_us);

/* Sends as many bytes as possible without waiting and returns their number; -1: broken. */
ssize_t rqli_socket_send_some(struct rqli_socket *self, const char *bytes, size_t length);

/* Waits until bytes have come, more can be sent, or until_us is reached. */
void rqli_socket_await_room(const struct rqli_socket *self, int64_t until_us);

/* Abandons the connection in a fork child, where a loop may still poll the number of the
 * descriptor: the number now leads to nothing. Takes no lock, allocates nothing. */
void rqli_socket_abandon(struct rqli_socket *self);

/* Waits for bytes, for an event, which is then cleared, or until until_us. */
void rqli_socket_await_bytes_or(const struct rqli_socket *self, int event, int64_t until_us);

/* Returns whether it is time to renew its login. */
static inline bool rqli_socket_wants_login(const struct rqli_socket *self)
{
    return self->renew_us != 0 && rqli_now_us() >= self->renew_us;
}

/* Returns true if bytes have come that are not in the decoder yet; with TLS they may have no
 * text. */
bool rqli_socket_has_bytes(const struct rqli_socket *self);
/* Returns true if neither bytes nor an end have come. No other thread may use the socket. */
bool rqli_socket_is_quiet(struct rqli_socket *self);

enum rqli_socket_read {
    RQLI_SOCKET_BYTES,   /* bytes came and are in the decoder */
    RQLI_SOCKET_NOTHING, /* until_us passed, or a signal */
    RQLI_SOCKET_BROKEN,  /* closed, reset, or more than the decoder takes */
};

/* Waits for bytes until until_us; polls for spin_us before it sleeps. */
enum rqli_socket_read rqli_socket_read(struct rqli_socket *self, int64_t until_us, int64_t spin_us);

#endif
