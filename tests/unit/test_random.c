#include "check.h"

#include "base/fork.h"
#include "base/random.h"
#include "threads.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_DRAWS = 4096, N_CHILDREN = 8, N_THREADS = 4, DRAWS_EACH = 1000, N_BELOW = 100000 };

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void check_distinct(char (*drawn)[RQLI_HEX_SIZE], size_t count)
{
    qsort(drawn, count, sizeof *drawn, compare);
    for (size_t i = 1; i < count; i++) {
        assert_string_not_equal(drawn[i - 1], drawn[i]);
    }
}

TEST(draws_are_32_lower_case_digits_and_differ)
{
    static char drawn[N_DRAWS][RQLI_HEX_SIZE];

    for (size_t i = 0; i < N_DRAWS; i++) {
        assert_true(rqli_random_hex(drawn[i]));
        assert_int_equal(strspn(drawn[i], "0123456789abcdef"), 32);
        assert_int_equal(drawn[i][32], '\0');
    }
    check_distinct(drawn, N_DRAWS);
}

/* A fair source leaves these bounds, of seven deviations, once in ten thousand million runs. */
static void check_even(const unsigned *counts, size_t n, unsigned total)
{
    double expected = (double)total / (double)n;

    for (size_t i = 0; i < n; i++) {
        double off = (double)counts[i] - expected;

        print_message("# %zu: %u\n", i, counts[i]);
        assert_true(off * off < 49.0 * expected);
    }
}

TEST(every_digit_comes_as_often)
{
    unsigned counts[16] = {0};
    char drawn[RQLI_HEX_SIZE];

    for (int i = 0; i < N_DRAWS; i++) {
        assert_true(rqli_random_hex(drawn));
        for (int at = 0; at < RQLI_HEX_SIZE - 1; at++) {
            counts[drawn[at] <= '9' ? drawn[at] - '0' : drawn[at] - 'a' + 10]++;
        }
    }
    check_even(counts, 16, N_DRAWS * 32U);
}

TEST(numbers_are_below_their_bound)
{
    static const uint32_t bounds[] = {2, 3, 10, 65536, 1U << 31, UINT32_MAX};

    assert_int_equal(rqli_random_below(0), 0);
    assert_int_equal(rqli_random_below(1), 0);
    EACH (row, bounds) {
        for (int draw = 0; draw < 1000; draw++) {
            assert_true(rqli_random_below(*row) < *row);
        }
    }
}

TEST(every_number_comes_as_often)
{
    unsigned counts[10] = {0};

    for (int i = 0; i < N_BELOW; i++) {
        counts[rqli_random_below(10)]++;
    }
    check_even(counts, 10, N_BELOW);
}

static void ignore(void *self)
{
    (void)self;
}

/* As the copy of a virtual machine: nobody is told of this child. */
static pid_t clone_unnoticed(void)
{
    return (pid_t)syscall(SYS_clone, (long)SIGCHLD, NULL, NULL, NULL, NULL);
}

/* One draw in a child, sent through a pipe. */
static bool draw_in_child(pid_t (*fork_or_clone)(void), char out[RQLI_HEX_SIZE])
{
    int ends[2];
    pid_t child;
    bool drew;

    if (pipe(ends) != 0) {
        return false;
    }
    child = fork_or_clone();
    if (child == 0) {
        drew = rqli_random_hex(out) && write(ends[1], out, RQLI_HEX_SIZE) == RQLI_HEX_SIZE;
        _exit(drew ? 0 : 1);
    }
    drew = child > 0 && read(ends[0], out, RQLI_HEX_SIZE) == RQLI_HEX_SIZE;
    drew = child > 0 && waitpid(child, NULL, 0) == child && drew;
    (void)close(ends[0]);
    (void)close(ends[1]);
    return drew;
}

/* The stock that the parent has drawn ahead is copied by fork(). */
TEST(children_draw_otherwise_than_their_parent)
{
    static char drawn[3 * N_CHILDREN][RQLI_HEX_SIZE];
    struct rqli_fork_member member;

    assert_true(rqli_fork_join(&member, ignore, NULL));
    for (size_t i = 0; i < N_CHILDREN; i++) {
        assert_true(rqli_random_hex(drawn[3 * i])); /* what is drawn ahead is there by now */
        assert_true(draw_in_child(fork, drawn[3 * i + 1]));
        assert_true(draw_in_child(clone_unnoticed, drawn[3 * i + 2]));
    }
    check_distinct(drawn, N_ROWS(drawn));
    rqli_fork_leave(&member);
}

static void draw_many(size_t index, void *data)
{
    char(*drawn)[RQLI_HEX_SIZE] = data;

    for (size_t i = 0; i < DRAWS_EACH; i++) {
        if (!rqli_random_hex(drawn[index * DRAWS_EACH + i])) {
            abort();
        }
    }
}

TEST(threads_draw_apart)
{
    static char drawn[N_THREADS * DRAWS_EACH][RQLI_HEX_SIZE];

    threads_run(N_THREADS, draw_many, drawn);
    check_distinct(drawn, N_ROWS(drawn));
}
