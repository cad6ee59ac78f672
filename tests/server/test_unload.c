#include "children.h"

#include <dlfcn.h>

/* A process that exits while its threads wait, and one that loads and unloads the library. */

static void exit_while_waiting(void)
{
    rql_client *own = new_client_in_child();
    struct waiter waiter = {.client = own, .name = "x", .options = patient(own)};
    struct expected queued = {.text = "ZCARD rql:lock_queue:x", .value = 1};

    raw = redis_server_connect(&server);
    must(pthread_create(&waiter.thread, NULL, run_waiter, &waiter) == 0, 40);
    must(wait_until(is_as_expected, &queued, AWAIT_MS), 41);
    exit(0);
}

TEST(exit_does_not_wait_for_waiters)
{
    rql_client *own = new_client();
    rql_lock *held = hold(own, "x");
    int64_t begun_us = wait_clock_us();
    pid_t child = start_limited_child(exit_while_waiting);
    int status = -1;

    assert_int_equal(waitpid(child, &status, 0), child);
    /* Memory checkers have a word of their own on what exit() leaves behind. */
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) < LEAST_CODE);
    assert_true(wait_clock_us() - begun_us < 5000000 * wait_slowness());
    CHECK_OK(rql_lock_release(held, NULL));
    rql_client_free(own);
}

/* The library as a program loads it at run time. */
struct loaded {
    void *handle;
    void (*options_init)(rql_options *, size_t);
    void (*lock_options_init)(const rql_client *, rql_lock_options *, size_t);
    rql_status (*client_new)(const rql_options *, rql_client **, rql_error *);
    rql_client *(*client_free)(rql_client *);
    rql_status (*acquire)(rql_client *, const char *, const rql_lock_options *, rql_lock **,
                          rql_error *);
    rql_status (*release)(rql_lock *, rql_error *);
};

static void find(void *handle, const char *name, void *slot)
{
    void *symbol = dlsym(handle, name);

    must(symbol != NULL, 51);
    memcpy(slot, &symbol, sizeof symbol);
}

/* The build puts the library next to the folder of the tests. */
static void load(struct loaded *self)
{
    char path[512] = {0};

    must(readlink("/proc/self/exe", path, sizeof path - 32) > 0, 52);
    (void)strcpy(strstr(path, "/tests/server/"), "/src/librql.so");
    self->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    must(self->handle != NULL, 50);
    find(self->handle, "rql_options_init_sized", &self->options_init);
    find(self->handle, "rql_lock_options_init_sized", &self->lock_options_init);
    find(self->handle, "rql_client_new", &self->client_new);
    find(self->handle, "rql_client_free", &self->client_free);
    find(self->handle, "rql_lock_acquire", &self->acquire);
    find(self->handle, "rql_lock_release", &self->release);
}

static void *load_use_and_unload(void *data)
{
    struct loaded library;
    rql_options options;
    rql_lock_options of_lock;
    rql_client *own = NULL;
    rql_lock *lock = NULL;

    load(&library);
    library.options_init(&options, sizeof options);
    options.url = server.url;
    must(library.client_new(&options, &own, NULL) == RQL_OK, 53);
    library.lock_options_init(own, &of_lock, sizeof of_lock);
    of_lock.auto_extend = true; /* has the background thread started */
    must(library.acquire(own, "of the plugin", &of_lock, &lock, NULL) == RQL_OK, 54);
    must(library.release(lock, NULL) == RQL_OK, 55);
    library.client_free(own);
    must(dlclose(library.handle) == 0, 56);
    return data;
}

/* In threads that end after the library was unloaded; and a fork behind it all. */
static void load_again_and_again(void)
{
    for (int i = 0; i < 3; i++) {
        pthread_t thread;

        must(pthread_create(&thread, NULL, load_use_and_unload, NULL) == 0, 57);
        must(pthread_join(thread, NULL) == 0, 58);
    }
    expect_good_end(start_limited_child(use_own_client));
}

TEST(library_can_be_loaded_used_and_unloaded)
{
    expect_good_end(start_limited_child(load_again_and_again));
}

FIXTURE(start_server, stop_server, empty_server, NULL);
SKIP_UNLESS(CHILDREN_MAY_MAKE_THREADS, "ThreadSanitizer");
