#ifndef RQLI_RING_H
#define RQLI_RING_H

/* A list that ends where it begins. Part of what is in it; no lock. */
struct rqli_ring {
    struct rqli_ring *next;
    struct rqli_ring *previous;
};

static inline void rqli_ring_init(struct rqli_ring *self)
{
    *self = (struct rqli_ring){self, self};
}

static inline void rqli_ring_add(struct rqli_ring *self, struct rqli_ring *item)
{
    *item = (struct rqli_ring){self->next, self};
    self->next->previous = item;
    self->next = item;
}

static inline void rqli_ring_remove(const struct rqli_ring *item)
{
    item->previous->next = item->next;
    item->next->previous = item->previous;
}

#endif
