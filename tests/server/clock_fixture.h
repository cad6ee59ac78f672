#ifndef CLOCK_FIXTURE_H
#define CLOCK_FIXTURE_H

/* A server whose time of day is the test's; see support/clock.c. Nobody else's. */

#include "fixture.h"

#include <stdatomic.h>
#include <sys/mman.h>

static _Atomic int64_t *server_clock_us; /* the server reads it whenever it asks for the time */
static char server_clock_path[] = "/tmp/rql-clock-XXXXXX";

static inline int make_server_clock(void)
{
    int fd = mkstemp(server_clock_path);
    void *page = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof *server_clock_us) == 0) {
        page = mmap(NULL, sizeof *server_clock_us, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_POPULATE, fd, 0);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    if (page == MAP_FAILED) {
        return -1;
    }
    server_clock_us = page;
    return 0;
}

static inline void set_or_unset(const char *name, const char *value)
{
    if (value) {
        (void)setenv(name, value, 1);
    } else {
        (void)unsetenv(name);
    }
}

/* `first_us`: its first time; 0: it goes on by itself, and is set forward by *server_clock_us. */
static inline int start_server_with_clock_at(void **state, int64_t first_us)
{
    const char *clock = getenv("RQL_TEST_CLOCK");
    const char *now = getenv("LD_PRELOAD");
    char *before;
    int failed;

    if (!clock || access(clock, R_OK) != 0 || make_server_clock()) {
        return -1;
    }
    *server_clock_us = first_us;
    before = now ? strdup(now) : NULL;
    (void)setenv("RQL_CLOCK", server_clock_path, 1);
    set_or_unset("RQL_CLOCK_STEPS", first_us ? NULL : "1");
    (void)setenv("LD_PRELOAD", clock, 1);
    failed = start_server(state);
    set_or_unset("LD_PRELOAD", before);
    free(before);
    return failed;
}

static inline int stop_server_with_clock(void **state)
{
    (void)munmap((void *)(uintptr_t)server_clock_us, sizeof *server_clock_us);
    (void)unlink(server_clock_path);
    return stop_server(state);
}

#endif
