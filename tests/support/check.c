#include "check.h"

#include "stall.h"

#include <errno.h>
#include <fnmatch.h>
#include <rql/status.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct test_hooks test_hooks;

static struct test *first;
static struct test *last;
static size_t n_tests;
static const char *skip_reason;

void test_add(struct test *test)
{
    *(last ? &last->next : &first) = test;
    last = test;
    n_tests++;
}

void test_skip_unless(bool condition, const char *reason)
{
    skip_reason = condition ? skip_reason : reason;
}

bool is_emulated(void)
{
    return getenv("RQL_TEST_EMULATED") != NULL;
}

/* A test that failed while it was kept from running for so long is worth another try:
 * support/runner.py repeats the program for this line. A withdrawal has 50 ms for its answer; after
 * that the result of its call is not known. */
enum { KEPT_US = 500000, KEPT_OF_UNKNOWN_US = 20000 };

static bool has_passed;
static atomic_bool is_unknown; /* threads of a test check, too */
static int64_t kept_before_us;

static int call(test_fn *function)
{
    if (function) {
        function();
    }
    return 0;
}

static void run(void **state)
{
    ((const struct test *)*state)->body();
    has_passed = true;
}

static int set_up(void **state)
{
    const struct test *test = *state;

    has_passed = false;
    is_unknown = false;
    kept_before_us = stall_total_us();
    return call(test->before ? test->before : test_hooks.before_each);
}

static int tear_down(void **state)
{
    const struct test *test = *state;
    int64_t kept_us = stall_total_us() - kept_before_us;

    if (!has_passed && kept_us >= (is_unknown ? KEPT_OF_UNKNOWN_US : KEPT_US)) {
        (void)fprintf(stderr, "again: %s: its processes were kept from running for %d ms in all\n",
                      test->name, (int)(kept_us / 1000));
    }
    return call(test->after ? test->after : test_hooks.after_each);
}

static int set_up_all(void **state)
{
    (void)state;
    return call(test_hooks.before_all);
}

static int tear_down_all(void **state)
{
    (void)state;
    return call(test_hooks.after_all);
}

bool test_print_row(ptrdiff_t number, const char *text)
{
    char line[120];

    (void)snprintf(line, sizeof line, "# row %d: %s", (int)number, text ? text : "");
    for (char *at = line; *at; at++) {
        if (*at < ' ') {
            *at = '?';
        }
    }
    print_message("%s\n", line);
    return true;
}

bool next_part(const char **rest, char part[PART_SIZE], int64_t *number)
{
    const char *end = *rest ? strchrnul(*rest, '|') : NULL;
    char *equals;

    if (!end) {
        return false;
    }
    (void)snprintf(part, PART_SIZE, "%.*s", (int)(end - *rest), *rest);
    *rest = *end ? end + 1 : NULL;
    (void)test_print_row(0, part);
    equals = number ? strrchr(part, '=') : NULL;
    if (equals) {
        *equals = '\0';
        *number = strtoll(equals + 1, NULL, 10);
    }
    return true;
}

void test_check_equal(int64_t found, int64_t expected, const char *file, int line)
{
    is_unknown = found == RQL_E_UNKNOWN;
    _assert_int_equal((LargestIntegralType)found, (LargestIntegralType)expected, file, line);
}

void test_check_pairs(const struct test_pair *pairs, const char *file, int line)
{
    for (; pairs->what; pairs++) {
        if (pairs->found != pairs->expected) {
            print_error("%s is %lld, not %lld\n", pairs->what, (long long)pairs->found,
                        (long long)pairs->expected);
            _fail(file, line);
        }
    }
}

bool aborts(void (*act)(const void *data), const void *data)
{
    pid_t child = fork();
    int how = 0;

    if (child == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)close(STDERR_FILENO);
        act(data);
        _exit(0);
    }
    return child > 0 && waitpid(child, &how, 0) == child && WIFSIGNALED(how) &&
           WTERMSIG(how) == SIGABRT;
}

uint32_t chance_seed(void)
{
    const char *given = getenv("RQL_TEST_SEED");
    uint32_t seed = given ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)time(NULL) * 2654435761U;

    seed = seed ? seed : 1;
    print_message("# RQL_TEST_SEED=%u plays the same again\n", (unsigned)seed);
    return seed;
}

uint32_t chance_below(uint32_t *seed, uint32_t bound)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed % bound;
}

/* The tests whose names match the pattern, or all without one, and how many they are. */
static size_t choose(const char *pattern, struct CMUnitTest *tests)
{
    size_t n = 0;

    for (struct test *test = first; test; test = test->next) {
        if (!pattern || fnmatch(pattern, test->name, 0) == 0) {
            tests[n++] = (struct CMUnitTest){test->name, run, set_up, tear_down, test};
        }
    }
    return n;
}

/* cmocka prints its plan first: a program that is skipped must not begin. Only the tests run whose
 * names match the pattern RQL_TEST_ONLY, in which `*` is any text. */
int main(void)
{
    const char *pattern = getenv("RQL_TEST_ONLY");
    struct CMUnitTest *tests = calloc(n_tests + 1, sizeof *tests);
    size_t n;
    int n_failed;

    if (skip_reason || !tests) {
        (void)printf("1..0 # SKIP %s\n", skip_reason ? skip_reason : "no memory");
        free(tests);
        return 0;
    }
    n = choose(pattern, tests);
    if (n == 0) {
        (void)fprintf(stderr, "%s: no test's name matches RQL_TEST_ONLY=%s\n",
                      program_invocation_short_name, pattern ? pattern : "");
        free(tests);
        return 1;
    }
    n_failed =
        _cmocka_run_group_tests(program_invocation_short_name, tests, n, set_up_all, tear_down_all);
    free(tests);
    return n_failed;
}
