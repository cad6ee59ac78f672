#include "check.h"

#include "base/random.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_DRAWS = 4096, N_CHILDREN = 8, N_BELOW = 100000 };

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

TEST(draws_are_32_even_lower_case_digits_and_differ)
{
    static const char digits[] = "0123456789abcdef";
    static char drawn[N_DRAWS][RQLI_HEX_SIZE];
    unsigned counts[16] = {0};

    for (size_t i = 0; i < N_DRAWS; i++) {
        assert_true(rqli_random_hex(drawn[i]));
        assert_int_equal(strspn(drawn[i], digits), 32);
        assert_int_equal(drawn[i][32], '\0');
        for (const char *at = drawn[i]; *at; at++) {
            counts[strchr(digits, *at) - digits]++;
        }
    }
    check_distinct(drawn, N_DRAWS);
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

/* The child is like the copy of a virtual machine: the library does not learn that it is another
 * process, and whatever its parent had drawn ahead it would have as well. */
TEST(a_child_draws_otherwise_than_its_parent)
{
    char(*drawn)[RQLI_HEX_SIZE] = mmap(NULL, (size_t)2 * N_CHILDREN * RQLI_HEX_SIZE,
                                       PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(drawn, MAP_FAILED);
    for (size_t i = 0; i < N_CHILDREN; i++) {
        pid_t child;
        int how = -1;

        assert_true(rqli_random_hex(drawn[2 * i]));
        child = (pid_t)syscall(SYS_clone, (long)SIGCHLD, NULL, NULL, NULL, NULL);
        if (child == 0) {
            _exit(rqli_random_hex(drawn[2 * i + 1]) ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_int_equal(how, 0);
    }
    check_distinct(drawn, (size_t)2 * N_CHILDREN);
    (void)munmap(drawn, (size_t)2 * N_CHILDREN * RQLI_HEX_SIZE);
}
