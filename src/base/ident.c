#include "base/ident.h"

#include "base/fork.h"
#include "base/writer.h"

#include <unistd.h>

enum { FIBERS = 100000 };

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

/* By the writer: every acquisition comes by here twice, and snprintf() takes three times as long.
 */
static void begin(struct rqli_writer *out, char id[RQL_ID_SIZE], const char *kind)
{
    rqli_writer_init(out, id, RQL_ID_SIZE);
    rqli_write_text(out, kind);
    rqli_write_int(out, know_self()->process);
    rqli_write_text(out, "/");
}

static void end(struct rqli_writer *out, uint64_t ractor, const char *identity)
{
    rqli_write_text(out, "/");
    rqli_write_uint(out, ractor);
    rqli_write_text(out, "/");
    rqli_write_text(out, identity);
    (void)rqli_writer_end(out);
}

static void write_acquirer(char out[RQL_ID_SIZE], uint64_t fiber, uint64_t ractor,
                           const char *identity)
{
    struct rqli_writer id;

    begin(&id, out, "rql:acq:");
    rqli_write_int(&id, know_self()->thread);
    rqli_write_text(&id, "/");
    rqli_write_uint(&id, fiber);
    end(&id, ractor, identity);
}

void rqli_acquirer_id(char out[RQL_ID_SIZE], uint64_t task, const char *identity)
{
    write_acquirer(out, task, 0, identity);
}

/* Over both slots: an id of up to 64 bytes takes the server half the memory of a longer one. */
void rqli_own_acquirer_id(char out[RQL_ID_SIZE], uint64_t number, const char *identity)
{
    write_acquirer(out, number % FIBERS, 1 + number / FIBERS, identity);
}

void rqli_host_id(char out[RQL_ID_SIZE], pid_t thread, const char *identity)
{
    struct rqli_writer id;

    begin(&id, out, "rql:hst:");
    rqli_write_int(&id, thread);
    end(&id, 0, identity);
}

pid_t rqli_thread_id(void)
{
    return know_self()->thread;
}
