#ifndef RQLI_LINKS_H
#define RQLI_LINKS_H

/*
 * The command connections of the callers of one client.
 *
 * So few callers that each can have a connection have one each: the server then answers one while
 * it serves the next, and nobody is woken for another's answer. More callers share the first, where
 * what they say goes out together. The others are a gain, never a need: they are opened when they
 * would be of use, in a moment or not at all, and one that was idle for long is opened anew, for a
 * server or a firewall may have closed it (F-70, F-77).
 */

#include "link/link.h"

#include <stdatomic.h>

enum { RQLI_LINKS = 4 };

struct rqli_links {
    struct rqli_link *link[RQLI_LINKS];    /* the first is that of all who do not choose */
    _Atomic int64_t chosen_us[RQLI_LINKS]; /* when it was last, 0: not yet */
    _Atomic int64_t none_before_us;        /* others would be no gain */
};

/* endpoint is borrowed and must outlive them. False: out of memory; free what there is. */
bool rqli_links_init(struct rqli_links *self, const struct rqli_endpoint *endpoint);
void rqli_links_fini(struct rqli_links *self);

/* The one to be used now, connected if it is not the first. Who may have to take back what it sends
 * takes it back on the same one: there order does the rest (protocol.md 17). Any thread. */
struct rqli_link *rqli_links_choose(struct rqli_links *self);

/* As of one link: the sum, and what to do in a fork child. */
struct rqli_link_counts rqli_links_counts(const struct rqli_links *self);
void rqli_links_abandon(const struct rqli_links *self);

#endif
