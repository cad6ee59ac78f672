/* What a held lock and a waiting request cost the server's memory. used_memory counts everything:
 * the keys, what is in them, and their places in the tables of all keys and of all ends. */

#include "asking.h"

enum {
    HELD_BYTES = 400,    /* budgets, each */
    WAITING_BYTES = 450, /* of a client that several wait in */
    LIFE_BYTES = 150,    /* and once for each client: its heartbeat */
    LOCKS = 20000,
    REQUESTS = 10000,
    PER_CLIENT = 50,
    BATCH = 20,
};

#define NAME "orders:customer:%05d"

static int64_t used_memory(void)
{
    redisReply *reply = ask_reply("INFO memory");
    const char *at = strstr(reply->str, "used_memory:");
    int64_t bytes = strtoll(at + strlen("used_memory:"), NULL, 10);

    freeReplyObject(reply);
    return bytes;
}

/* A table that has just grown is there twice until it was used as often as it has places. */
static void finish_growing(void)
{
    freeReplyObject(redisCommand(raw, "EVAL %s 0 %d",
                                 "for i = 1, tonumber(ARGV[1]) do"
                                 " redis.call('EXISTS', string.format('rql:lock:" NAME "', i - 1)) "
                                 "end",
                                 LOCKS));
}

static void send_request(int lock, unsigned client, unsigned index)
{
    char memory[RQLI_KEYS_ROOM];
    struct rqli_keys keys;
    struct asker asker;
    char name[64];

    (void)snprintf(name, sizeof name, NAME, lock);
    rqli_keys_init(&keys, memory, &rqli_key_sets[RQLI_WHOLE], rqli_slice_of(name));
    asker_init(&asker, client, index);
    append_acquire(&keys, &asker, 0);
}

static void take_answers(int count, const char *what)
{
    for (int i = 0; i < count; i++) {
        take_answer(what);
    }
}

static void hold_locks(int count)
{
    for (int i = 0; i < count; i++) {
        send_request(i, 0, (unsigned)i);
        if (i % BATCH == BATCH - 1 || i == count - 1) {
            take_answers(i % BATCH + 1, HELD);
        }
    }
}

static void check(const char *what, int64_t bytes, int count, int budget)
{
    (void)printf("# %s: %lld bytes, of %d\n", what, (long long)(bytes / count), budget);
    assert_true(bytes <= (int64_t)count * budget);
}

TEST(a_held_lock)
{
    int64_t before = used_memory();

    hold_locks(LOCKS);
    finish_growing();
    check("a held lock", used_memory() - before, LOCKS, HELD_BYTES);
}

/* Returns what all of them cost. */
static int64_t queue_up(int n_locks, int per_client)
{
    int64_t before;

    hold_locks(n_locks);
    before = used_memory();
    for (int i = 0; i < REQUESTS; i++) {
        send_request(i % n_locks, 1U + (unsigned)(i / per_client), (unsigned)(LOCKS + i));
        if (i % BATCH == BATCH - 1) {
            take_answers(BATCH, QUEUED);
        }
    }
    return used_memory() - before;
}

TEST(a_request_in_one_long_queue)
{
    check("a request, of 10000 for one lock, 50 of each client", queue_up(1, PER_CLIENT), REQUESTS,
          WAITING_BYTES);
}

TEST(a_request_in_one_of_many_queues)
{
    check("a request, of 1000 for each of 10 locks, 50 of each client", queue_up(10, PER_CLIENT),
          REQUESTS, WAITING_BYTES);
}

TEST(the_only_request_of_its_client)
{
    check("a request and a client, of 10000 for one lock", queue_up(1, 1), REQUESTS,
          WAITING_BYTES + LIFE_BYTES);
}

static void start(void)
{
    start_server();
    load_script(RQLI_SCRIPT_ACQUIRE);
    /* The server keeps statistics of every command from its first use on. */
    hold_locks(1);
    send_request(0, 1, LOCKS);
    take_answers(1, QUEUED);
    finish_growing();
}

FIXTURE(start, stop_server, empty_server, NULL);
