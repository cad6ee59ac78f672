#ifndef RQLI_HOSTS_H
#define RQLI_HOSTS_H

/* Which threads of a client are hosts of the swarm, and what the server knows of them. A thread
 * comes in at its first use of the client and goes out when it has ended and holds nothing. Where
 * there are partitions it is a host in those in which it holds a lock or asks for one, and no
 * longer than that. */

#include "wire/keys.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rqli_host {
    uint64_t thread;
    unsigned n_handles; /* of locks that it asks for or holds; counted in partitions alone */
    unsigned char set;  /* of keys, where it is a host */
    bool is_known;      /* the server has it */
    bool holds;         /* a lock; said anew before each plan */
    bool was_sent;      /* perhaps: it was told, and nobody knows what became of that */
    bool was_met;       /* since the last plan: it may be a host once more */
};

struct rqli_hosts {
    atomic_bool is_open;           /* threads may come in */
    _Atomic int64_t zombie_ttl_ms; /* of the swarm that runs, or ran last */

    struct {
        pthread_mutex_t mutex;
        struct rqli_host *item; /* sorted by set of keys and thread */
        size_t count;
        size_t capacity;
        void (*on_new)(void *context); /* or NULL; takes no lock */
        void *context;
    } shared; /* everything in here under shared.mutex */

    atomic_bool is_probing; /* from a plan to its end: one at a time */
};

/* Of a plan: the hosts in one set of keys. Threads in the order new, known, leaving. */
struct rqli_hosts_group {
    const struct rqli_key_set *set;
    size_t first; /* of the threads of the plan */
    size_t n_new;
    size_t n_known;
    size_t n_leaving;
    size_t n_retried; /* of the new ones: the server may have known them, and declared them dead */
    bool tells_all;   /* nobody whom the server knows there is left out */
};

/* What a probe reports. */
struct rqli_hosts_plan {
    uint64_t *threads;
    struct rqli_hosts_group *groups;
    size_t n_groups;
};

enum rqli_hosts_who {
    RQLI_HOSTS_ALL,     /* who lives or holds stays; in a partition, who asks or holds */
    RQLI_HOSTS_NEW,     /* only those that the server does not know yet */
    RQLI_HOSTS_HOLDERS, /* only who holds stays */
    RQLI_HOSTS_NONE,    /* all leave */
};

/* The hosts of one client: its threads. NULL: out of memory. */
struct rqli_hosts *rqli_hosts_new(void);
struct rqli_hosts *rqli_hosts_free(struct rqli_hosts *self); /* NULL is fine */

/* Any thread. This thread is about to ask for a lock of this set: a host from now on, if a swarm
 * runs. True: until rqli_hosts_let_go(). */
bool rqli_hosts_meet(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread);
void rqli_hosts_let_go(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread);

/* Any thread. True: what it asks for in this partition may outlive it by more than a zombie,
 * because the server does not know this host; it is to be told. */
bool rqli_hosts_must_tell(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread,
                          int64_t ttl_ms);
void rqli_hosts_on_told(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread);

/* Lets threads in, and has on_new called when the server is to be told of one. */
void rqli_hosts_open(struct rqli_hosts *self, int64_t zombie_ttl_ms, void (*on_new)(void *context),
                     void *context);
void rqli_hosts_close(struct rqli_hosts *self);

/* Open or not. */
void rqli_hosts_add(struct rqli_hosts *self, const struct rqli_key_set *set, uint64_t thread,
                    bool holds);

/* False: out of memory. `lives` says whether a thread is still there. */
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

/* The server knows. */
void rqli_hosts_apply(struct rqli_hosts *self, const struct rqli_hosts_plan *plan,
                      const struct rqli_hosts_group *group);

/* May the server know of any host in this set? */
bool rqli_hosts_are_told(struct rqli_hosts *self, const struct rqli_key_set *set);

/* How many threads are known to the server, wherever they are. */
size_t rqli_hosts_known(struct rqli_hosts *self);

#endif
