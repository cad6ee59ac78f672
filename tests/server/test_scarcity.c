#include "clients.h"

#include "children.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <limits.h>
#include <malloc.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Memory, descriptors or threads run out: calls say so, and the process goes on. Each scenario runs
 * in a child of its own, once for every point at which something is missing. */

enum { FRAMES = 32, RUNS_MAX = 5000, ALLOWED_MS = 500, REFUSED = LEAST_CODE, WRONG };

struct lack {
    long nth;     /* this allocation fails, from 1 */
    long room;    /* bytes */
    long threads; /* that may still be made */
    long descriptors;
};

static const struct lack no_lack = {LONG_MAX, LONG_MAX, LONG_MAX, LONG_MAX};

/* Shared with the child. */
static struct report {
    atomic_bool is_missing;
    long lacking;        /* bytes by which there was too little room */
    void *frame[FRAMES]; /* who has asked for what was missing */
    int n_frames;
    rql_error error; /* of the first call that failed */
} * report;

static atomic_bool is_scarce;
static atomic_long n_asked;
static atomic_long n_used;
static atomic_long n_threads;
static struct lack lack;
static rql_lock *held;

#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)

static bool allocations_can_fail(void)
{
    return false;
}

#else

static void note_missing(long lacking)
{
    if (!atomic_exchange(&report->is_missing, true)) {
        report->lacking = lacking;
        report->n_frames = backtrace(report->frame, FRAMES);
    }
}

/* glibc's, by the names that no replacement takes. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void __libc_free(void *memory);

/* Counts it. False: it fails. */
static bool may_have(size_t size)
{
    bool is_nth;
    long beyond;

    if (!atomic_load(&is_scarce)) {
        return true;
    }
    is_nth = atomic_fetch_add(&n_asked, 1) + 1 == lack.nth;
    beyond = atomic_load(&n_used) + (long)size - lack.room;
    if (is_nth || beyond > 0) {
        note_missing(beyond);
        errno = ENOMEM;
    }
    return !is_nth && beyond <= 0;
}

static void *with(void *memory)
{
    if (memory && atomic_load(&is_scarce)) {
        (void)atomic_fetch_add(&n_used, (long)malloc_usable_size(memory));
    }
    return memory;
}

static void without(void *memory)
{
    if (memory && atomic_load(&is_scarce)) {
        (void)atomic_fetch_sub(&n_used, (long)malloc_usable_size(memory));
    }
}

void *malloc(size_t size)
{
    return may_have(size) ? with(__libc_malloc(size)) : NULL;
}

void *calloc(size_t nmemb, size_t size)
{
    return may_have(nmemb * size) ? with(__libc_calloc(nmemb, size)) : NULL;
}

void *realloc(void *ptr, size_t size)
{
    if (!may_have(size)) {
        return NULL;
    }
    without(ptr);
    return with(__libc_realloc(ptr, size));
}

void free(void *ptr)
{
    without(ptr);
    __libc_free(ptr);
}

/* The C library's own. */
static void find(const char *name, void *out, size_t size)
{
    void *symbol = dlsym(RTLD_NEXT, name);

    memcpy(out, &symbol, size);
}

int pthread_create(pthread_t *newthread, const pthread_attr_t *attr, void *(*start_routine)(void *),
                   void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    find("pthread_create", &real, sizeof real);
    if (is_scarce && n_threads >= lack.threads) {
        note_missing(0);
        return EAGAIN;
    }
    n_threads++;
    return real(newthread, attr, start_routine, arg);
}

int pthread_join(pthread_t th, void **thread_return)
{
    int (*real)(pthread_t, void **);

    find("pthread_join", &real, sizeof real);
    n_threads--;
    return real(th, thread_return);
}

static bool allocations_can_fail(void)
{
    void *volatile memory;

    lack = no_lack;
    lack.nth = 1;
    is_scarce = true;
    memory = malloc(1);
    is_scarce = false;
    free(memory);
    return memory == NULL;
}

#endif

/* True: done. What is missing may be why not. */
static bool done(rql_status status, const rql_error *error)
{
    if (status < 0 && report->error.status == RQL_OK) {
        report->error = *error;
    }
    must(status >= 0 || error->status == status, WRONG);
    return status == RQL_OK;
}

static rql_lock_options impatient(rql_client *own)
{
    rql_lock_options options = patient(own);

    options.timeout_ms = ALLOWED_MS;
    options.auto_extend = true;
    return options;
}

