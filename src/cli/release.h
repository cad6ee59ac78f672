#ifndef CLI_RELEASE_H
#define CLI_RELEASE_H

/* Scope-bound release of what the program gets from the library and the system. */

#include <rql/rql.h>
#include <stdlib.h>
#include <unistd.h>

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
CLI_DEFINE_AUTO(rql_text_list *, rql_text_list_free);
CLI_DEFINE_AUTO(rql_lock_info *, rql_lock_info_free);
CLI_DEFINE_AUTO(rql_queue_info *, rql_queue_info_free);
CLI_DEFINE_AUTO(rql_lock_info_list *, rql_lock_info_list_free);
CLI_DEFINE_AUTO(rql_host_info_list *, rql_host_info_list_free);
CLI_DEFINE_AUTO(rql_zombies *, rql_zombies_free);
CLI_DEFINE_AUTO(rql_swarm *, rql_swarm_free);
CLI_DEFINE_AUTO(rql_queue_info_list *, rql_queue_info_list_free);

static inline void rql_refusal_clear_p(rql_refusal *refusal)
{
    rql_refusal_clear(refusal);
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
