#ifndef RQLI_DLIST_H
#define RQLI_DLIST_H

#include <stddef.h>

/* A doubly linked list whose links are members of the objects in it. A zeroed list is empty. The
 * list has no lock. */

struct rqli_dlink {
    struct rqli_dlink *next;
    struct rqli_dlink *previous;
};

struct rqli_dlist {
    struct rqli_dlink *first;
    struct rqli_dlink *last;
};

/* Returns the object that has this part as a member. */
#define RQLI_OWNER(part, type, member) ((type *)(void *)((char *)(part)-offsetof(type, member)))

/* Adds the link at the end. */
static inline void rqli_dlist_add(struct rqli_dlist *self, struct rqli_dlink *link)
{
    *link = (struct rqli_dlink){NULL, self->last};
    *(self->last ? &self->last->next : &self->first) = link;
    self->last = link;
}

static inline void rqli_dlist_add_first(struct rqli_dlist *self, struct rqli_dlink *link)
{
    *link = (struct rqli_dlink){self->first, NULL};
    *(self->first ? &self->first->previous : &self->last) = link;
    self->first = link;
}

/* Removes the link, which must be in the list. */
static inline void rqli_dlist_remove(struct rqli_dlist *self, const struct rqli_dlink *link)
{
    if (link->previous) {
        link->previous->next = link->next;
    } else {
        self->first = link->next;
    }
    if (link->next) {
        link->next->previous = link->previous;
    } else {
        self->last = link->previous;
    }
}

/* Removes and returns the first link; NULL: the list is empty. */
static inline struct rqli_dlink *rqli_dlist_take_first(struct rqli_dlist *self)
{
    struct rqli_dlink *link = self->first;

    if (link) {
        self->first = link->next;
        *(link->next ? &link->next->previous : &self->last) = NULL;
    }
    return link;
}

static inline size_t rqli_dlist_length(const struct rqli_dlist *self)
{
    size_t count = 0;

    for (const struct rqli_dlink *link = self->first; link; link = link->next) {
        count++;
    }
    return count;
}

#endif
