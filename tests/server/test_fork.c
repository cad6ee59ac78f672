#include "children.h"

#include "allocator.h"
#include "threads.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* A process that forks: the child has nothing of its parent's, and does it no harm. */

enum { FORKS = 20, HAMMERS = 4 };

static rql_lock *inherited;
static rql_series *inherited_series;
static const char *const names[] = {"a", "b"};

static void refuse_series(void)
{
    const rql_series_options options = series_of(names, 2);
    rql_series *second = NULL;
    int fd;

    must(rql_series_acquire(client, &options, &second, NULL) == RQL_E_FORKED, 30);
    must(rql_series_extend(inherited_series, 1000, NULL) == RQL_E_FORKED, 31);
    must(rql_series_lost_fd(inherited_series, &fd, NULL) == RQL_E_FORKED, 32);
    must(rql_series_get_state(inherited_series) == RQL_GONE, 33);
    must(rql_series_remaining_ms(inherited_series) == 0, 34);
    must(rql_series_release(inherited_series, NULL, NULL) == RQL_E_FORKED, 35);
}

static void refuse_and_free_what_is_inherited(void)
{
    const rql_sweep_owner owner = {.acquirer_id = "a", .host_id = "h"};
    rql_lock *lock = NULL;

    must(rql_lock_acquire(client, "x", NULL, &lock, NULL) == RQL_E_FORKED, 10);
    must(rql_lock_extend(inherited, 1000, NULL) == RQL_E_FORKED, 11);
    must(rql_lock_get_state(inherited) == RQL_GONE, 12);
    must(rql_lock_release(inherited, NULL) == RQL_E_FORKED, 13);
    must(rql_locks_clear(client, NULL, NULL, NULL) == RQL_E_FORKED, 14);
    must(rql_locks_clear_of(client, &owner, NULL, NULL, NULL) == RQL_E_FORKED, 15);
    must(rql_requests_clear_dead(client, NULL, NULL, NULL, NULL) == RQL_E_FORKED, 17);
    if (inherited_series) {
        refuse_series();
    }
    client = rql_client_free(client);
    /* A sanitizer's allocator stays locked in the child for ever, if a thread was in it. */
    if (!ALLOCATOR_IS_TAKEN) {
        use_own_client();
    }
}

struct hammer {
    atomic_int stop;
    atomic_int n_done;
    atomic_int n_faults;
};

static void hammer(size_t index, void *data)
{
    struct hammer *self = data;
    rql_lock_options options = patient(client);

    while (!self->stop) {
        rql_lock *lock = NULL;

        if (rql_lock_acquire(client, index % 2 ? "x" : "y", &options, &lock, NULL) ||
            rql_lock_release(lock, NULL)) {
            atomic_fetch_add(&self->n_faults, 1);
        }
        atomic_fetch_add(&self->n_done, 1);
    }
}

static bool hammers_run(void *data)
{
    struct hammer *self = data;

    return self->n_done >= 100;
}

/* Beside threads that wait, and so an open subscriber, and a lock that is renewed. */
TEST(child_has_nothing_of_the_parents_and_does_it_no_harm)
{
    const rql_lock_options lasting = patient(client); /* longer than the children take */
    rql_series_options options = series_of(names, 2);
    rql_lock_options renewed = lasting;
    struct hammer self = {0};
    struct threads *threads;

    renewed.ttl_ms = wait_stretched(3000); /* renewed each second */
    renewed.auto_extend = true;
    options.lock = &lasting;
    inherited = hold_with(client, "inherited", &renewed);
    CHECK_OK(rql_series_acquire(client, &options, &inherited_series, NULL));
    threads = threads_start(HAMMERS, hammer, &self);
    for (int i = 0; i < FORKS; i++) {
        self.n_done = 0;
        assert_true(wait_until(hammers_run, &self, AWAIT_MS));
        expect_good_end(start_limited_child(refuse_and_free_what_is_inherited));
    }
    self.stop = 1;
    threads_join(threads);
    assert_int_equal(self.n_faults, 0);
    CHECK_OK(rql_lock_verify(inherited, NULL));
    CHECK_OK(rql_lock_release(inherited, NULL));
    CHECK_OK(rql_series_release(inherited_series, NULL, NULL));
    inherited_series = NULL;
}

