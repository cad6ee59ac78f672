/* What a client that nobody uses at the moment keeps of this process's memory: what it has from the
 * allocator, and what is resident because of it: stacks of its thread and the allocator's own room
 * included. The code of all libraries is resident before anything is measured. */

#include "fixture.h"

#include "counting.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "net/conn/conn_threads.h"

#include <malloc.h>

enum { CLIENTS = 16, BUDGET_BYTES = 300 * 1024 };

struct use {
    int64_t timers;
    int64_t resident;
};

static int64_t resident_bytes(void)
{
    char text[4096];
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
    const char *row;

    text[length] = '\0';
    if (file) {
        (void)fclose(file);
    }
    row = strstr(text, "Rss:");
    assert_non_null(row);
    return 1024 * strtoll(row + strlen("Rss:"), NULL, 10);
}

static struct use use_now(void)
{
    struct mallinfo2 info = mallinfo2();

    return (struct use){(int64_t)(info.uordblks + info.hblkhd), resident_bytes()};
}

/* It has taken a lock and given it back. */
static rql_client *make_used(void)
{
    rql_client *made = new_client();

    CHECK_OK(rql_lock_release(hold(made, "used"), NULL));
    return made;
}

/* Or its lock has ended, where the machine stood still for that long. */
static bool has_renewed_or_lost(void *data)
{
    const rql_lock *lock = data;

    return rqli_conn_n_commands(lock->client->fleet.first.background) > 0 ||
           rql_lock_get_state(lock) == RQL_GONE;
}

/* One that it has lost is had again. */
static void keep_a_lock(rql_client *made)
{
    rql_lock_options options = patient(made);

    options.ttl_ms = 300;
    options.auto_extend = true;
    do {
        rql_lock *lock = hold_with(made, "kept", &options);

        assert_true(wait_until(has_renewed_or_lost, lock, AWAIT_MS));
        (void)!rql_lock_release(lock, NULL);
    } while (rqli_conn_n_commands(made->fleet.first.background) == 0);
}

/* It has waited as well, and kept a lock alive: it has all its connections, and its thread. */
static rql_client *make_awake(void)
{
    rql_client *made = make_used();
    struct waiter waiter = {.client = made, .name = "waited", .releases = true};
    rql_lock *lock = hold(made, "waited");

    waiter.options = patient(made);
    waiter_start_as(&waiter, 1);
    CHECK_OK(rql_lock_release(lock, NULL));
    CHECK_OK(waiter_join(&waiter));
    keep_a_lock(made);
    return made;
}

/* The first of its kind is not counted: it also pays for what all of them share. */
static void check(const char *what, rql_client *(*make)(void))
{
    rql_client *clients[CLIENTS + 1];
    struct use before;
    struct use use;

    clients[CLIENTS] = make();
    (void)malloc_trim(0); /* what others have left behind is not there to be used again */
    before = use_now();
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = make();
    }
    use = use_now();
    use.timers = (use.timers - before.timers) / CLIENTS;
    use.resident = (use.resident - before.resident) / CLIENTS;
    for (int i = 0; i <= CLIENTS; i++) {
        rql_client_free(clients[i]);
    }
    (void)printf("# %s: %lld bytes allocated, %lld resident, of %d\n", what, (long long)use.timers,
                 (long long)use.resident, BUDGET_BYTES);
    assert_in_range(use.timers, 1, BUDGET_BYTES);
    assert_in_range(use.resident, 1, BUDGET_BYTES);
}

TEST(a_client_that_was_used)
{
    check("a client that was used", make_used);
}

TEST(a_client_with_all_its_connections_and_its_thread)
{
    check("a client that has waited and extended", make_awake);
}

FIXTURE(start_server, stop_server, NULL, NULL);
SKIP_UNLESS(counting_works(), "a sanitizer has the allocator");
