#include "lock/waiting.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

struct rqli_group {
    struct rqli_slice lock_key; /* of the first guest */
    struct rqli_guest *first;   /* the oldest */
    struct rqli_guest *last;
    struct rqli_group *next;
    struct rqli_group *previous;
};

static int order_slices(struct rqli_slice a, struct rqli_slice b)
{
    if (a.length != b.length) {
        return a.length < b.length ? -1 : 1;
    }
    return memcmp(a.data, b.data, a.length);
}

static int order_groups(const void *left, const void *right)
{
    const struct rqli_group *a = left;
    const struct rqli_group *b = right;

    return order_slices(a->lock_key, b->lock_key);
}

static int order_nonces(const void *left, const void *right)
{
    const struct rqli_nonce *a = left;
    const struct rqli_nonce *b = right;

    return memcmp(a->digits, b->digits, 32);
}

static int order_named(const void *left, const void *right)
{
    const struct rqli_nonce *a = left;
    const struct rqli_nonce *b = right;
    int order = strcmp(a->guest->acquirer, b->guest->acquirer);

    return order ? order : order_slices(a->lock_key, b->lock_key);
}

/* tfind(3) and the like lead to a pointer to what was put in. */
static void *found(void *node)
{
    return node ? *(void **)node : NULL;
}

static struct rqli_group *find_group(const struct rqli_waiting *self, struct rqli_slice key)
{
    const struct rqli_group wanted = {.lock_key = key};

    return found(tfind(&wanted, &self->groups, order_groups));
}

static struct rqli_group *make_group(struct rqli_waiting *self, struct rqli_slice key)
{
    struct rqli_group *group = calloc(1, sizeof *group);

    if (!group) {
        return NULL;
    }
    group->lock_key = key;
    if (!tsearch(group, &self->groups, order_groups)) {
        free(group);
        return NULL;
    }
    group->next = self->first;
    if (self->first) {
        self->first->previous = group;
    }
    self->first = group;
    return group;
}

static void free_group(struct rqli_waiting *self, struct rqli_group *group)
{
    (void)tdelete(group, &self->groups, order_groups);
    *(group->previous ? &group->previous->next : &self->first) = group->next;
    if (group->next) {
        group->next->previous = group->previous;
    }
    free(group);
}

static bool enter_group(struct rqli_waiting *self, struct rqli_guest *guest)
{
    struct rqli_group *group = find_group(self, guest->lock_key);

    if (!group) {
        group = make_group(self, guest->lock_key);
    }
    if (!group) {
        return false;
    }
    guest->group = group;
    guest->previous = group->last;
    *(group->last ? &group->last->next : &group->first) = guest;
    group->last = guest;
    return true;
}

static void leave_group(struct rqli_waiting *self, struct rqli_guest *guest)
{
    struct rqli_group *group = guest->group;

    *(guest->previous ? &guest->previous->next : &group->first) = guest->next;
    *(guest->next ? &guest->next->previous : &group->last) = guest->previous;
    if (group->first) {
        group->lock_key = group->first->lock_key; /* the same, in memory that stays */
    } else {
        free_group(self, group);
    }
}

static void enter_series(struct rqli_waiting *self, struct rqli_guest *guest)
{
    guest->next = self->series;
    if (self->series) {
        self->series->previous = guest;
    }
    self->series = guest;
}

static void leave_series(struct rqli_waiting *self, const struct rqli_guest *guest)
{
    *(guest->previous ? &guest->previous->next : &self->series) = guest->next;
    if (guest->next) {
        guest->next->previous = guest->previous;
    }
}

static void forget_nonces(struct rqli_waiting *self, const struct rqli_guest *guest, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)tdelete(&guest->nonces[i], &self->nonces, order_nonces);
    }
}

static bool list_nonces(struct rqli_waiting *self, struct rqli_guest *guest)
{
    for (size_t i = 0; i < guest->n_nonces; i++) {
        guest->nonces[i].guest = guest;
        if (!tsearch(&guest->nonces[i], &self->nonces, order_nonces)) {
            forget_nonces(self, guest, i);
            return false;
        }
    }
    return true;
}

static void forget_names(struct rqli_waiting *self, const struct rqli_guest *guest, size_t count)
{
    for (size_t i = 0; guest->acquirer && i < count; i++) {
        (void)tdelete(&guest->nonces[i], &self->named, order_named);
    }
}

/* Its acquirer, for each of its locks. */
static rql_status list_names(struct rqli_waiting *self, struct rqli_guest *guest)
{
    struct rqli_nonce *names = guest->nonces;

    for (size_t i = 0; guest->acquirer && i < guest->n_nonces; i++) {
        const void *there;

        names[i].guest = guest;
        there = found(tsearch(&names[i], &self->named, order_named));
        if (there != &names[i]) {
            forget_names(self, guest, i);
            return there ? RQL_E_BUSY : RQL_E_NOMEM;
        }
    }
    return RQL_OK;
}

static bool enter(struct rqli_waiting *self, struct rqli_guest *guest)
{
    if (!list_nonces(self, guest)) {
        return false;
    }
    guest->next = NULL;
    guest->previous = NULL;
    if (guest->lock_key.length == 0) {
        enter_series(self, guest);
    } else if (!enter_group(self, guest)) {
        forget_nonces(self, guest, guest->n_nonces);
        return false;
    }
    return true;
}

rql_status rqli_waiting_join(struct rqli_waiting *self, struct rqli_guest *guest)
{
    rql_status status = list_names(self, guest);

    if (!status && !enter(self, guest)) {
        status = RQL_E_NOMEM;
        forget_names(self, guest, guest->n_nonces);
    }
    return status;
}

struct rqli_guest *rqli_waiting_leave(struct rqli_waiting *self, struct rqli_guest *guest)
{
    struct rqli_guest *leader = guest->group && !guest->previous ? guest->next : NULL;

    forget_names(self, guest, guest->n_nonces);
    forget_nonces(self, guest, guest->n_nonces);
    if (guest->group) {
        leave_group(self, guest);
    } else {
        leave_series(self, guest);
    }
    return leader;
}

bool rqli_waiting_leads(const struct rqli_guest *guest)
{
    return !guest->group || guest->group->first == guest;
}

struct rqli_guest *rqli_waiting_of_nonce(const struct rqli_waiting *self, const char *digits)
{
    const struct rqli_nonce wanted = {.digits = digits};
    const struct rqli_nonce *nonce = found(tfind(&wanted, &self->nonces, order_nonces));

    return nonce ? nonce->guest : NULL;
}

static void visit_line(struct rqli_guest *guest, bool only_first, rqli_guest_fn visit)
{
    while (guest) {
        struct rqli_guest *next = only_first ? NULL : guest->next;

        visit(guest);
        guest = next;
    }
}

void rqli_waiting_each(const struct rqli_waiting *self, bool only_leaders, rqli_guest_fn visit)
{
    const struct rqli_group *group = self->first;

    while (group) {
        const struct rqli_group *next = group->next;

        visit_line(group->first, only_leaders, visit);
        group = next;
    }
    visit_line(self->series, false, visit);
}

void rqli_waiting_each_of(const struct rqli_waiting *self, struct rqli_slice key, bool only_leader,
                          rqli_guest_fn visit)
{
    const struct rqli_group *group = find_group(self, key);

    if (group) {
        visit_line(group->first, only_leader, visit);
    }
    visit_line(self->series, false, visit);
}
