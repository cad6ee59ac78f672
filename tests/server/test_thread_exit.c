#include "fixture.h"

#include <stdatomic.h>

/* A thread that ends, is cancelled or gets signals in each state of a call. */

enum { SIGNALS = 100 };

/* Releases at once. */
static struct waiter for_a_moment(const char *name)
{
    return (struct waiter){
        .client = client, .name = name, .options = patient(client), .releases = true};
}

static void *run_and_end_if_cancelled(void *data)
{
    run_waiter(data);
    pthread_testcancel();
    return NULL;
}

/* What two threads wait for, one of which reads, sends or connects for both. */
static const struct scene {
    const char *name;
    const char *second; /* the lock of the second one; the first asks for "x" */
    bool is_held;       /* "x", by this thread */
    bool is_silent;     /* the server */
    bool is_connected;  /* before */
} scenes[] = {
    {"a lock", "x", .is_held = true},
    {"a reply", "y", .is_silent = true, .is_connected = true},
    {"a connection", "y", .is_silent = true},
};

struct scenery {
    struct waiter first;
    struct waiter second;
    rql_lock *held;
};

static void begin_scene(struct scenery *self, const struct scene *scene)
{
    int n_open;

    rql_client_free(client);
    client = new_client();
    self->held = scene->is_held ? hold(client, "x") : NULL;
    self->first = for_a_moment("x");
    self->second = for_a_moment(scene->second);
    if (scene->is_connected) {
        CHECK_OK(rql_client_connect(client, NULL));
    }
    if (scene->is_silent) {
        redis_server_pause(&server);
    }
    n_open = count_descriptors();
    assert_int_equal(
        pthread_create(&self->first.thread, NULL, run_and_end_if_cancelled, &self->first), 0);
    if (scene->is_held) {
        await_int(1, "ZCARD rql:lock_queue:x");
        await_int(1, "EVAL return(#redis.call('pubsub','channels','rql:wake:*')) 0");
    } else if (!scene->is_connected) {
        await_descriptors(n_open + 1);
    }
    waiter_start(&self->second);
    if (scene->is_held) {
        await_int(2, "ZCARD rql:lock_queue:x");
    }
}

/* Both go on. `result`: of the first thread, which has had its lock. */
static void end_scene(struct scenery *self, const struct scene *scene, void *result)
{
    void *found = NULL;

    if (scene->is_held) {
        CHECK_OK(rql_lock_release(self->held, NULL));
    } else {
        redis_server_resume(&server);
    }
    assert_int_equal(pthread_join(self->first.thread, &found), 0);
    assert_ptr_equal(found, result);
    CHECK_OK(self->first.status);
    CHECK_OK(waiter_join(&self->second));
    CHECK_QUEUE_IS_EMPTY("x");
}

TEST(cancellation_waits_for_the_end_of_the_call_and_leaves_others_what_they_need)
{
    EACH_ROW (scene, scenes) {
        struct scenery scenery;

        begin_scene(&scenery, scene);
        assert_int_equal(pthread_cancel(scenery.first.thread), 0);
        end_scene(&scenery, scene, PTHREAD_CANCELED);
    }
}

static void *use_every_call_while_cancelled(void *data)
{
    rql_client *own = NULL;
    rql_options options = client_options();
    rql_lock *lock = NULL;
    rql_unlock_result unlocked;
    rql_text_list *names = NULL;
    bool is_there = false;
    int *n_ok = data;
    int fd;

    (void)pthread_cancel(pthread_self());
    *n_ok += rql_client_new(&options, &own, NULL) == RQL_OK;
    *n_ok += rql_client_connect(own, NULL) == RQL_OK;
    *n_ok += rql_lock_acquire(own, "x", NULL, &lock, NULL) == RQL_OK;
    *n_ok += rql_lock_lost_fd(lock, &fd, NULL) == RQL_OK;
    *n_ok += rql_lock_verify(lock, NULL) == RQL_OK;
    *n_ok += rql_lock_extend(lock, 1000, NULL) == RQL_OK;
    *n_ok += rql_lock_get_state(lock) == RQL_HELD;
    *n_ok += rql_lock_exists(own, "x", &is_there, NULL) == RQL_OK;
    *n_ok += rql_queue_exists(own, "x", &is_there, NULL) == RQL_OK;
    *n_ok += rql_client_held_locks(own, &names, NULL) == RQL_OK;
    names = rql_free(names);
    *n_ok += rql_keys_list(own, &names, NULL) == RQL_OK;
    names = rql_free(names);
    *n_ok += rql_client_host_ids(own, &names, NULL) == RQL_OK;
    names = rql_free(names);
    *n_ok += rql_lock_force_extend(own, "x", 1000, NULL) == RQL_OK;
    *n_ok += rql_lock_release_by_secret(own, "x", rql_lock_secret(lock), NULL) == RQL_OK;
    *n_ok += rql_lock_wait_until_free(own, "x", NULL, NULL) == RQL_OK;
    *n_ok += rql_lock_force_unlock(own, "x", &unlocked, NULL) <= RQL_NOT_FOUND;
    lock = rql_lock_forget(lock);
    *n_ok += rql_client_free(own) == NULL;
    pthread_testcancel();
    return NULL;
}

