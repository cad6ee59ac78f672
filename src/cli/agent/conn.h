#ifndef AGENT_CONN_H
#define AGENT_CONN_H

/* A connection: reads requests, one after the other, and sends replies. */

#include "reply.h"
#include "state.h"

#include <sys/types.h>

enum {
    AGENT_LABEL_SIZE = 64,
    AGENT_PROGRAM_SIZE = 32, /* more than the kernel's 16 */
    AGENT_HOLDER_SIZE = AGENT_LABEL_SIZE + AGENT_PROGRAM_SIZE + 32
};

enum agent_conn_phase {
    AGENT_CONN_OPEN,   /* the next request may run */
    AGENT_CONN_BUSY,   /* a request is under way; those behind it wait */
    AGENT_CONN_ENDING, /* it is closed when all replies are sent */
    AGENT_CONN_CLOSED
};

struct agent_conn {
    uv_poll_t poll; /* of fd; first */
    struct agent *agent;
    struct agent_conn *next;
    struct agent_conn **at;
    int fd;
    int events; /* that poll waits for */
    enum agent_conn_phase phase;
    uint64_t id;
    uid_t uid;
    pid_t pid;                     /* of the process that sent the last bytes; 0: not known */
    struct agent_process *process; /* that process, if it has asked for a lock; or NULL */
    struct agent_task *task;
    struct agent_hold *holds;   /* what it holds or waits for */
    int64_t last_series;        /* the id of the last series that it asked for */
    struct agent_conn **caller; /* BUSY: where a call has this connection, if it is not a hold; it
                                   is set to NULL when the connection is closed */
    bool is_resp3;
    bool is_known;    /* it has sent the password, or needs none */
    bool inherits;    /* holds outlive the process that asked for them */
    bool is_in_multi; /* MULTI was refused, and what is behind it is, up to EXEC or DISCARD */
    char label[AGENT_LABEL_SIZE];
    char program[AGENT_PROGRAM_SIZE]; /* of program_pid; "": not known */
    pid_t program_pid;
    char *in; /* bytes of requests that are not handled yet; NULL: none */
    size_t in_size;
    bool other_waits; /* bytes of another process are left in the socket for now */
    struct agent_reply out;
};

/* Takes a connection that was accepted. Closes the descriptor if it cannot. */
void agent_conn_accept(struct agent *agent, int fd);
void agent_conn_close(struct agent_conn *self, enum agent_end end);

/* Ends the request that is under way, whose reply was written, and runs those behind it. */
void agent_conn_go_on(struct agent_conn *self);

/* Sends what was written. */
void agent_conn_flush(struct agent_conn *self);

/* Watches the process that sent the last bytes. *out has a reference; NULL: it is not watched. */
enum agent_watch agent_conn_watch(struct agent_conn *self, struct agent_process **out);

/* Describes who sent the last bytes, as in "worker[814] label". */
void agent_conn_describe(struct agent_conn *self, char out[AGENT_HOLDER_SIZE]);

#endif
