#ifndef PROXY_H
#define PROXY_H

/* A bad network between the library and a server, in a thread of the test.
 *
 * Listens on a Unix socket or a port of 127.0.0.1 and forwards to a server's Unix socket. The
 * switches may be used from any thread at any time and are in force when their call returns: for
 * live connections and for later ones, until they are changed or proxy_heal() is called.
 * When the test cannot get a thread or a socket, it is aborted. */

#include <stdbool.h>
#include <stdint.h>

enum proxy_direction {
    PROXY_UP = 1,   /* what the client says */
    PROXY_DOWN = 2, /* what the server says */
    PROXY_BOTH = 3,
};

struct proxy_counts {
    int64_t connections; /* accepted so far */
    int64_t open;        /* of them, still there */
    int64_t up_bytes;    /* handed to the server */
    int64_t down_bytes;  /* handed to clients */
    int64_t replies;     /* and pushes that the proxy began to hand on or dropped */
};

struct proxy;

struct proxy *proxy_start(const char *server_socket_path);
struct proxy *proxy_start_tcp(const char *server_socket_path);
/* At another loopback address, 127.0.0.2 for example, and the port of a cluster's server: whom that
 * tells "where you have asked" in place of an address goes on asking the proxy. */
struct proxy *proxy_start_beside(const char *server_socket_path, const char *host, int port);
struct proxy *proxy_stop(struct proxy *proxy); /* NULL is fine; returns NULL */

const char *proxy_url(const struct proxy *proxy);         /* unix://... or redis://127.0.0.1:... */
const char *proxy_socket_path(const struct proxy *proxy); /* "" for TCP */
int proxy_port(const struct proxy *proxy);                /* 0 for a Unix socket */
struct proxy_counts proxy_counts(struct proxy *proxy);

/* One byte at a time; the next one when the receiver has taken the last. */
void proxy_dribble(struct proxy *proxy, enum proxy_direction direction, bool on);

/* Bytes that arrive from now on are handed over `delay_ms` later. 0: at once. */
void proxy_delay(struct proxy *proxy, enum proxy_direction direction, int64_t delay_ms);

/* Nothing passes, not even an end of connection; what arrives is kept for later. */
void proxy_freeze(struct proxy *proxy, enum proxy_direction direction, bool on);

/* The connection that was made last falls silent for good, in both directions, and stays open;
 * others go on. Only proxy_heal() ends that. */
void proxy_mute_last(struct proxy *proxy);

/* Exactly `bytes` more bytes pass in one direction, over all connections; the connection that
 * carried the last of them is then cut. Once. 0: cut by the next byte. */
void proxy_cut_after(struct proxy *proxy, enum proxy_direction direction, int64_t bytes);

/* The n-th reply (or push) from now, 1 for the next one, is swallowed; what follows passes, so the
 * client is one reply behind from then on. Once. */
void proxy_drop_reply(struct proxy *proxy, int64_t n);

/* Cuts the connection in place of handing on the n-th reply from now. Once. */
void proxy_cut_reply(struct proxy *proxy, int64_t n);

/* Cuts all connections now; new ones are welcome. Bytes that were kept are lost. */
void proxy_cut(struct proxy *proxy);

/* Connecting fails (ECONNREFUSED); live connections stay. */
void proxy_refuse(struct proxy *proxy, bool on);

/* What is said on connections from now on the server hears twice, as from a proxy that tries again:
 * the second time on a connection of the proxy's own, whose replies nobody hears. */
void proxy_repeat(struct proxy *proxy, bool on);

/* All switches off; kept bytes are handed over. */
void proxy_heal(struct proxy *proxy);

#endif