static void note_status(rql_status status, rql_lock *lock, const rql_error *error, void *data)
{
    (void)lock;
    (void)error;
    *(atomic_int *)data = status;
}

static bool is_cancelled(void *outcome)
{
    return *(atomic_int *)outcome == RQL_CANCELLED;
}

static void *cancel_while_cancelled(void *request)
{
    (void)pthread_cancel(pthread_self());
    (void)rql_request_cancel(request);
    pthread_testcancel();
    return NULL;
}

/* The loop sleeps: it has to be woken, which is a system call. */
TEST(to_cancel_a_request_is_no_cancellation_point)
{
    rql_lock *held = hold(client, "x");
    atomic_int outcome = RQL_OK;
    rql_acquiring what = {.done = note_status, .user_data = &outcome};
    rql_lock_options options = patient(client);
    rql_loop *own = NULL;
    pthread_t thread;

    CHECK_OK(rql_loop_open(client, NULL, &own, NULL));
    CHECK_OK(rql_lock_acquire_async(own, "x", &options, &what, NULL));
    await_int(1, "ZCARD rql:lock_queue:x");
    assert_int_equal(pthread_create(&thread, NULL, cancel_while_cancelled, what.request), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(wait_until(is_cancelled, &outcome, AWAIT_MS));
    CHECK_OK(rql_loop_close(own, NULL, NULL, NULL));
    CHECK_OK(rql_lock_release(held, NULL));
}

TEST(no_call_is_a_cancellation_point)
{
    pthread_t thread;
    void *result = NULL;
    int n_ok = 0;

    assert_int_equal(pthread_create(&thread, NULL, use_every_call_while_cancelled, &n_ok), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(n_ok, 17);
}

/* ---- the kernel uses the id of a thread again ---- */

enum { REUSES = 1000 };

static pid_t old_id; /* of the thread that has ended */

/* A thread that asks for its lock, if it got the id. */
static struct {
    pthread_t thread;
    bool has_id;
    rql_status status;
    pthread_barrier_t has_asked;
    pthread_barrier_t may_end;
} successor;

static void *take_and_end(void *unused)
{
    rql_lock_options options = patient(client);

    (void)unused;
    options.auto_extend = true;
    options.ttl_ms = wait_stretched(1500);
    old_id = gettid();
    return hold_with(client, "x", &options);
}

static void *ask_with_the_id(void *unused)
{
    rql_lock_options options = patient(client);
    rql_lock *lock = NULL;

    successor.has_id = gettid() == old_id;
    if (successor.has_id) {
        options.conflict_strategy = RQL_WORK_THROUGH;
        successor.status = rql_lock_try(client, "x", &options, &lock, NULL);
    }
    (void)pthread_barrier_wait(&successor.has_asked);
    if (successor.has_id) {
        (void)pthread_barrier_wait(&successor.may_end);
    }
    rql_lock_release(lock, NULL);
    return unused;
}

/* The kernel gives the next process or thread of the machine the number behind the last one. False:
 * it may not be chosen here. */
static bool choose_next_id(pid_t id)
{
    FILE *file = fopen("/proc/sys/kernel/ns_last_pid", "w");

    return file && (fprintf(file, "%d", (int)id - 1) > 0) + (fclose(file) == 0) == 2;
}

/* False: it may not be, or another process of the machine took the id each time. */
static bool start_successor(void)
{
    successor.has_id = false;
    for (int i = 0; i < REUSES && !successor.has_id && choose_next_id(old_id); i++) {
        assert_int_equal(pthread_create(&successor.thread, NULL, ask_with_the_id, NULL), 0);
        (void)pthread_barrier_wait(&successor.has_asked);
        if (!successor.has_id) {
            assert_int_equal(pthread_join(successor.thread, NULL), 0);
        }
    }
    return successor.has_id;
}

/* It neither enters the lock of the thread that had the id before, nor keeps it alive. */
TEST(a_thread_id_that_is_used_again_is_another_threads)
{
    void *lock = NULL;
    pthread_t first;
    bool was_started;

    assert_int_equal(pthread_barrier_init(&successor.has_asked, NULL, 2), 0);
    assert_int_equal(pthread_barrier_init(&successor.may_end, NULL, 2), 0);
    assert_int_equal(pthread_create(&first, NULL, take_and_end, NULL), 0);
    assert_int_equal(pthread_join(first, &lock), 0);
    was_started = start_successor();
    if (was_started) {
        assert_int_equal(successor.status, RQL_FAIL_FAST_NO_TRY);
        await_int(0, "EXISTS rql:lock:x");
        (void)pthread_barrier_wait(&successor.may_end);
        assert_int_equal(pthread_join(successor.thread, NULL), 0);
    }
    (void)rql_lock_release(lock, NULL);
    (void)pthread_barrier_destroy(&successor.has_asked);
    (void)pthread_barrier_destroy(&successor.may_end);
    if (!was_started) {
        print_message("# the id of a thread cannot be chosen here\n");
        return;
    }
}

static atomic_int n_signals;

static void count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&n_signals, 1);
}

