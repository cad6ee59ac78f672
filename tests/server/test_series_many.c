#include "series_fixture.h"

#include <stdatomic.h>
#include <sys/mman.h>

/* Series over the same locks, named in opposite orders, from two processes. RQL_TEST_SERIES_ROUNDS
 * says how many rounds each thread makes; 20000 is the long version:
 *     RQL_TEST_SERIES_ROUNDS=20000 meson test -t 20 series_many */

enum { ROUNDS = 500, THREADS = 2, PROCESSES = 2, NAMES = 5, DEADLINE_MS = 60000 };

static const char *const names[NAMES] = {"a", "b", "c", "d", "e"};

/* Shared by the processes. */
struct board {
    atomic_int inside[NAMES]; /* holders */
    atomic_int n_overlaps;
    atomic_int n_done;
    atomic_int n_refused;
    atomic_int n_ended_early;
};

static struct board *board;
static int board_fd;
static const char *program;

static int rounds(void)
{
    const char *wanted = getenv("RQL_TEST_SERIES_ROUNDS");

    return wanted ? (int)strtol(wanted, NULL, 10) : ROUNDS;
}

/* Two to four neighbours, forwards or backwards. */
static size_t choose(unsigned *seed, bool backwards, size_t out[NAMES])
{
    size_t first;
    size_t count;

    *seed = *seed * 1103515245U + 12345U;
    first = (*seed >> 16) % NAMES;
    count = 2 + (*seed >> 24) % 3;
    for (size_t i = 0; i < count; i++) {
        out[i] = (first + (backwards ? count - 1 - i : i)) % NAMES;
    }
    return count;
}

static void hold_a_moment(const size_t *chosen, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (atomic_fetch_add(&board->inside[chosen[i]], 1) != 0) {
            atomic_fetch_add(&board->n_overlaps, 1);
        }
    }
    (void)sched_yield();
    for (size_t i = 0; i < count; i++) {
        atomic_fetch_sub(&board->inside[chosen[i]], 1);
    }
}

static void play_round(rql_client *client, unsigned *seed, bool backwards)
{
    size_t chosen[NAMES];
    const char *list[NAMES];
    size_t count = choose(seed, backwards, chosen);
    struct wish wish;
    rql_series *series = NULL;

    for (size_t i = 0; i < count; i++) {
        list[i] = names[chosen[i]];
    }
    wish_for(&wish, client, list, count);
    wish.lock.timeout_ms = DEADLINE_MS;
    wish.lock.queue_ttl_ms = RQL_FOREVER;
    if (rql_series_acquire(client, &wish.options, &series, NULL)) {
        atomic_fetch_add(&board->n_refused, 1);
        return;
    }
    hold_a_moment(chosen, count);
    if (rql_series_release(series, NULL, NULL)) {
        atomic_fetch_add(&board->n_ended_early, 1);
    }
}

struct player {
    pthread_t thread;
    rql_client *client;
    unsigned seed;
    bool backwards;
};

static void *play(void *data)
{
    struct player *self = data;

    for (int i = rounds(); i > 0; i--) {
        play_round(self->client, &self->seed, self->backwards);
    }
    atomic_fetch_add(&board->n_done, 1);
    return NULL;
}

static void play_in_threads(bool backwards)
{
    struct player players[THREADS];
    rql_client *client = new_client();

    for (unsigned i = 0; i < THREADS; i++) {
        players[i] = (struct player){
            .client = client, .seed = 7 * i + (backwards ? 3 : 1), .backwards = backwards};
        if (pthread_create(&players[i].thread, NULL, play, &players[i]) != 0) {
            abort();
        }
    }
    for (unsigned i = 0; i < THREADS; i++) {
        (void)pthread_join(players[i].thread, NULL);
    }
    rql_client_free(client);
}

/* A fresh program: sanitizers allow no threads after a fork without it. */
static void play_as(const char *direction)
{
    char fd[16];

    (void)snprintf(fd, sizeof fd, "%d", board_fd);
    (void)execl(program, program, direction, server.url, fd, (char *)NULL);
}

static void play_forwards(void)
{
    play_as("forwards");
}

static void play_backwards(void)
{
    play_as("backwards");
}

static bool open_board(int fd)
{
    void *memory = MAP_FAILED;

    if (fd >= 0 && ftruncate(fd, sizeof *board) == 0) {
        memory = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    board_fd = fd;
    board = memory == MAP_FAILED ? NULL : memory;
    return board != NULL;
}

static int play_alone(char **arguments)
{
    if (!open_board((int)strtol(arguments[3], NULL, 10))) {
        return 1;
    }
    (void)snprintf(server.url, sizeof server.url, "%s", arguments[2]);
    play_in_threads(strcmp(arguments[1], "backwards") == 0);
    return 0;
}

/* As one instant of the server: who waits holds nothing. Returns how many do both. */
static int64_t count_waiting_holders(void)
{
    static const char script[] =
        "local n, owners = 0, {} "
        "for _, name in ipairs(ARGV) do "
        "  owners[redis.call('HGET', 'rql:lock:' .. name, 'acq_id') or ''] = true "
        "end "
        "for _, name in ipairs(ARGV) do "
        "  for _, waiter in ipairs(redis.call('ZRANGE', 'rql:lock_queue:' .. name, 0, -1)) do "
        "    n = n + (owners[waiter] and 1 or 0) "
        "  end "
        "end "
        "return n";
    redisReply *reply = redisCommand(raw, "EVAL %s 0 a b c d e", script);
    int64_t count;

    assert_non_null(reply);
    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    count = reply->integer;
    freeReplyObject(reply);
    return count;
}

static bool all_are_done(void *data)
{
    int64_t *n_seen = data;

    *n_seen += count_waiting_holders();
    return board->n_done == PROCESSES * THREADS;
}

/* The time grows with the rounds: a deadlock shows as a refusal after DEADLINE_MS. */
static void opposite_orders_never_deadlock(void **state)
{
    int64_t n_seen = 0; /* who waited and held */
    pid_t children[PROCESSES] = {start_child(play_forwards), start_child(play_backwards)};
    int64_t budget_ms = DEADLINE_MS + (int64_t)rounds() * PROCESSES * THREADS * 50;

    (void)state;
    if (!wait_until(all_are_done, &n_seen, budget_ms)) {
        fail_msg("%d of %d threads came to their end", board->n_done, PROCESSES * THREADS);
    }
    for (size_t i = 0; i < PROCESSES; i++) {
        (void)waitpid(children[i], NULL, 0);
    }
    assert_int_equal(n_seen, 0);
    assert_int_equal(board->n_overlaps, 0);
    assert_int_equal(board->n_refused, 0);
    assert_int_equal(board->n_ended_early, 0);
    for (size_t i = 0; i < NAMES; i++) {
        CHECK_NOTHING_OF(names[i]);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opposite_orders_never_deadlock),
    };

    program = argv[0];
    if (argc == 4) {
        return play_alone(argv);
    }
    if (!redis_server_available()) {
        return skip_all("no redis-server");
    }
    if (!open_board(memfd_create("board", 0))) {
        return 1;
    }
    return cmocka_run_group_tests(tests, start_server, stop_server);
}
