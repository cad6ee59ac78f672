#ifndef CLI_LISTEN_H
#define CLI_LISTEN_H

/* A socket that listens: in the file system, or TCP for clients that cannot reach a file. */

#include <stdbool.h>
#include <sys/types.h>

enum { CLI_SOCKET_PATH_SIZE = 108 /* sun_path of sockaddr_un */ };

enum cli_socket_kind {
    CLI_SOCKET_OWN,    /* a Unix socket that this program has made */
    CLI_SOCKET_PASSED, /* one that others keep after the end */
    CLI_SOCKET_TCP,    /* the peers are not known */
};

/* A socket that listens. A path is locked by a file beside it, so that no other program replaces
 * it. Both files are removed at the end. */
struct cli_socket {
    enum cli_socket_kind kind;
    char path[CLI_SOCKET_PATH_SIZE]; /* or an address */
    int fd;                          /* -1: none */
    int lock_fd;                     /* -1: none */
    dev_t device; /* of the file, and its number: only that file is removed at the end */
    ino_t inode;
};

/* Listens at this path: for this user, or for root's group rql, if there is one. Replaces a socket
 * at which no program listens. Returns false after a message on stderr; then nothing is open. */
bool cli_socket_open(struct cli_socket *self, const char *path);

/* Returns whether this is an address rather than a path. */
bool cli_is_address(const char *text);

enum cli_address_kind {
    CLI_ADDRESS_BAD,      /* no number of a host with a port */
    CLI_ADDRESS_LOOPBACK, /* no other machine reaches it */
    CLI_ADDRESS_OPEN,
};

enum cli_address_kind cli_address_kind(const char *text);

/* Listens at an address such as 127.0.0.1:PORT or [::1]:PORT; returns as cli_socket_open(). */
bool cli_socket_open_tcp(struct cli_socket *self, const char *address);

/* Takes a Unix socket that listens already, and that others keep after the end. Returns false after
 * a message on stderr if it is no such socket. */
bool cli_socket_adopt(struct cli_socket *self, int fd);

void cli_socket_close(struct cli_socket *self);

#endif
