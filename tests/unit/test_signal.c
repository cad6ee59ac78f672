#include "check.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/fork.h"
#include "base/futex.h"
#include "threads.h"
#include "wait.h"

#include <poll.h>
#include <pthread.h>
#include <rql/base.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { AWAIT_MS = 10000, N_SLEEPERS = 4, N_ROUNDS = 200, PAUSE_US = 20000, FEW_ROUNDS = 5 };

TEST(ms_are_added_without_overflow)
{
    static const struct {
        int64_t now_us;
        int64_t ms;
        int64_t expected_us;
    } cases[] = {
        {5, 0, 5},
        {5, 7, 7005},
        {5, RQL_FOREVER, RQLI_NEVER_US},
        {5, INT64_MAX, RQLI_NEVER_US},
        {5, INT64_MAX / 1000, INT64_MAX / 1000 * 1000 + 5},
        {INT64_MAX - 999, 1, RQLI_NEVER_US},
        {INT64_MAX - 1000, 1, INT64_MAX},
        {INT64_MAX, 0, INT64_MAX},
    };

    EACH (row, cases) {
        assert_true(rqli_after_ms(row->now_us, row->ms) == row->expected_us);
    }
}

/* None of these may sleep: the test would hang. */
TEST(what_has_changed_or_passed_is_not_waited_for)
{
    rqli_signal signal = 1;

    rqli_signal_wait(&signal, 0, RQLI_NEVER_US);
    rqli_signal_wait(&signal, 0, rqli_now_us() + INT64_C(3600000000));
    rqli_signal_wait(&signal, 1, rqli_now_us());
    rqli_signal_wait(&signal, 1, 0);
    rqli_signal_wait(&signal, 1, INT64_MIN + INT64_C(9000000000000000));
}

TEST(a_wait_ends_at_its_time)
{
    rqli_signal signal = 0;
    int64_t until_us = rqli_now_us() + PAUSE_US;
    int n_waits = 0;

    while (rqli_now_us() < until_us) {
        rqli_signal_wait(&signal, 0, until_us);
        n_waits++;
    }
    assert_true(n_waits < 100); /* it sleeps; now and then it wakes early */
}

static void take_no_notice(int number)
{
    (void)number;
}

/* The handler stays: under valgrind the last signal may arrive late. */
TEST(a_sleep_ends_at_its_time_whatever_signals_arrive)
{
    const struct sigaction action = {.sa_handler = take_no_notice, .sa_flags = SA_RESTART};
    const struct itimerval often = {{0, PAUSE_US / 20}, {0, PAUSE_US / 20}};
    const struct itimerval never = {0};
    int64_t until_us;
    int64_t ended_us;

    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    until_us = rqli_now_us() + PAUSE_US;
    rqli_sleep_until(until_us);
    ended_us = rqli_now_us();
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_true(ended_us >= until_us);
}

/* Player 0 calls, the others answer; then again. A lost wake-up would hang. */
struct game {
    rqli_signal call;
    rqli_signal answers;
    int cancel_fd; /* of every second sleeper; -1: of none */
    int32_t first; /* round */
};

static void play(size_t index, void *data)
{
    struct game *game = data;
    struct rqli_cancel_fd cancel;

    rqli_cancel_fd_begin(&cancel, index % 2 == 0 ? game->cancel_fd : -1);

    for (int32_t round = game->first; round < N_ROUNDS; round++) {
        int32_t seen;

        if (index == 0) {
            atomic_store(&game->call, round + 1);
            rqli_signal_wake(&game->call);
            for (seen = atomic_load(&game->answers); seen < (round + 1) * N_SLEEPERS;
                 seen = atomic_load(&game->answers)) {
                rqli_signal_wait(&game->answers, seen, RQLI_NEVER_US);
            }
            continue;
        }
        while (atomic_load(&game->call) == round) {
            rqli_signal_wait(&game->call, round, RQLI_NEVER_US);
        }
        atomic_fetch_add(&game->answers, 1);
        rqli_signal_wake(&game->answers);
    }
    rqli_cancel_fd_end(&cancel);
}

TEST(a_wake_reaches_every_sleeper)
{
    struct game game = {.cancel_fd = -1};

    threads_run(N_SLEEPERS + 1, play, &game);
    assert_int_equal(game.answers, N_ROUNDS * N_SLEEPERS);
}

TEST(a_wake_reaches_sleepers_that_poll)
{
    struct game game = {.cancel_fd = eventfd(0, EFD_CLOEXEC)};

    threads_run(N_SLEEPERS + 1, play, &game);
    assert_int_equal(game.answers, N_ROUNDS * N_SLEEPERS);
    assert_int_equal(close(game.cancel_fd), 0);
}