/* A lock that the leases' thread looks after, and a wait, which takes a subscriber. */
static void use_threads(rql_client *own)
{
    rql_lock_options options = impatient(own);
    rql_error error = {0};
    rql_lock *lock = NULL;

    if (done(rql_lock_acquire(own, "x", &options, &lock, &error), &error)) {
        (void)done(rql_lock_extend(lock, 90000, &error), &error);
        (void)done(rql_lock_release(lock, &error), &error);
    }
    lock = NULL;
    options.timeout_ms = 20;
    must(!done(rql_lock_acquire(own, "held", &options, &lock, &error), &error), WRONG);
}

struct asked {
    rql_status status;
    rql_lock *lock;
    atomic_int n_done;
};

static void on_acquired(rql_status status, rql_lock *lock, const rql_error *error, void *data)
{
    struct asked *self = data;

    self->status = status;
    self->lock = lock;
    (void)done(status, error);
    self->n_done++;
}

static void on_released(rql_status status, const rql_error *error, void *data)
{
    (void)done(status, error);
    ((struct asked *)data)->n_done++;
}

static bool is_over(void *data)
{
    return ((struct asked *)data)->n_done == 1;
}

static void release_on(rql_loop *loop, struct asked *asked)
{
    const rql_done what = {on_released, asked};
    rql_error error = {0};

    asked->n_done = 0;
    if (done(rql_release_async(loop, asked->lock, &what, &error), &error)) {
        must(wait_until(is_over, asked, AWAIT_MS), WRONG);
    }
}

static void ask_on(rql_loop *loop, const char *name, const rql_lock_options *options)
{
    struct asked asked = {0};
    rql_acquiring what = {.done = on_acquired, .user_data = &asked};
    rql_error error = {0};

    if (done(rql_acquire_async(loop, name, options, &what, &error), &error)) {
        must(wait_until(is_over, &asked, AWAIT_MS), WRONG);
    }
    if (asked.lock) {
        release_on(loop, &asked);
    }
}

static void use_loop(rql_client *own)
{
    rql_lock_options options = impatient(own);
    rql_error error = {0};
    rql_loop *loop = NULL;

    if (done(rql_loop_open(&loop, own, NULL, &error), &error)) {
        ask_on(loop, "x", &options);
        options.timeout_ms = 20;
        ask_on(loop, "held", &options);
        must(rql_loop_close(loop, NULL, NULL, NULL) == RQL_OK, WRONG);
    }
}

