#include "golden.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

/* Looks every few milliseconds how long the server takes to answer this process. A recording is
 * made of real times; while the machine stands still they mean nothing. */

enum { BETWEEN_LOOKS_NS = 5000000 };

struct silence {
    pthread_t thread;
    redisContext *context;
    atomic_bool ends;
    _Atomic int64_t longest_us;
};

static void *look(void *data)
{
    static const struct timespec pause = {.tv_nsec = BETWEEN_LOOKS_NS};
    struct silence *self = data;
    int64_t begun_us = wait_clock_us();

    while (!atomic_load(&self->ends)) {
        int64_t now_us;

        (void)nanosleep(&pause, NULL);
        freeReplyObject(redisCommand(self->context, "PING"));
        now_us = wait_clock_us();
        if (now_us - begun_us > atomic_load(&self->longest_us)) {
            atomic_store(&self->longest_us, now_us - begun_us);
        }
        begun_us = now_us;
    }
    return NULL;
}

struct silence *silence_watch(const struct redis_server *server)
{
    struct silence *self = calloc(1, sizeof *self);

    assert_non_null(self);
    self->context = redis_server_connect(server);
    assert_non_null(self->context);
    assert_int_equal(pthread_create(&self->thread, NULL, look, self), 0);
    return self;
}

int64_t silence_end(struct silence *self)
{
    int64_t longest_us;

    atomic_store(&self->ends, true);
    assert_int_equal(pthread_join(self->thread, NULL), 0);
    longest_us = atomic_load(&self->longest_us);
    redisFree(self->context);
    free(self);
    return longest_us;
}