/* Without a descriptor of its own a sleeper looks at its word again and again. */
TEST(a_wake_reaches_sleepers_without_a_free_descriptor)
{
    struct game game = {.cancel_fd = eventfd(0, EFD_CLOEXEC)};
    struct rlimit before;
    struct rlimit none;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = (rlim_t)game.cancel_fd + 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    game.first = N_ROUNDS - FEW_ROUNDS; /* each takes a while */
    game.call = game.first;
    game.answers = game.first * N_SLEEPERS;
    threads_run(N_SLEEPERS + 1, play, &game);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(game.answers, N_ROUNDS * N_SLEEPERS);
    assert_int_equal(close(game.cancel_fd), 0);
}

static void sleep_long(size_t index, void *data)
{
    struct game *game = data;
    struct rqli_cancel_fd cancel;

    rqli_cancel_fd_begin(&cancel, game->cancel_fd);
    while (!rqli_is_cancelled()) {
        if (index % 2 == 0) {
            rqli_signal_wait(&game->call, 0, RQLI_NEVER_US);
        } else {
            rqli_sleep_until(RQLI_NEVER_US);
        }
    }
    /* From now on no wait of the call sleeps: the test would hang. */
    rqli_signal_wait(&game->call, 0, RQLI_NEVER_US);
    rqli_sleep_until(RQLI_NEVER_US);
    rqli_cancel_fd_end(&cancel);
}

TEST(a_readable_descriptor_ends_all_waits_of_its_threads)
{
    struct game game = {.cancel_fd = eventfd(0, EFD_CLOEXEC)};
    struct threads *threads = threads_start(N_SLEEPERS, sleep_long, &game);

    assert_int_equal(eventfd_write(game.cancel_fd, 1), 0);
    threads_join(threads);
    assert_int_equal(close(game.cancel_fd), 0);
}

/* A thread that sleeps again and again, and has to go on while another one forks. */
static struct {
    int cancel_fd;
    atomic_bool is_over;
    atomic_int n_sleeps;
    bool stood_still;
} sleeper;

static void sleep_often(size_t index, void *data)
{
    struct rqli_cancel_fd cancel;
    rqli_signal never = 0;

    (void)index;
    (void)data;
    rqli_cancel_fd_begin(&cancel, sleeper.cancel_fd);
    while (!sleeper.is_over) {
        rqli_signal_wait(&never, 0, rqli_now_us() + PAUSE_US / 20);
        sleeper.n_sleeps++;
    }
    rqli_cancel_fd_end(&cancel);
}

static bool has_slept(void *n_sleeps)
{
    return sleeper.n_sleeps >= *(const int *)n_sleeps;
}

/* The program's own handler, which may wait for a lock that the thread has. */
static void await_sleeper(void)
{
    int n_sleeps = sleeper.n_sleeps + 3;

    sleeper.stood_still = !sleeper.is_over && !wait_until(has_slept, &n_sleeps, AWAIT_MS);
}

static void ignore(void *self)
{
    (void)self;
}

/* Handlers that were installed first are called last before the fork. */
TEST(sleepers_that_poll_go_on_while_another_thread_forks)
{
    struct rqli_fork_member member;
    struct threads *threads;
    pid_t child;

    sleeper.cancel_fd = eventfd(0, EFD_CLOEXEC);
    sleeper.is_over = false;
    assert_int_equal(pthread_atfork(await_sleeper, NULL, NULL), 0);
    assert_true(rqli_fork_join(&member, ignore, NULL));
    threads = threads_start(1, sleep_often, NULL);
    child = fork();
    if (child == 0) {
        _exit(0);
    }
    sleeper.is_over = true;
    threads_join(threads);
    assert_int_equal(waitpid(child, NULL, 0), child);
    rqli_fork_leave(&member);
    assert_int_equal(close(sleeper.cancel_fd), 0);
    assert_false(sleeper.stood_still);
}

/* What has come is still seen: a grant wins over the cancellation. */
TEST(a_cancelled_wait_sees_what_has_come)
{
    int fd = eventfd(1, EFD_CLOEXEC);
    struct pollfd wanted[] = {{.fd = fd, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    struct rqli_cancel_fd cancel;

    rqli_cancel_fd_begin(&cancel, fd);
    assert_true(rqli_is_cancelled() && rqli_time_is_up(RQLI_NEVER_US));
    assert_int_equal(rqli_poll(wanted, N_ROWS(wanted), INT64_MAX), 1);
    assert_int_equal(wanted[0].revents, POLLIN);
    assert_int_equal(wanted[1].revents, 0);
    {
        RQLI_IGNORE_CANCEL_FD;

        assert_false(rqli_cancel_fd_check() || rqli_time_is_up(RQLI_NEVER_US));
    }
    assert_true(rqli_is_cancelled());
    rqli_cancel_fd_end(&cancel);
    assert_false(rqli_is_cancelled());
    assert_int_equal(close(fd), 0);
}
