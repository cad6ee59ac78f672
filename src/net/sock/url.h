#ifndef RQLI_URL_H
#define RQLI_URL_H

/* A parsed URL: where the servers are and how to log in. Constant. */

#include "net/sock/address.h"

#include <rql/status.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    RQLI_SENTINELS_MAX = 16,
    RQLI_MASTERS_MAX = 64,
    RQLI_HOSTS_MAX = RQLI_MASTERS_MAX, /* hosts and masters may be shards */
};

/* How servers belong together. */
enum rqli_arrangement {
    RQLI_SINGLE,
    RQLI_LOCAL, /* a single one, which this user's programs start (net/sock/local.h) */
    RQLI_SENTINEL,
    RQLI_CLUSTER,
    RQLI_SHARDS,
};

struct rqli_url {
    enum rqli_arrangement arrangement;
    struct rqli_address *hosts; /* the server, sentinels, first nodes of a cluster, or shards */
    size_t n_hosts;             /* 0: the server has a path */
    char *path;                 /* of its Unix socket; NULL: TCP */
    char *user;                 /* or NULL */
    char *password;             /* or NULL; a secret, and never in a message */
    int database;
    bool is_tls; /* rediss:// and rediss+...:// */
    char *query; /* with is_tls: options; each key and its value terminated, "" after them */
    char *where; /* for messages: the URL without user, password and query */
    char
        *ring; /* of shards: their list, which each of them stores (net/sock/shards.h); else NULL */

    /* With RQLI_SENTINEL. */
    char **masters; /* names by which the sentinels know them */
    size_t n_masters;
    char *sentinel_user;     /* to log in to the sentinels, or NULL */
    char *sentinel_password; /* likewise; a secret */
    bool sentinel_tls;
};

/* Returns true if each partition has keys of its own, at one of several servers. Several masters
 * are shards. */
static inline bool rqli_url_is_partitioned(const struct rqli_url *self)
{
    return self->arrangement == RQLI_CLUSTER || self->arrangement == RQLI_SHARDS ||
           self->n_masters > 1;
}

/* Parses a URL. RQL_E_INVALID names the part that is wrong, without the password. If the result is
 * not RQL_OK, *out is all zero. */
rql_status rqli_url_parse(struct rqli_url *out, const char *url, rql_error *error);
void rqli_url_fini(struct rqli_url *self);

/* Returns how many shards there are, and the name of each in `names`; the texts may be in
 * `texts`. */
size_t rqli_url_shards(const struct rqli_url *self,
                       char texts[RQLI_HOSTS_MAX][RQLI_ADDRESS_TEXT_SIZE],
                       const char *names[RQLI_HOSTS_MAX]);

#endif
