#ifndef RQLI_SENTINELS_H
#define RQLI_SENTINELS_H

/*
 * The sentinels of a client. They are asked where a master is each time a connection is made. One
 * thread asks for all threads that want to know at the same time, over a connection that stays
 * open. If there are several masters, each is a node of the client's fleet, and all have the same
 * sentinels.
 */

#include "base/futex.h"
#include "net/login/sentinel.h"
#include "net/sock/master.h"
#include "net/sock/site.h"

/* Those of the URL, one that was asked, and those that it names. */
enum { RQLI_SENTINELS_KNOWN_MAX = 2 * RQLI_SENTINELS_MAX + 1 };

struct rqli_sentinels {
    struct rqli_url url;         /* their login; the texts are borrowed */
    struct rqli_session session; /* of the connections to them */
    struct rqli_site site;       /* theirs, with a TLS context of its own */
    size_t n_named;              /* how many the URL names */
    struct rqli_sentinel asked;  /* used by the thread that asks */
    rqli_signal n_answers; /* that came, or did not; a thread that waits for one sleeps on it */
    /* An event: a first or another master was found. The thread that watches masters sleeps on
     * it. */
    int changed_fd;

    struct {
        pthread_mutex_t mutex;
        /* Those of the URL, then others that have answered last or were named then. */
        struct rqli_address known[RQLI_SENTINELS_KNOWN_MAX];
        size_t n_known;
        size_t first;              /* the one that answered last, or is the next */
        int64_t share_us;          /* time for one of them, while another is left to be asked */
        struct rqli_address asked; /* the one that is asked now, or was last */
        bool is_asking;
    } shared; /* shared.mutex guards all members here, and rqli_master::said */

    size_t n_masters;
    struct rqli_master masters[]; /* in the order of the URL */
};

/* Creates the sentinels of a client's first site, which outlives them.
 * NULL: no memory or no descriptor. */
struct rqli_sentinels *rqli_sentinels_new(const struct rqli_site *site);
struct rqli_sentinels *rqli_sentinels_free(struct rqli_sentinels *self);

/* Closes the copies of descriptors in a fork child. Takes no lock. */
void rqli_sentinels_abandon(struct rqli_sentinels *self);

/* Finds where a master that is used is, by an answer that is not older than since_us. Blocks, until
 * deadline_us at most; any thread. The error is that of the last sentinel. */
rql_status rqli_sentinels_find(struct rqli_master *master, int64_t since_us, int64_t deadline_us,
                               struct rqli_master_claim *out, rql_error *error);

/* Called when the server that was found cannot be reached, or is no master: the next sentinel is
 * asked first. Has an effect once for an answer. */
void rqli_sentinels_distrust(struct rqli_master *master, const struct rqli_master_claim *claim);

/* Called when the server that was found has logged this socket in. If the server says that it is
 * the master, connections to any other server end. If it is not, or no longer, the login has
 * failed. */
rql_status rqli_sentinels_confirm(struct rqli_socket *sock, const struct rqli_master_claim *claim,
                                  rql_error *error);

/* Opens a second connection to the sentinel that answered last, which brings news. */
rql_status rqli_sentinels_subscribe(struct rqli_sentinels *self, struct rqli_sentinel *news,
                                    int64_t deadline_us);

#endif
