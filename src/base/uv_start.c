#include "base/uv_start.h"
#include "base/fd.h"

#include "base/fork.h"
#include "base/must.h"
#include "base/os.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * libuv aborts the process when it lacks memory, a descriptor or a thread at certain places: in its
 * first loop and in its thread pool. So these resources are tried first: if one is missing, the
 * call fails with RQL_E_NOMEM instead of ending the program.
 */

enum {
    FDS = 9,     /* for the first loop: its epoll, two pipes, and an eventfd; and standard ones */
    ROOM = 4096, /* more than a loop and its fork() handlers take besides the table */
    /* libuv's own default and limit. */
    POOL_THREADS = 4,
    POOL_THREADS_MAX = 1024,
    /* More than the pool has: other threads and processes may take some while libuv makes its
     * own. */
    SPARE_THREADS = 8,
};

/* libuv indexes its table by descriptors, so the table is as long as the highest one, rounded up to
 * a power of two. */
bool rqli_uv_has_room(int fd)
{
    /* volatile: otherwise the compiler removes the call. */
    void *volatile memory = malloc(ROOM + 2 * ((size_t)fd + FDS) * sizeof(void *));
    bool has = memory != NULL;

    free(memory);
    return has;
}

/* Returns the highest of as many descriptors as the first loop takes, or -1 if there are not
 * enough. */
static int highest_descriptor(void)
{
    int fds[FDS];
    int highest = -1;
    int n = 0;

    while (n < FDS && (fds[n] = rqli_os_event()) >= 0) {
        highest = fds[n] > highest ? fds[n] : highest;
        n++;
    }
    for (int i = 0; i < n; i++) {
        (void)close(fds[i]);
    }
    return n == FDS ? highest : -1;
}

/* libuv takes the lowest numbers that are free. So the numbers of standard descriptors that the
 * program has closed are held while it does. */
static bool init_above_standard(uv_loop_t *loop)
{
    int held[RQLI_FD_LEAST];
    int n = 0;
    int fd = rqli_os_event();
    bool has;

    while (fd >= 0 && fd < RQLI_FD_LEAST) {
        held[n++] = fd;
        fd = rqli_os_event();
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    has = fd >= 0 && uv_loop_init(loop) == 0;
    while (n > 0) {
        (void)close(held[--n]);
    }
    return has;
}

/* The table of the first loop reaches to the highest descriptor that the loop opens. */
bool rqli_uv_loop_init(uv_loop_t *loop)
{
    int fd = highest_descriptor();

    return fd >= 0 && rqli_uv_has_room(fd) && init_above_standard(loop);
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

/* Handles close in a round of the loop, so it is run once more. */
void rqli_uv_loop_drop(uv_loop_t *loop)
{
    uv_walk(loop, close_handle, NULL);
    (void)uv_run(loop, UV_RUN_DEFAULT);
    RQLI_MUST(uv_loop_close(loop) == 0);
}

/* As many threads as the pool has, and some more, all alive at the same time. */
struct crowd {
    pthread_mutex_t held; /* held until all threads run */
    size_t count;

    struct member {
        struct crowd *crowd;
        uv_thread_t thread;
        pid_t id;
    } member[];
};

/* Notes its thread id, and waits until the mutex is released. */
static void stand_there(void *argument)
{
    struct member *self = argument;

    self->id = rqli_os_thread_id();
    (void)pthread_mutex_lock(&self->crowd->held);
    (void)pthread_mutex_unlock(&self->crowd->held);
}

/* Returns the number of threads of the pool, read as libuv does. */
static size_t pool_threads(void)
{
    /* libuv reads it next. NOLINTNEXTLINE(concurrency-mt-unsafe) */
    const char *text = getenv("UV_THREADPOOL_SIZE");
    unsigned long count = text ? strtoul(text, NULL, 10) : POOL_THREADS;

    count = count > 0 ? count : 1;
    return count < POOL_THREADS_MAX ? count : POOL_THREADS_MAX;
}

/* A thread that has ended counts for the limits until the kernel has removed it. */
static void await_end(struct member *member)
{
    RQLI_MUST(uv_thread_join(&member->thread) == 0);
    while (rqli_os_thread_lives(member->id)) {
        (void)sched_yield();
    }
}

/* Starts all threads at the same time, because one after the other would fit within any limit.
 * libuv makes them as it makes its own, so that its own threads get the stacks that these have
 * left. These threads have to end before libuv makes its own: until then other threads may take as
 * many as there are to spare. */
static bool has_threads(void)
{
    size_t wanted = pool_threads() + SPARE_THREADS;
    struct crowd *crowd = calloc(1, sizeof *crowd + wanted * sizeof *crowd->member);
    bool has;

    if (!crowd) {
        return false;
    }
    (void)pthread_mutex_init(&crowd->held, NULL);
    (void)pthread_mutex_lock(&crowd->held);
    for (has = true; has && crowd->count < wanted; crowd->count += has) {
        struct member *next = &crowd->member[crowd->count];

        next->crowd = crowd;
        has = uv_thread_create(&next->thread, stand_there, next) == 0;
    }
    (void)pthread_mutex_unlock(&crowd->held);
    for (size_t i = 0; i < crowd->count; i++) {
        await_end(&crowd->member[i]);
    }
    (void)pthread_mutex_destroy(&crowd->held);
    free(crowd);
    return has;
}

static void do_nothing(uv_work_t *work)
{
    (void)work;
}

/* Starts the pool by its first work; the pool then stays. The loop is only there to queue the work:
 * dropping the loop waits until the work is done. */
static bool start_pool(void)
{
    uv_work_t work;
    uv_loop_t loop;
    bool has;

    if (!rqli_uv_loop_init(&loop)) {
        return false;
    }
    has = has_threads();
    if (has) {
        (void)uv_queue_work(&loop, &work, do_nothing, NULL);
    }
    rqli_uv_loop_drop(&loop);
    return has;
}

/* The process that has the pool, and the one that is starting it: a child of fork() has none. */
static atomic_uint started_in;
static atomic_uint starting_in;

/* Lets one thread in at a time, because the trial of another thread would take the resources that
 * libuv is about to use. A value of the parent process belongs to a thread that is not here. */
static void begin_start(unsigned here)
{
    unsigned holder = 0;

    while (!atomic_compare_exchange_weak(&starting_in, &holder, here)) {
        if (holder == here) {
            (void)sched_yield();
            holder = 0;
        }
    }
}

bool rqli_uv_pool_start(void)
{
    unsigned here = 1 + rqli_fork_generation();
    sigset_t before;
    bool has;

    if (atomic_load(&started_in) == here) {
        return true;
    }
    begin_start(here);
    has = atomic_load(&started_in) == here;
    if (!has) {
        before = rqli_mask_asynchronous();
        has = start_pool();
        rqli_mask_restore(&before);
    }
    if (has) {
        atomic_store(&started_in, here);
    }
    atomic_store(&starting_in, 0);
    return has;
}
