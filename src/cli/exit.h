#ifndef CLI_EXIT_H
#define CLI_EXIT_H

/* How the program ends, and how it frees resources at the end of a scope. */

#include <rql/admin.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Exit codes. They are part of the interface: `rql --help` lists them. */
enum cli_exit {
    CLI_DONE = 0,
    CLI_REFUSED = 1,       /* not acquired, not held, no such lock */
    CLI_USAGE = 64,        /* sysexits: EX_USAGE */
    CLI_FAULT = 69,        /* EX_UNAVAILABLE: no server, no rights, no memory */
    CLI_CANNOT_WRITE = 74, /* EX_IOERR */
    CLI_LOST = 75,         /* EX_TEMPFAIL: the lock was lost while the command ran */
    CLI_CANNOT_RUN = 126,  /* as the shell does */
    CLI_NO_COMMAND = 127,
    CLI_SIGNALLED = 128, /* plus the signal that ended the command */
};

/* Reports that there is no memory and ends the program. A command that it runs dies with it. */
_Noreturn void cli_die_nomem(void);

/* Returns the result of an allocation. Ends the program if it is NULL. */
void *cli_must(void *memory);

/* ---- scope-bound release of resources of the library and the system ---- */

#define CLI_AUTO(free_fn) __attribute__((cleanup(free_fn##_p)))

#define CLI_DEFINE_AUTO(type, free_fn)                                                             \
    static inline void free_fn##_p(type *slot)                                                     \
    {                                                                                              \
        if (*slot) {                                                                               \
            (void)free_fn(*slot);                                                                  \
        }                                                                                          \
    }                                                                                              \
    struct cli_require_semicolon

CLI_DEFINE_AUTO(rql_client *, rql_client_free);
CLI_DEFINE_AUTO(rql_lock *, rql_lock_forget);
CLI_DEFINE_AUTO(rql_swarm *, rql_swarm_free);

/* For CLI_AUTO(rql_free). */
static inline void rql_free_p(void *slot)
{
    void *result;

    memcpy(&result, slot, sizeof result);
    (void)rql_free(result);
}

static inline void cli_free_p(void *slot)
{
    void **p = slot;

    free(*p);
}

static inline void cli_close_p(const int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
    }
}

#endif