/* No SA_RESTART: each one interrupts what it meets. */
static struct sigaction count_signals(void)
{
    struct sigaction counts = {.sa_handler = count_signal};
    struct sigaction before;

    n_signals = 0;
    assert_int_equal(sigaction(SIGUSR1, &counts, &before), 0);
    return before;
}

/* Until the thread has seen `count` more of them. */
static void signal_often(pthread_t thread, int count)
{
    int goal = n_signals + count;

    while (n_signals < goal) {
        (void)pthread_kill(thread, SIGUSR1);
        (void)sched_yield();
    }
}

TEST(signals_change_nothing)
{
    struct sigaction before = count_signals();

    EACH_ROW (scene, scenes) {
        struct scenery scenery;

        begin_scene(&scenery, scene);
        signal_often(scenery.first.thread, SIGNALS);
        signal_often(scenery.second.thread, SIGNALS);
        end_scene(&scenery, scene, NULL);
    }
    (void)sigaction(SIGUSR1, &before, NULL);
}

static void raise_all(atomic_int *n_called)
{
    static const int synchronous[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};

    for (size_t i = 0; i < sizeof synchronous / sizeof synchronous[0]; i++) {
        (void)raise(synchronous[i]);
    }
    (void)raise(SIGUSR1); /* blocked: it stays pending in this thread, and ends with it */
    atomic_fetch_add(n_called, 1);
}

static void raise_when_lost(rql_lock *lock, void *n_called)
{
    (void)lock;
    raise_all(n_called);
}

static void raise_when_acquired(rql_status status, rql_lock *lock, const rql_error *error,
                                void *n_called)
{
    (void)status;
    (void)error;
    (void)rql_lock_forget(lock);
    raise_all(n_called);
}

static bool were_called(void *n_called)
{
    return *(atomic_int *)n_called == 2;
}

/* On the client's background thread, and on that of a loop: what a crash reporter relies on. */
TEST(callbacks_run_with_synchronous_signals_open)
{
    static const int handled[] = {SIGSEGV, SIGBUS,  SIGFPE, SIGILL,
                                  SIGTRAP, SIGABRT, SIGSYS, SIGUSR1};

    enum { HANDLED = sizeof handled / sizeof handled[0] };
    const struct sigaction counts = {.sa_handler = count_signal};
    struct sigaction before[HANDLED];
    rql_lock_options options = patient(client);
    atomic_int n_called = 0;
    rql_acquiring what = {.done = raise_when_acquired, .user_data = &n_called};
    rql_loop *own = NULL;
    rql_lock *lock;

    n_signals = 0;
    for (size_t i = 0; i < HANDLED; i++) {
        assert_int_equal(sigaction(handled[i], &counts, &before[i]), 0);
    }
    options.on_lost = raise_when_lost;
    options.on_lost_data = &n_called;
    lock = hold_with(client, "x", &options);
    ask("DEL rql:lock:x");
    assert_int_equal(rql_lock_verify(lock, NULL), RQL_NOT_HELD);
    options.on_lost = NULL;
    CHECK_OK(rql_loop_open(client, NULL, &own, NULL));
    CHECK_OK(rql_lock_acquire_async(own, "y", &options, &what, NULL));
    assert_true(wait_until(were_called, &n_called, AWAIT_MS));
    CHECK_OK(rql_loop_close(own, NULL, NULL, NULL));
    (void)rql_lock_release(lock, NULL);
    assert_int_equal(n_signals, 2 * (HANDLED - 1));
    for (size_t i = 0; i < HANDLED; i++) {
        (void)sigaction(handled[i], &before[i], NULL);
    }
}

FIXTURE(start_server, stop_server, make_clients, free_clients);
