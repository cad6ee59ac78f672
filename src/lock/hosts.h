#ifndef RQLI_HOSTS_H
#define RQLI_HOSTS_H

/* Which threads of a client are hosts of the swarm, and what the server knows of them. A thread
 * comes in at its first use of the client and goes out when it has ended and holds nothing. */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct rqli_host {
    pid_t thread;
    bool is_known; /* the server has it */
    bool holds;    /* a lock; said anew before each plan */
    bool was_sent; /* perhaps: a plan had it, and nobody knows what became of that */
    bool was_met;  /* since the last plan: the number may have gone to a new thread */
};

struct rqli_hosts {
    atomic_bool is_open; /* threads may come in */

    struct {
        pthread_mutex_t mutex;
        struct rqli_host *item; /* sorted by thread */
        size_t count;
        size_t capacity;
        void (*on_new)(void *context); /* or NULL; takes no lock */
        void *context;
    } shared; /* everything in here under shared.mutex */

    atomic_bool is_probing; /* from a plan to its end: one at a time */
};

/* What a probe reports: threads in the order new, known, leaving. */
struct rqli_hosts_plan {
    pid_t *threads;
    size_t n_new;
    size_t n_known;
    size_t n_retried; /* of the new ones: the server may have known them, and declared them dead */
    size_t n_leaving;
};

enum rqli_hosts_who {
    RQLI_HOSTS_ALL,     /* who lives or holds stays */
    RQLI_HOSTS_NEW,     /* only those that the server does not know yet */
    RQLI_HOSTS_HOLDERS, /* only who holds stays */
    RQLI_HOSTS_NONE,    /* all leave */
};

/* The hosts of one client: its threads. NULL: out of memory. */
struct rqli_hosts *rqli_hosts_new(void);
struct rqli_hosts *rqli_hosts_free(struct rqli_hosts *self); /* NULL is fine */

/* Any thread. This thread uses the client: a host from now on, if a swarm runs. */
void rqli_hosts_meet(struct rqli_hosts *self, pid_t thread);

/* Lets threads in, and has on_new called for each. */
void rqli_hosts_open(struct rqli_hosts *self, void (*on_new)(void *context), void *context);
void rqli_hosts_close(struct rqli_hosts *self);

/* Open or not. */
void rqli_hosts_add(struct rqli_hosts *self, pid_t thread, bool holds);

/* False: out of memory. `lives` says whether a thread is still there. */
bool rqli_hosts_plan(struct rqli_hosts *self, enum rqli_hosts_who who, bool (*lives)(pid_t thread),
                     struct rqli_hosts_plan *out);
void rqli_hosts_plan_fini_p(struct rqli_hosts_plan *plan);

/* The server knows. */
void rqli_hosts_apply(struct rqli_hosts *self, const struct rqli_hosts_plan *plan);

size_t rqli_hosts_known(struct rqli_hosts *self);
size_t rqli_hosts_count(struct rqli_hosts *self);

#endif
