#include "unit.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TESTS_MAX = 16 };

static struct CMUnitTest tests[TESTS_MAX];
static unit_fn *bodies[TESTS_MAX];
static size_t n_tests;
static unit_fn *before;
static unit_fn *after;

void unit_before(const char *name, unit_fn *body)
{
    (void)name;
    before = body;
}

void unit_after(const char *name, unit_fn *body)
{
    (void)name;
    after = body;
}

static void run(void **state)
{
    unit_fn **body = *state;

    (*body)();
}

static int set_up(void **state)
{
    (void)state;
    if (before) {
        before();
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (after) {
        after();
    }
    return 0;
}

void unit_add(const char *name, unit_fn *body)
{
    if (n_tests == TESTS_MAX) {
        (void)fprintf(stderr, "%s: one test too many, TESTS_MAX is %d\n", name, TESTS_MAX);
        abort();
    }
    bodies[n_tests] = body;
    tests[n_tests] = (struct CMUnitTest){name, run, set_up, tear_down, &bodies[n_tests]};
    n_tests++;
}

bool unit_say(ptrdiff_t number, const char *text)
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
    (void)unit_say(0, part);
    equals = number ? strrchr(part, '=') : NULL;
    if (equals) {
        *equals = '\0';
        *number = strtoll(equals + 1, NULL, 10);
    }
    return true;
}

void unit_check(const struct unit_pair *pairs, const char *file, int line)
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

int main(void)
{
    return cmocka_run_group_tests_name(program_invocation_short_name, tests, NULL, NULL);
}