static pid_t clone_self(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static void refuse_what_is_inherited(void)
{
    rql_lock *lock = NULL;

    must(rql_lock_acquire(client, "x", NULL, &lock, NULL) == RQL_E_FORKED, 40);
    must(rql_lock_extend(inherited, 1000, NULL) == RQL_E_FORKED, 41);
    must(rql_lock_get_state(inherited) == RQL_GONE, 42);
    must(rql_lock_release(inherited, NULL) == RQL_E_FORKED, 43);
    must(rql_lock_forget(inherited) == NULL, 44);
    refuse_series();
    must(rql_client_free(client) == NULL, 45);
}

/* Both have a descriptor that becomes readable when they are lost. */
static void hold_what_is_inherited(void)
{
    const rql_series_options options = series_of(names, 2);
    int fd = -1;

    inherited = hold(client, "inherited");
    CHECK_OK(rql_lock_lost_fd(inherited, &fd, NULL));
    CHECK_OK(rql_series_acquire(client, &options, &inherited_series, NULL));
    CHECK_OK(rql_series_lost_fd(inherited_series, &fd, NULL));
}

static void release_what_is_inherited_in_the_parent(void)
{
    CHECK_OK(rql_lock_verify(inherited, NULL));
    CHECK_OK(rql_lock_release(inherited, NULL));
    CHECK_OK(rql_series_release(inherited_series, NULL, NULL));
    inherited_series = NULL;
}

enum { OWN_DESCRIPTORS = 64 };

/* As a daemon does. Each number that was a descriptor of the parent is one of the child. */
static void replace_all_descriptors(void)
{
    (void)syscall(SYS_close_range, 0U, ~0U, 0U);
    for (int fd = 0; fd < OWN_DESCRIPTORS; fd++) {
        must(open("/dev/null", O_RDWR) == fd, 46);
    }
}

/* An eventfd or a socket of the library's in place of one's own counts as closed, too. */
static void check_own_descriptors(void)
{
    struct stat null;
    struct stat own;

    must(stat("/dev/null", &null) == 0, 47);
    for (int fd = 0; fd < OWN_DESCRIPTORS; fd++) {
        must(fstat(fd, &own) == 0 && own.st_rdev == null.st_rdev, 48);
    }
}

/* Nor does a fork of the child, which meets the parent's client a second time. */
static void release_with_descriptors_of_its_own(void)
{
    pid_t grandchild;
    int status = -1;

    replace_all_descriptors();
    refuse_what_is_inherited();
    check_own_descriptors();
    grandchild = start_limited_child(check_own_descriptors);
    must(waitpid(grandchild, &status, 0) == grandchild && status == 0, 49);
}

TEST(release_in_a_child_closes_no_descriptor_of_the_child)
{
    hold_what_is_inherited();
    expect_good_end(start_limited_child(release_with_descriptors_of_its_own));
    expect_good_end(start_limited_child_by(clone_self, release_with_descriptors_of_its_own));
    release_what_is_inherited_in_the_parent();
}

static bool is_closed(void *fd)
{
    return fcntl(*(int *)fd, F_GETFD) < 0;
}

/* As a daemon that has closed its standard descriptors: none of the library's has such a number. */
static void use_all_without_standard_descriptors(void)
{
    rql_lock_options options;
    rql_client *own;
    rql_swarm *swarm = NULL;
    rql_loop *loop = NULL;
    rql_lock *lock = NULL;
    int fd = -1;

    for (int standard = 0; standard < 3; standard++) {
        (void)close(standard);
    }
    own = new_client_in_child();
    options = patient(own);
    options.auto_extend = true;
    must(rql_swarm_start(own, NULL, &swarm, NULL) == RQL_OK, 80);
    must(rql_loop_open(own, NULL, &loop, NULL) == RQL_OK, 81);
    must(rql_lock_acquire(own, "of the daemon", &options, &lock, NULL) == RQL_OK, 82);
    must(rql_lock_lost_fd(lock, &fd, NULL) == RQL_OK && fd > 2, 83);
    for (int standard = 0; standard < 3; standard++) {
        /* A thread of the library that opens a descriptor has this number until it has moved it. */
        must(wait_until(is_closed, &standard, AWAIT_MS), 84);
    }
    must(rql_lock_release(lock, NULL) == RQL_OK, 85);
    must(rql_loop_close(loop, NULL, NULL, NULL) == RQL_OK, 86);
    (void)rql_swarm_free(swarm);
    (void)rql_client_free(own);
}

TEST(no_descriptor_is_a_standard_one)
{
    expect_good_end(start_limited_child(use_all_without_standard_descriptors));
}

/* Holds, waits and renews, so that all three connections are there; then a child that outlives it.
 */
static void leave_a_child_behind(void)
{
    rql_client *own = new_client_in_child();
    rql_lock_options options = patient(own);
    struct waiter waiter = {.client = own, .name = "x", .options = options};
    rql_lock *lock = NULL;

    options.auto_extend = true;
    options.ttl_ms = 300;
    must(rql_lock_acquire(own, "renewed", &options, &lock, NULL) == RQL_OK, 30);
    must(pthread_create(&waiter.thread, NULL, run_waiter, &waiter) == 0, 31);
    (void)pause();
}

static int pipe_of_grandchild[2];
static unsigned limit_of_grandchild_s;

/* The grandchild tells its number, and is killed by it. */
static void be_forked(int number)
{
    pid_t grandchild = fork();

    (void)number;
    if (grandchild == 0) {
        grandchild = getpid();
        (void)alarm(limit_of_grandchild_s);
        (void)!write(pipe_of_grandchild[1], &grandchild, sizeof grandchild);
        (void)pause();
        _exit(0);
    }
}

static void install_and_leave_a_child_behind(void)
{
    limit_of_grandchild_s = LIMIT_S * (unsigned)wait_slowness();
    (void)signal(SIGUSR1, be_forked);
    leave_a_child_behind();
}

static int64_t count_connections(void)
{
    redisReply *reply = ask_reply("CLIENT LIST");
    int64_t n = 0;

    for (const char *at = reply->str; (at = strstr(at, "name=rql:")); at++) {
        n++;
    }
    freeReplyObject(reply);
    return n;
}

static bool has_connections(void *data)
{
    return count_connections() == *(int64_t *)data;
}

static void expect_connections(int64_t count)
{
    if (!wait_until(has_connections, &count, AWAIT_MS)) {
        fail_msg("%lld connections, not %lld", (long long)count_connections(), (long long)count);
    }
}

TEST(parents_death_is_seen_while_a_child_lives)
{
    rql_lock *held = hold(client, "x");
    pid_t grandchild = 0;
    pid_t child;

    assert_int_equal(pipe(pipe_of_grandchild), 0);
    child = start_limited_child(install_and_leave_a_child_behind);
    await_int(1, "ZCARD rql:lock_queue:x");
    expect_connections(4); /* ours, and its three */
    (void)kill(child, SIGUSR1);
    assert_true(wait_readable(pipe_of_grandchild[0], AWAIT_MS));
    assert_int_equal(read(pipe_of_grandchild[0], &grandchild, sizeof grandchild),
                     sizeof grandchild);
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
    expect_connections(1);
    assert_int_equal(kill(grandchild, SIGKILL), 0); /* it was there all the time */
    (void)close(pipe_of_grandchild[1]);
    (void)close(pipe_of_grandchild[0]);
    CHECK_OK(rql_lock_release(held, NULL));
}

static rql_lock *lock_of_block;

static void release_what_is_inherited(void)
{
    must(rql_lock_release(lock_of_block, NULL) == RQL_E_FORKED, 60);
}

static int fork_in_block(rql_lock *lock, void *data)
{
    (void)data;
    lock_of_block = lock;
    expect_good_end(start_limited_child(release_what_is_inherited));
    return 7;
}

TEST(fork_in_a_block_leaves_the_parent_its_lock)
{
    rql_block block = {.run = fork_in_block};

    CHECK_OK(rql_lock_run(client, "x", NULL, &block, NULL));
    assert_int_equal(block.value, 7);
    assert_int_equal(ask_int("EXISTS rql:lock:x"), 0);
}

static rql_swarm *inherited_swarm;

static void use_the_inherited_swarm(void)
{
    rql_swarm_status status;

    must(rql_swarm_get_status(client, &status, NULL) == RQL_E_FORKED, 70);
    rql_swarm_stop(inherited_swarm);
    must(rql_swarm_free(inherited_swarm) == NULL, 71);
    must(rql_swarm_probe(client, NULL, NULL, NULL) == RQL_E_FORKED, 72);
    must(rql_swarm_flush(client, NULL, NULL, NULL) == RQL_E_FORKED, 73);
    if (CHILDREN_MAY_MAKE_THREADS) {
        rql_client *own = new_client_in_child();
        rql_swarm *swarm = NULL;

        must(rql_swarm_start(own, NULL, &swarm, NULL) == RQL_OK, 74);
        rql_swarm_free(swarm);
        rql_client_free(own);
    }
}

TEST(child_has_nothing_of_its_parents_swarm)
{
    rql_swarm_status status;
    rql_lock *lock;

    CHECK_OK(rql_swarm_start(client, NULL, &inherited_swarm, NULL));
    lock = hold(client, "x");
    await_int(1, "HLEN rql:swarm:hsts");
    expect_good_end(start_limited_child(use_the_inherited_swarm));
    assert_int_equal(ask_int("HLEN rql:swarm:hsts"), 1);
    CHECK_OK(rql_swarm_get_status(client, &status, NULL));
    assert_true(status.is_running);
    CHECK_OK(rql_lock_release(lock, NULL));
    inherited_swarm = rql_swarm_free(inherited_swarm);
}

FIXTURE(start_server, stop_server, make_clients, free_clients);
SKIP_UNLESS(CHILDREN_MAY_MAKE_THREADS, "ThreadSanitizer");
