#ifndef CLI_HELD_H
#define CLI_HELD_H

/* The lock or the series of locks that a command runs under; how it is waited for and acquired. */

#include "agent_lock.h"
#include "cmd.h"
#include "trace.h"

#include <rql/share.h>
#include <signal.h>
#include <stdatomic.h>

/* The request of rql_host_drain() to release a lock early. Another thread fills it in. */
struct cli_asked {
    int fd;                   /* an event, readable once it was asked for */
    _Atomic int64_t until_ms; /* the cli_now_ms() until which the host is to hold nothing */
};

struct cli_held {
    const char *label;  /* the name or names, for messages; borrowed */
    rql_lock *lock;     /* one of these three, owned */
    rql_series *series; /* */
    struct cli_agent_lock *agent_lock;
    sigset_t mask;           /* the signal mask from before the wait, for the command */
    rql_client *client;      /* borrowed */
    struct cli_asked *asked; /* borrowed: it makes way when it is asked; or NULL */
    struct cli_trace trace;
    bool is_quiet;   /* a refusal is not reported */
    bool is_refused; /* out: the locks were not acquired, and there was no fault */
    bool is_missed;  /* out: they were granted, and could not be claimed in time */
    bool is_cut_off; /* out: the command was to end, because its locks were lost or asked for */
    bool frees;      /* its release keeps nothing: the command has not run */
    int signal;      /* out: the signal that came to end this program, or 0 */
};

/* Acquires the lock or the series that the arguments name, as the flags say. If it is acquired, it
 * is in *held, and the signals that end a wait stay blocked. Otherwise returns the exit code, after
 * a line on stderr; or, without a line, minus the signal that ended the wait and is to end the
 * program.
 *
 * SIGINT, SIGTERM and SIGHUP take the request out of its queue; a second one ends the program at
 * once. If an error keeps the server from serving the request, it is reported on stderr once, and
 * again when it changes. */
int cli_acquire(struct cli_session *session, struct cli_held *held);

/* Acquires the lock from the agent that the arguments name. If it is acquired, it is in *held.
 * Otherwise returns the exit code after a line on stderr. In both, the wait is traced. */
int cli_acquire_from_agent(const struct cli_args *args, struct cli_held *held);

size_t cli_held_count(const struct cli_held *self);
const rql_lock *cli_held_lock(const struct cli_held *self, size_t index); /* not of an agent */
const char *cli_held_name(const struct cli_held *self, size_t index);
int64_t cli_held_token(const struct cli_held *self, size_t index);
const int *cli_held_slots(const struct cli_held *self, size_t *count); /* NULL: it has none */
char *cli_join_slots(const int *slots, size_t count); /* "0,3", malloc'd; or NULL for NULL */
int64_t cli_held_ttl_ms(const struct cli_held *self); /* the shortest ttl of its locks */

rql_lock_state cli_held_state(const struct cli_held *self);
int64_t cli_held_remaining_ms(const struct cli_held *self);

/* Returns whether the lock is no longer renewed, although it is still held. */
bool cli_held_is_cut(const struct cli_held *self);

/* Gets a descriptor that becomes readable when a lock is lost. */
rql_status cli_held_lost_fd(const struct cli_held *self, int *out, rql_error *error);

/* Returns the cli_now_ms() at which to look at the state again, at the latest. */
int64_t cli_held_next_ms(const struct cli_held *self);

/* Releases the lock or series. Must be called once. */
rql_status cli_held_release(struct cli_held *self, rql_error *error);

/* Blocks no signal any more that cli_acquire() has blocked. */
void cli_held_unblock(const struct cli_held *self);

/* Runs the command of the arguments while this is held, and releases it. Returns the exit code; or
 * minus the signal that was sent to this program, has ended the command, and is to end the program,
 * too. */
int cli_run_held(const struct cli_args *args, struct cli_held *held);

#endif
