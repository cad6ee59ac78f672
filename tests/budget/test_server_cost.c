/* What an acquisition costs the server when a hundred thousand others wait for the same lock,
 * against when one does. Both locks are in one server and take turns, call by call: a machine that
 * is slow for a while is slow to both. */

#include "asking.h"

enum { MANY = 100000, ROUNDS = 1000, BATCH = 100 };

/* The target is printed with the figure. The bound only has to hold on any machine, and to tell
 * what grows from what does not: a walk through the queue is a thousand times as much. */
enum { TARGET_PERCENT = 115, BOUND_PERCENT = 150 };

/* One lock, held and waited for. */
struct line {
    struct rqli_keys keys;
    char memory[RQLI_KEYS_ROOM];
    unsigned holder; /* numbers of the requests, in the order of the queue */
    unsigned newest;
};

struct step {
    const char *name;
    void (*run)(struct line *line);
    int64_t one_us;
    int64_t many_us;
};

static redisContext *listener;

/* Of all scripts run so far. */
static int64_t script_us(void)
{
    redisReply *reply = ask_reply("INFO commandstats");
    const char *row = strstr(reply->str, "cmdstat_evalsha:");
    const char *at = row ? strstr(row, "usec=") : NULL;
    int64_t us = at ? strtoll(at + strlen("usec="), NULL, 10) : 0;

    freeReplyObject(reply);
    return us;
}

/* known_us: for one that waits. */
static void send_request(const struct line *line, unsigned number, int64_t known_us)
{
    struct asker asker;

    asker_init(&asker, 0, number);
    append_acquire(&line->keys, &asker, known_us);
}

static void enqueue(struct line *line)
{
    send_request(line, ++line->newest, 0);
    take_answer(QUEUED);
}

/* The next in line looks again, as it does while it waits. */
static void look(struct line *line)
{
    send_request(line, line->holder + 1, 1);
    take_answer(QUEUED);
}

static void hand_on(struct line *line)
{
    struct asker asker;

    asker_init(&asker, 0, line->holder++);
    append_release(&line->keys, asker.nonce);
    take_answer("1 1"); /* released, and handed over */
}

/* The new holder lets itself be heard. */
static void claim(struct line *line)
{
    send_request(line, line->holder, 0);
    take_answer(HELD);
}

static void fill(struct line *line, const char *name, unsigned first, unsigned count)
{
    rqli_keys_init(&line->keys, line->memory, &rqli_key_sets[RQLI_WHOLE], rqli_slice_of(name));
    line->holder = first;
    line->newest = first;
    claim(line);
    for (unsigned i = 0; i < count; i++) {
        send_request(line, ++line->newest, 0);
        if (i % BATCH == BATCH - 1 || i == count - 1) {
            for (unsigned j = 0; j <= i % BATCH; j++) {
                take_answer(QUEUED);
            }
        }
    }
}

static int64_t cost_us(const struct step *step, struct line *line)
{
    int64_t begun_us = script_us();

    step->run(line);
    return script_us() - begun_us;
}

/* A round leaves as many waiting as before. */
static void go_round(struct step *steps, size_t n_steps, struct line *one, struct line *many)
{
    for (size_t i = 0; i < n_steps; i++) {
        steps[i].one_us += cost_us(&steps[i], one);
        steps[i].many_us += cost_us(&steps[i], many);
    }
}

static void show(const struct step *step, int target_percent)
{
    (void)printf("# %s: %.2f us with one waiting, %.2f us with %d: %.3f, of %.2f\n", step->name,
                 (double)step->one_us / ROUNDS, (double)step->many_us / ROUNDS, MANY,
                 (double)step->many_us / (double)step->one_us, target_percent / 100.0);
}

TEST(a_hundred_thousand_waiting_cost_no_more_than_one)
{
    struct step steps[] = {
        {.name = "enqueue", .run = enqueue},
        {.name = "look", .run = look},
        {.name = "release and hand over", .run = hand_on},
        {.name = "claim", .run = claim},
    };

    enum { STEPS = sizeof steps / sizeof steps[0] };
    struct step all = {.name = "all"};
    struct line one;
    struct line many;

    fill(&one, "orders:customer:00001", 0, 1);
    fill(&many, "orders:customer:00002", 500000, MANY);
    for (int i = 0; i < ROUNDS; i++) {
        go_round(steps, STEPS, &one, &many);
    }
    for (size_t i = 0; i < STEPS; i++) {
        show(&steps[i], TARGET_PERCENT);
        all.one_us += steps[i].one_us;
        all.many_us += steps[i].many_us;
    }
    show(&all, TARGET_PERCENT);
    assert_true(all.many_us * 100 <= all.one_us * BOUND_PERCENT);
}

/* Without a listener nothing is handed over. */
static void start(void)
{
    start_server();
    load_script(RQLI_SCRIPT_ACQUIRE);
    load_script(RQLI_SCRIPT_RELEASE);
    listener = redis_server_connect(&server);
    assert_non_null(listener);
    freeReplyObject(redisCommand(listener, "SUBSCRIBE rql:wake:%032x", 1));
}

static void stop(void)
{
    redisFree(listener);
    stop_server();
}

FIXTURE(start, stop, NULL, NULL);
