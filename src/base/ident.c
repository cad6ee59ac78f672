#include "base/ident.h"

#include "base/fork.h"

#include <stdio.h>
#include <unistd.h>

struct self {
    pid_t process;
    pid_t thread; /* 0: not asked yet */
    unsigned generation;
};

static _Thread_local struct self self;

static const struct self *know_self(void)
{
    if (self.thread == 0 || self.generation != rqli_fork_generation()) {
        self = (struct self){getpid(), gettid(), rqli_fork_generation()};
    }
    return &self;
}

void rqli_acquirer_id(char out[RQL_ID_SIZE], uint64_t task, const char *identity)
{
    const struct self *me = know_self();

    (void)snprintf(out, RQL_ID_SIZE, "rql:acq:%d/%d/%llu/0/%s", (int)me->process, (int)me->thread,
                   (unsigned long long)task, identity);
}

void rqli_host_id(char out[RQL_ID_SIZE], pid_t thread, const char *identity)
{
    (void)snprintf(out, RQL_ID_SIZE, "rql:hst:%d/%d/0/%s", (int)know_self()->process, (int)thread,
                   identity);
}

pid_t rqli_thread_id(void)
{
    return know_self()->thread;
}
