#ifndef AGENT_LISTEN_H
#define AGENT_LISTEN_H

/* The socket of the agent: in the file system, or TCP for clients that cannot reach a file. */

#include <stdbool.h>
#include <sys/types.h>

enum { AGENT_PATH_SIZE = 108 /* sun_path of sockaddr_un */ };

enum agent_socket_kind {
    AGENT_SOCKET_OWN,    /* a Unix socket that this agent has made */
    AGENT_SOCKET_PASSED, /* one that others keep after the end */
    AGENT_SOCKET_TCP,    /* the peers are not known */
};

/* A socket that listens. A path is locked by a file beside it, so that no other agent replaces it.
 */
struct agent_socket {
    enum agent_socket_kind kind;
    char path[AGENT_PATH_SIZE]; /* or an address */
    int fd;                     /* -1: none */
    int lock_fd;                /* -1: none */
    dev_t device; /* of the file, and its number: only that file is removed at the end */
    ino_t inode;
};

/* Writes the path at which agents of this user listen: /run/rql/agent.sock for root, otherwise
 * agent.sock in the folder of local:. Returns false after a message on stderr. */
bool agent_default_path(char out[AGENT_PATH_SIZE]);

/* The same, and makes the folder if it is missing. */
bool agent_make_default_path(char out[AGENT_PATH_SIZE]);

/* Listens at this path: for this user, or for root's group rql, if there is one. Replaces a socket
 * at which no program listens. Returns false after a message on stderr; then nothing is open. */
bool agent_socket_open(struct agent_socket *self, const char *path);

/* Returns whether this is an address rather than a path. */
bool agent_is_address(const char *text);

/* Listens at 127.0.0.1:PORT or [::1]:PORT; returns as agent_socket_open(). */
bool agent_socket_open_tcp(struct agent_socket *self, const char *address);

/* Takes a Unix socket that listens already, and that others keep after the end. Returns false after
 * a message on stderr if it is no such socket. */
bool agent_socket_adopt(struct agent_socket *self, int fd);

/* Has the kernel tell with all bytes which process has sent them. A socket that listens needs it
 * for the first bytes of a connection, and the accepted one for all others: it inherits it only if
 * it was set before the client connected. */
bool agent_pass_senders(int fd);

void agent_socket_close(struct agent_socket *self);

#endif
