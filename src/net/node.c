#include "net/node.h"

#include "net/master.h"
#include "net/subscription.h"

#include <stdio.h>

bool rqli_node_init(struct rqli_node *self, unsigned connections)
{
    bool has_conns = rqli_conns_init(&self->conns, &self->endpoint, connections);

    (void)pthread_mutex_init(&self->shared.mutex, NULL);
    self->background = rqli_conn_new(&self->endpoint);
    self->pushes = rqli_push_threads_new(&self->endpoint);
    return has_conns && self->background && self->pushes;
}

void rqli_node_fini(struct rqli_node *self)
{
    rqli_push_threads_free(self->pushes);
    self->background = rqli_conn_free(self->background);
    rqli_conns_fini(&self->conns);
    (void)pthread_mutex_destroy(&self->shared.mutex);
}

/* One that is longer than any host's is cut off here. */
void rqli_node_name(struct rqli_node *self)
{
    if (self->endpoint.master) {
        (void)snprintf(self->name, sizeof self->name, "%s", self->endpoint.master->name);
    } else {
        (void)rqli_address_print(&self->endpoint.address, self->name);
    }
}

void rqli_node_abandon(struct rqli_node *self)
{
    rqli_conns_abandon(&self->conns);
    rqli_conn_abandon(self->background);
    rqli_push_threads_abandon(self->pushes);
}

/* All of them are asked: each that has ended is closed by that. */
bool rqli_node_sees_end(struct rqli_node *self)
{
    bool has_ended = rqli_conn_end_if_ended(self->background);

    return rqli_conns_see_end(&self->conns) || has_ended;
}

void rqli_node_end_unused(struct rqli_node *self, int64_t unused_us)
{
    rqli_conns_end_unused(&self->conns, unused_us);
    rqli_conn_end_if_unused(self->background, unused_us);
    if (!rqli_conn_is_up(self->conns.each[0])) {
        rqli_push_threads_end_if_unused(self->pushes);
    }
}
