#ifndef RQLI_HOSTS_H
#define RQLI_HOSTS_H

/* Keeps which threads of a client are hosts of the swarm, and what the server knows of them. A
 * thread is added at its first use of the client and leaves when it has ended and holds nothing.
 * With partitions a thread is a host only in those in which it holds a lock or asks for one, and no
 * longer than that. */

#include "wire/keys.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How much the server knows of a host. */
enum rqli_host_state {
    RQLI_HOST_NEW,   /* nothing */
    RQLI_HOST_SENT,  /* it was sent, but the result is not known */
    RQLI_HOST_KNOWN, /* the server has confirmed it */
};

struct rqli_host {
    uint64_t thread;
    unsigned n_handles; /* of locks that it asks for or holds; counted in partitions alone */
    enum rqli_host_state state;
    unsigned char set;   /* of keys, where it is a host */
    unsigned char share; /* its part of the plan that is being made (hosts.c) */
    bool holds;          /* holds a lock; set again before each plan */
    bool was_met;        /* used since the last plan: it may be a host again */
};

struct rqli_hosts {
    atomic_bool is_open;           /* threads may be added */
    _Atomic int64_t zombie_ttl_ms; /* of the swarm that runs, or ran last */

    struct {
        pthread_mutex_t mutex;
        struct rqli_host *item; /* sorted by set of keys and thread */
        size_t count;
        size_t capacity;
        void (*on_new)(void *context); /* or NULL; takes no lock */
        void *context;
    } shared; /* everything in here under shared.mutex */

    atomic_bool is_probing;            /* from a plan to its end; only one probe at the same time */
    _Atomic int64_t reserved_until_us; /* the swarm waits for its probe: none by hand begins */
};

/* The hosts of a plan in one set of keys. Their threads are in the order new, known, leaving. */
struct rqli_hosts_group {
    const struct rqli_key_set *set;
    size_t first; /* index into the threads of the plan */
    size_t n_new;
    size_t n_known;
    size_t n_leaving;
    size_t n_retried; /* of the new ones: the server may have known them and declared them dead */
    bool tells_all;   /* the plan has every host that the server knows there */
};

/* The contents of a probe. */
struct rqli_hosts_plan {
    uint64_t *threads;
    struct rqli_hosts_group *groups;
    size_t n_groups;
};

enum rqli_hosts_who {
    RQLI_HOSTS_ALL,     /* hosts that live or hold stay; in a partition, hosts that ask or hold */
    RQLI_HOSTS_NEW,     /* only hosts that the server does not know yet */
    RQLI_HOSTS_HOLDERS, /* only a host that holds a lock stays */
    RQLI_HOSTS_NONE,    /* all leave */
};

/* Creates the table of the hosts of one client: its threads. NULL: out of memory. */
struct rqli_hosts *rqli_hosts_new(void);
struct rqli_hosts *rqli_hosts_free(struct rqli_hosts *self); /* NULL is fine */

/* Any thread. Makes this thread a host, if a swarm runs, because it is about to ask for a lock of
 * this set. True: it counts until rqli_hosts_let_go(). */
bool rqli_hosts_meet(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread);
void rqli_hosts_let_go(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread);

/* Any thread. True: the server does not know this host, so a lock that it asks for in this
 * partition could outlive it by more than zombie_ttl_ms. The caller has to introduce it. */
bool rqli_hosts_must_tell(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread,
                          int64_t ttl_ms);
void rqli_hosts_on_told(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread);

/* Lets threads be added. on_new is called when a new host has to be reported to the server. */
void rqli_hosts_open(struct rqli_hosts *self, int64_t zombie_ttl_ms, void (*on_new)(void *context),
                     void *context);
void rqli_hosts_close(struct rqli_hosts *self);

/* Adds a host, even if the table is not open. */
void rqli_hosts_add(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread,
                    bool holds);

/* Makes a plan. False: out of memory. `lives` says whether a thread still exists. */
bool rqli_hosts_plan(struct rqli_hosts *self, enum rqli_hosts_who who,
                     bool (*lives)(uint64_t thread), struct rqli_hosts_plan *out);
void rqli_hosts_plan_fini_p(struct rqli_hosts_plan *plan);

static inline size_t rqli_hosts_group_stays(const struct rqli_hosts_group *group)
{
    return group->n_new + group->n_known;
}

static inline size_t rqli_hosts_group_size(const struct rqli_hosts_group *group)
{
    return rqli_hosts_group_stays(group) + group->n_leaving;
}

/* Applies a group of the plan that the server has confirmed. */
void rqli_hosts_apply(struct rqli_hosts *self, const struct rqli_hosts_plan *plan,
                      const struct rqli_hosts_group *group);

/* Returns whether the server may know any host in this set. */
bool rqli_hosts_are_told(struct rqli_hosts *self, const struct rqli_key_set *set);

/* Returns how many threads the server knows, in whatever set. */
size_t rqli_hosts_known(struct rqli_hosts *self);

#endif
