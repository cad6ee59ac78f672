#ifndef RQLI_URL_H
#define RQLI_URL_H

/* A parsed URL: where the server is and how to log in. Constant as soon as it has its TLS, except
 * for `carried`. */

#include "base/text.h"
#include "net/address.h"
#include "net/session.h"
#include "net/tls.h"
#include "wire/partition.h"

#include <rql/options.h>
#include <rql/status.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The part of a URL about sentinels, and about the masters that they watch. */

enum { RQLI_SENTINELS_MAX = 16, RQLI_MASTERS_MAX = 64 };

#define RQLI_SENTINEL_FORM "redis+sentinel://host:port,host:port/master"

struct rqli_by_sentinels {
    char **masters; /* names by which the sentinels know them */
    size_t n_masters;
    char *user;     /* to log in to the sentinels, or NULL */
    char *password; /* likewise; wiped when freed */
    bool is_tls;
};

struct rqli_master;

enum rqli_endpoint_kind { RQLI_ENDPOINT_TCP, RQLI_ENDPOINT_UNIX, RQLI_ENDPOINT_LOCAL };

/* How servers belong together. */
enum rqli_arrangement { RQLI_SINGLE, RQLI_SENTINEL, RQLI_CLUSTER, RQLI_SHARDS };

enum { RQLI_HOSTS_MAX = RQLI_MASTERS_MAX }; /* hosts and masters may be shards */

struct rqli_endpoint {
    enum rqli_endpoint_kind kind;
    enum rqli_arrangement arrangement;
    struct rqli_address address; /* TCP, of a single server */
    struct rqli_address *hosts;  /* sentinels, first nodes of a cluster, shards; or NULL */
    size_t n_hosts;
    char *ring; /* of shards: their list, which each of them stores (net/shards.h) */
    struct rqli_by_sentinels by_sentinels;
    char *path;     /* UNIX: socket path; LOCAL: socket path of the private server */
    char *user;     /* or NULL */
    char *password; /* or NULL; a secret, and never in a message */
    char *where;    /* for messages: the URL without user, password and query */
    bool is_tls;    /* rediss:// and rediss+...:// */
    char *query;    /* with is_tls: options; each key and its value terminated, "" after them */
    struct rqli_tls_settings tls_settings; /* from the options: rqli_endpoint_use_tls() */
    int database;
    const struct rqli_session *session; /* of the client; borrowed */
    struct rqli_master *master;         /* of RQLI_SENTINEL: finds where it is; borrowed */
    struct rqli_tls_context *tls;       /* with is_tls */
    /* Last member, and not constant: a bit for each partition that the server has. */
    _Atomic uint64_t carried[RQLI_PARTITIONS / 64];
};

static inline bool rqli_endpoint_carries(const struct rqli_endpoint *self, unsigned partition)
{
    return (self->carried[partition / 64] >> partition % 64 & 1) != 0;
}

/* Returns true if each partition has keys of its own, at one of several servers. Several masters
 * are shards. */
static inline bool rqli_endpoint_is_partitioned(const struct rqli_endpoint *self)
{
    return self->arrangement == RQLI_CLUSTER || self->arrangement == RQLI_SHARDS ||
           self->by_sentinels.n_masters > 1;
}

/* Records that the server has the partition from now on, or that another one has it. Any thread. */
static inline void rqli_endpoint_carry(struct rqli_endpoint *self, unsigned partition, bool has_it)
{
    uint64_t bit = UINT64_C(1) << partition % 64;

    if (has_it) {
        (void)atomic_fetch_or(&self->carried[partition / 64], bit);
    } else {
        (void)atomic_fetch_and(&self->carried[partition / 64], ~bit);
    }
}

/* Returns the longest pause between two attempts to connect; the pause is random, below it.
 * Sentinels, or a cluster's map, can name the new master from one moment to the next. */
static inline int64_t rqli_endpoint_pause_ms(const struct rqli_endpoint *self)
{
    return self->arrangement == RQLI_SENTINEL || self->arrangement == RQLI_CLUSTER ? 200 : 2000;
}

/* Parses a URL. Fills everything that the URL says; the caller has set the session. *out is
 * otherwise untouched on failure. RQL_E_INVALID names the part that is wrong,
 * without the password. */
rql_status rqli_url_parse(struct rqli_endpoint *out, const char *url, rql_error *error);

/* Creates the context of a rediss:// endpoint. The options include those of the query; their texts
 * outlive the endpoint. RQL_E_INVALID, RQL_E_UNSUPPORTED or RQL_E_NOMEM. */
rql_status rqli_endpoint_use_tls(struct rqli_endpoint *self, const rql_options *options,
                                 rql_error *error);
void rqli_endpoint_fini(struct rqli_endpoint *self);

/* Makes messages call the server by its address alone, or by its master's name and the sentinels.
 * False: no memory. */
bool rqli_endpoint_name_at(struct rqli_endpoint *self);

/* Makes the endpoint of a server at this address, with all else as in another endpoint, which
 * outlives it. It has its own TLS context, because the name and the session are its own. Statuses
 * as above. */
rql_status rqli_endpoint_init_at(struct rqli_endpoint *self, const struct rqli_endpoint *other,
                                 const struct rqli_address *address, rql_error *error);
/* Does the same for this master, wherever it is, and marks the master as used. */
rql_status rqli_endpoint_init_of(struct rqli_endpoint *self, const struct rqli_endpoint *other,
                                 struct rqli_master *master, rql_error *error);
void rqli_endpoint_fini_at(struct rqli_endpoint *self); /* may be all zero */

#endif
