#include "net/sock/resolve.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/futex.h"
#include "base/must.h"
#include "base/scope.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { ASKED, ANSWERED };

enum { PORT_TEXT_SIZE = 8 };

/* Accepts IPv4 and IPv6. The port is a number, and is not looked up. */
static const struct addrinfo any_stream = {.ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};

/* A lookup is owned by its thread, by each caller that waits for it, and by the resolver's list.
 * The last owner frees it. */
struct rqli_lookup {
    struct rqli_lookup *next; /* in the resolver's list, guarded by its mutex */
    struct rqli_address address;
    struct addrinfo *list; /* these three are constant from ANSWERED on */
    int code;              /* of getaddrinfo() */
    int sys_errno;
    rqli_signal state;
    atomic_int n_owners;
};

void rqli_lookup_leave(struct rqli_lookup *self)
{
    if (atomic_fetch_sub_explicit(&self->n_owners, 1, memory_order_acq_rel) > 1) {
        return;
    }
    if (self->list) {
        freeaddrinfo(self->list);
    }
    free(self);
}

RQLI_DEFINE_AUTO(struct rqli_lookup *, rqli_lookup_leave);

const struct addrinfo *rqli_lookup_addresses(const struct rqli_lookup *self)
{
    return self->list;
}

static bool is_answered(struct rqli_lookup *self)
{
    return atomic_load_explicit(&self->state, memory_order_acquire) == ANSWERED;
}

static void add_owner(struct rqli_lookup *self)
{
    (void)atomic_fetch_add_explicit(&self->n_owners, 1, memory_order_relaxed);
}

/* Returns a lookup whose only owner is the caller. NULL: no memory. */
static struct rqli_lookup *lookup_new(const struct rqli_address *address)
{
    struct rqli_lookup *self = calloc(1, sizeof *self);

    if (self) {
        self->address = *address;
        add_owner(self);
    }
    return self;
}

static int ask_system(struct rqli_lookup *self, const struct addrinfo *hints)
{
    char port[PORT_TEXT_SIZE];

    (void)snprintf(port, sizeof port, "%d", self->address.port);
    return getaddrinfo(self->address.host, port, hints, &self->list);
}

/* errno belongs to one thread, so it is copied: it is the reason if the code is EAI_SYSTEM. */
static void *look_up_name(void *argument)
{
    struct rqli_lookup *self = argument;

    self->code = ask_system(self, &any_stream);
    self->sys_errno = errno;
    atomic_store_explicit(&self->state, ANSWERED, memory_order_release);
    rqli_signal_wake(&self->state);
    rqli_lookup_leave(self);
    return NULL;
}

/* Starts the thread of a lookup. Returns an errno. The thread is detached and takes none of the
 * program's signals. */
static int start_thread(struct rqli_lookup *self)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t before;
    int code;

    RQLI_MUST(pthread_attr_init(&attributes) == 0);
    RQLI_MUST(pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED) == 0);
    before = rqli_mask_asynchronous();
    add_owner(self); /* before the thread starts: it may have ended when pthread_create() returns */
    code = pthread_create(&thread, &attributes, look_up_name, self);
    if (code != 0) {
        rqli_lookup_leave(self);
    }
    rqli_mask_restore(&before);
    (void)pthread_attr_destroy(&attributes);
    return code;
}

void rqli_resolver_init(struct rqli_resolver *self)
{
    self->first = NULL;
    (void)pthread_mutex_init(&self->mutex, NULL);
}

/* Caller holds the mutex, or is the last user. */
static void forget_first(struct rqli_lookup **link)
{
    struct rqli_lookup *lookup = *link;

    *link = lookup->next;
    rqli_lookup_leave(lookup);
}

void rqli_resolver_fini(struct rqli_resolver *self)
{
    while (self->first) {
        forget_first(&self->first);
    }
    (void)pthread_mutex_destroy(&self->mutex);
}

/* Caller holds the mutex. Returns the lookup of this name that is under way, or NULL. An answered
 * one is dropped: a later caller wants the addresses as they are now. */
static struct rqli_lookup *find_running(struct rqli_resolver *self,
                                        const struct rqli_address *address)
{
    struct rqli_lookup *found = NULL;
    struct rqli_lookup **link = &self->first;

    while (*link) {
        if (is_answered(*link)) {
            forget_first(link);
            continue;
        }
        if (rqli_address_is(&(*link)->address, address)) {
            found = *link;
        }
        link = &(*link)->next;
    }
    return found;
}

/* Joins the lookup of this name, or starts one. Caller holds the mutex. Returns an errno. */
static int join_or_start(struct rqli_resolver *self, const struct rqli_address *address,
                         struct rqli_lookup **out)
{
    RQLI_AUTO(rqli_lookup_leave) struct rqli_lookup *lookup = find_running(self, address);
    int code;

    if (lookup) {
        add_owner(lookup);
    } else {
        lookup = lookup_new(address);
        code = lookup ? start_thread(lookup) : ENOMEM;
        if (code != 0) {
            return code;
        }
        add_owner(lookup);
        lookup->next = self->first;
        self->first = lookup;
    }
    *out = RQLI_GIVE(lookup);
    return 0;
}

/* Returns false if the answer is late. The futex may end its wait early, so the clock decides; an
 * answer that has come by then counts. */
static bool await_answer(struct rqli_lookup *self, int64_t deadline_us)
{
    bool is_late = false;

    while (!is_answered(self) && !is_late) {
        is_late = rqli_time_is_up(deadline_us);
        rqli_signal_wait(&self->state, ASKED, deadline_us);
    }
    return is_answered(self);
}

static int fail_with(int code, int sys_errno)
{
    errno = sys_errno;
    return code;
}

/* Returns 0, or a code like *code_out of rqli_resolve(). */
static int resolve_name(struct rqli_resolver *self, const struct rqli_address *address,
                        int64_t deadline_us, struct rqli_lookup **out)
{
    RQLI_AUTO(rqli_lookup_leave) struct rqli_lookup *lookup = NULL;
    int sys_errno;

    (void)pthread_mutex_lock(&self->mutex);
    sys_errno = join_or_start(self, address, &lookup);
    (void)pthread_mutex_unlock(&self->mutex);
    if (sys_errno != 0) {
        return fail_with(EAI_SYSTEM, sys_errno);
    }
    if (!await_answer(lookup, deadline_us)) {
        return fail_with(EAI_AGAIN, ETIMEDOUT);
    }
    if (lookup->code != 0) {
        return fail_with(lookup->code, lookup->sys_errno);
    }
    *out = RQLI_GIVE(lookup);
    return 0;
}

struct rqli_lookup *rqli_resolve(struct rqli_resolver *self, const struct rqli_address *address,
                                 int64_t deadline_us, int *code_out)
{
    RQLI_AUTO(rqli_lookup_leave) struct rqli_lookup *lookup = lookup_new(address);
    struct addrinfo numeric = any_stream;
    struct rqli_lookup *named = NULL;

    numeric.ai_flags |= AI_NUMERICHOST;
    if (lookup && ask_system(lookup, &numeric) == 0) {
        return RQLI_GIVE(lookup);
    }
    *code_out =
        lookup ? resolve_name(self, address, deadline_us, &named) : fail_with(EAI_SYSTEM, ENOMEM);
    return named;
}
