#include "check.h"

#include "base/clock.h"
#include "base/futex.h"
#include "threads.h"

#include <rql/base.h>

enum { N_SLEEPERS = 4, N_ROUNDS = 200, PAUSE_US = 20000 };

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

/* Player 0 calls, the others answer; then again. A lost wake-up would hang. */
struct game {
    rqli_signal call;
    rqli_signal answers;
};

static void play(size_t index, void *data)
{
    struct game *game = data;

    for (int32_t round = 0; round < N_ROUNDS; round++) {
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
}

TEST(a_wake_reaches_every_sleeper)
{
    struct game game = {0};

    threads_run(N_SLEEPERS + 1, play, &game);
    assert_int_equal(game.answers, N_ROUNDS * N_SLEEPERS);
}
