#ifndef RQLI_SENTINELS_H
#define RQLI_SENTINELS_H

/*
 * The sentinels of a client: who is asked where a master is, each time that a connection is made.
 * One asks for all who want to know of it at the time, over a connection that stays. Of several
 * masters each is a node of the client's fleet, and all have the same sentinels.
 */

#include "base/futex.h"
#include "net/master.h"
#include "net/sentinel.h"
#include "net/url.h"

enum { RQLI_SENTINELS_KNOWN_MAX = 2 * RQLI_SENTINELS_MAX };

struct rqli_sentinels {
    struct rqli_endpoint endpoint; /* how to talk to them; texts and TLS are borrowed */
    size_t n_named;                /* by the URL */
    struct rqli_sentinel asked;    /* of whoever asks */
    rqli_signal n_answers;         /* that came, or did not; who waits for one sleeps on it */
    int changed_fd; /* an eventfd: a master is known, or another; who watches sleeps on it */

    struct {
        pthread_mutex_t mutex;
        struct rqli_address known[RQLI_SENTINELS_KNOWN_MAX]; /* the URL's, then what these say */
        size_t n_known;
        size_t first;     /* that answered last, or whose turn it is */
        int64_t share_us; /* for one of them, while others could be asked */
        bool is_asking;
    } shared; /* everything in here under shared.mutex; rqli_master::said too */

    size_t n_masters;
    struct rqli_master masters[]; /* in the order of the URL */
};

/* endpoint: of RQLI_SENTINEL, with TLS as it will be, and it outlives them. NULL: no memory or no
 * descriptor. */
struct rqli_sentinels *rqli_sentinels_new(const struct rqli_endpoint *endpoint);
struct rqli_sentinels *rqli_sentinels_free(struct rqli_sentinels *self);

/* In a fork child: closes the copies of descriptors, and takes no lock. */
void rqli_sentinels_abandon(struct rqli_sentinels *self);

/* Where a master that is used is, by an answer that is not older than since_us. Blocks, until
 * deadline_us at most; any thread. The fault names the last sentinel's. */
rql_status rqli_sentinels_find(struct rqli_master *master, int64_t since_us, int64_t deadline_us,
                               struct rqli_master_claim *out, rql_error *error);

/* Who was found cannot be had, or is no master: the next sentinel is asked first. Once for an
 * answer. */
void rqli_sentinels_distrust(struct rqli_master *master, const struct rqli_master_claim *claim);

/* Who was found has logged this socket in. If it is the master by its own word connections to
 * another end; if it is not, or no more, the login has failed. */
rql_status rqli_sentinels_confirm(struct rqli_socket *sock, const struct rqli_master_claim *claim,
                                  rql_error *error);

/* Opens a second connection to the sentinel that answered last, which brings news. */
rql_status rqli_sentinels_subscribe(struct rqli_sentinels *self, struct rqli_sentinel *news,
                                    int64_t deadline_us);

#endif