static void limit_descriptors(void)
{
    int next = dup(0);
    struct rlimit limit = {(rlim_t)(next + lack.descriptors), (rlim_t)(next + lack.descriptors)};

    (void)close(next);
    if (lack.descriptors != LONG_MAX) {
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void run_in_child(void (*scenario)(rql_client *own))
{
    const struct rlimit no_core = {0, 0};
    rql_options options = client_options();
    rql_client *own = NULL;
    rql_error error = {0};

    (void)setrlimit(RLIMIT_CORE, &no_core);
    (void)alarm(LIMIT_S * (unsigned)wait_slowness());
    limit_descriptors();
    n_asked = 0;
    n_used = 0;
    n_threads = 0;
    is_scarce = true;
    if (done(rql_client_new(&own, &options, &error), &error)) {
        scenario(own);
    }
    rql_client_free(own);
    _exit(report->error.status ? REFUSED : 0);
}

/* Returns how it ended, as waitpid() tells it. */
static int run(void (*scenario)(rql_client *own))
{
    pid_t child;
    int status = -1;

    memset(report, 0, sizeof *report);
    ask("DEL rql:lock:x");
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        run_in_child(scenario);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static bool is_of_uv(const void *frame, Dl_info *info)
{
    return dladdr(frame, info) && strstr(info->dli_fname, "libuv");
}

/* The call of libuv that has asked for what was missing; "": it was no call of libuv. */
static const char *missed_by_uv(void)
{
    const char *name = "";
    Dl_info info;
    int i = 0;

    while (i < report->n_frames && !is_of_uv(report->frame[i], &info)) {
        i++;
    }
    while (i < report->n_frames && is_of_uv(report->frame[i], &info)) {
        name = info.dli_sname ? info.dli_sname : "";
        i++;
    }
    return name;
}

static bool was_refused(int status)
{
    return WIFEXITED(status) && WEXITSTATUS(status) == REFUSED;
}

static void expect_survival(int status, const char *what, long at)
{
    if (!was_refused(status) && !(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
        fail_msg("%s, %ld: the child ended with %x in %s", what, at, (unsigned)status,
                 missed_by_uv());
    }
}

/* What libuv asks for and cannot do without, although there was as much a moment before. */
static bool is_known(int status)
{
    const char *by = missed_by_uv();

    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT &&
           (strcmp(by, "uv_loop_init") == 0 || strcmp(by, "uv_poll_start") == 0);
}

/* Each allocation fails alone, though there was more before and is more behind it. */
static void lose_each_allocation(void (*scenario)(rql_client *own))
{
    long n_refused = 0;
    int status;

    lack = no_lack;
    lack.nth = 0;
    do {
        lack.nth++;
        status = run(scenario);
        n_refused += was_refused(status);
        if (is_known(status)) {
            print_message("# allocation %ld: %s() ended the process\n", lack.nth, missed_by_uv());
        } else {
            expect_survival(status, "allocation", lack.nth);
        }
    } while (report->is_missing && lack.nth < RUNS_MAX);
    print_message("# %ld allocations, %ld refusals\n", lack.nth, n_refused);
    assert_int_equal(status, 0);
    assert_true(n_refused > 0);
}

/* There is so much memory and no more. Each time enough for one allocation more. */
static void run_out_of_memory(void (*scenario)(rql_client *own))
{
    long runs = 0;
    int status;

    lack = no_lack;
    lack.room = 0;
    do {
        status = run(scenario);
        expect_survival(status, "bytes", lack.room);
        lack.room += report->lacking;
    } while (report->is_missing && ++runs < RUNS_MAX);
    print_message("# enough in %ld bytes, after %ld refusals\n", lack.room, runs);
    assert_int_equal(status, 0);
    assert_true(runs > 0);
}

static void run_out_of(void (*scenario)(rql_client *own), const char *what, long *left)
{
    int status;

    lack = no_lack;
    *left = -1;
    do {
        ++*left;
        status = run(scenario);
        expect_survival(status, what, *left);
    } while (status != 0 && *left < RUNS_MAX);
    print_message("# enough: %ld %s\n", *left, what);
    assert_int_equal(status, 0);
    assert_true(*left > 0);
}

static void no_allocation_that_fails_ends_the_process_but_some_of_libuv(void **state)
{
    (void)state;
    lose_each_allocation(use_threads);
    lose_each_allocation(use_loop);
}

static void no_lack_of_memory_ends_the_process(void **state)
{
    (void)state;
    run_out_of_memory(use_threads);
    run_out_of_memory(use_loop);
}

static void no_lack_of_threads_ends_the_process(void **state)
{
    (void)state;
    run_out_of(use_threads, "threads", &lack.threads);
    run_out_of(use_loop, "threads", &lack.threads);
}

static void no_lack_of_descriptors_ends_the_process(void **state)
{
    (void)state;
    run_out_of(use_threads, "descriptors", &lack.descriptors);
    run_out_of(use_loop, "descriptors", &lack.descriptors);
}

static int next_descriptor(void)
{
    int fd = dup(0);

    (void)close(fd);
    return fd;
}

static void a_thread_that_cannot_be_had_leaves_nothing_behind(void **state)
{
    rql_lock_options options = impatient(client);
    rql_lock *lock = NULL;
    int fd = 0;

    (void)state;
    lack = no_lack;
    lack.threads = 0;
    is_scarce = true;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(rql_lock_acquire(client, "x", &options, &lock, NULL), RQL_E_NOMEM);
        fd = i == 0 ? next_descriptor() : fd;
        assert_int_equal(next_descriptor(), fd);
    }
    is_scarce = false;
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

static int hold_one(void **state)
{
    (void)set_up(state);
    n_threads = 0;
    held = hold(other, "held");
    return 0;
}

static int release_one(void **state)
{
    CHECK_OK(rql_lock_release(held, NULL));
    return tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, hold_one, release_one)
        TEST(no_allocation_that_fails_ends_the_process_but_some_of_libuv),
        TEST(no_lack_of_memory_ends_the_process),
        TEST(no_lack_of_threads_ends_the_process),
        TEST(no_lack_of_descriptors_ends_the_process),
        TEST(a_thread_that_cannot_be_had_leaves_nothing_behind),
    };

    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    (void)backtrace((void *[1]){NULL}, 1); /* it loads what it needs */
    if (!redis_server_available() || !CHILDREN_MAY_MAKE_THREADS || !allocations_can_fail()) {
        return skip_all("no redis-server, or the allocator is a tool's own");
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
