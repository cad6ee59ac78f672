#include "remote.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Released lazily: what is told of them later has their name. */
static struct hold *_Atomic past;

static void end_hold(struct hold *hold)
{
    if (!hold->is_lazy) {
        free(hold);
        return;
    }
    hold->next = atomic_load(&past);
    while (!atomic_compare_exchange_weak(&past, &hold->next, hold)) {
    }
}

void free_past_holds(void)
{
    while (past) {
        struct hold *hold = past;

        past = hold->next;
        free(hold);
    }
}

struct hold *hold_new(const cJSON *words)
{
    struct hold *hold = own_memory(sizeof *hold);

    (void)snprintf(hold->name, sizeof hold->name, "%s", text_in(words, "lock"));
    hold->releases = cJSON_IsTrue(cJSON_GetObjectItem(words, "releases_when_lost"));
    hold->releases_late = cJSON_IsTrue(cJSON_GetObjectItem(words, "releases_late"));
    return hold;
}

/* When, by the machine's time of day. */
void say_lost(rql_lock *lock, void *data)
{
    struct hold *hold = data;
    cJSON *line = cJSON_CreateObject();
    struct timespec now;
    int64_t at_us;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    at_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    (void)cJSON_AddNumberToObject(line, "at_us", (double)at_us);
    (void)cJSON_AddStringToObject(line, "lost", hold->name);
    (void)cJSON_AddStringToObject(line, "name", rql_lock_describe(lock).name);
    if (hold->releases) {
        cJSON *words = cJSON_CreateObject();

        (void)cJSON_AddStringToObject(words, "lock", hold->name);
        (void)take_object(A_HOLD, words, "lock");
        cJSON_Delete(words);
        (void)cJSON_AddNumberToObject(line, "state", rql_lock_get_state(lock));
        (void)cJSON_AddNumberToObject(line, "released", rql_lock_release(lock, NULL));
        free(hold);
    } else if (hold->releases_late) {
        (void)cJSON_AddNumberToObject(line, "state", rql_lock_get_state(lock));
        (void)cJSON_AddNumberToObject(line, "released", rql_lock_release(lock, NULL));
    }
    say(line);
}

void set_listeners(const cJSON *words, struct hold *hold, rql_lock_options *out)
{
    hold->is_lazy = out->lazy_release;
    out->on_lost = say_lost;
    out->user_data = hold;
    if (cJSON_IsTrue(cJSON_GetObjectItem(words, "logs"))) {
        out->logger_data = hold->name;
        out->instrumenter = NULL;
    }
}

/* Unless the caller is to have rql_error alone. */
bool wants_refusal(const cJSON *words)
{
    return !cJSON_IsTrue(cJSON_GetObjectItem(words, "no_refusal"));
}

void add_refusal(cJSON *reply, const rql_refusal *refusal)
{
    cJSON *added = cJSON_AddObjectToObject(reply, "refusal");
    cJSON *queue;

    (void)cJSON_AddNumberToObject(added, "reason", refusal->reason);
    (void)cJSON_AddStringToObject(added, "message", refusal->message);
    (void)cJSON_AddNumberToObject(added, "waited_us", (double)refusal->waited_us);
    (void)cJSON_AddNumberToObject(added, "tries", (double)refusal->tries);
    (void)cJSON_AddNumberToObject(added, "n_over", (double)refusal->n_over);
    (void)cJSON_AddNumberToObject(added, "position", (double)refusal->position);
    if (refusal->holder) {
        (void)cJSON_AddStringToObject(added, "holder", refusal->holder->name);
        (void)cJSON_AddStringToObject(added, "holder_acq_id", refusal->holder->acq_id);
    }
    if (refusal->queue) {
        queue = cJSON_AddArrayToObject(added, "queue");
        for (size_t i = 0; i < refusal->queue->n_requests; i++) {
            const char *acquirer = refusal->queue->requests[i].acq_id;

            (void)cJSON_AddItemToArray(queue, cJSON_CreateString(acquirer));
        }
    }
}

void add_result(cJSON *reply, const struct hold *hold)
{
    const rql_series_result *result = &hold->result;
    cJSON *added;
    cJSON *fates;

    if (result->count == 0) {
        return;
    }
    added = cJSON_AddObjectToObject(reply, "result");
    (void)cJSON_AddNumberToObject(added, "reason", result->reason);
    (void)cJSON_AddNumberToObject(added, "n_acquired", (double)result->n_acquired);
    (void)cJSON_AddNumberToObject(added, "failed_on", (double)result->failed_on);
    (void)cJSON_AddNumberToObject(added, "acq_time_us", (double)result->acq_time_us);
    (void)cJSON_AddNumberToObject(added, "hold_time_us", (double)result->hold_time_us);
    (void)cJSON_AddNumberToObject(added, "ending", result->ending);
    fates = cJSON_AddArrayToObject(added, "fates");
    for (size_t i = 0; i < result->count; i++) {
        (void)cJSON_AddItemToArray(fates, cJSON_CreateNumber(result->fate[i]));
    }
}

/* Of the first lock; tokens and secrets of all, in the given order. */
void add_facts(cJSON *reply, const struct hold *hold)
{
    size_t count = hold->series ? rql_series_count(hold->series) : 1;
    cJSON *tokens = cJSON_AddArrayToObject(reply, "tokens");
    cJSON *secrets = cJSON_AddArrayToObject(reply, "secrets");
    const rql_lock *first = hold->series ? rql_series_lock(hold->series, 0) : hold->lock;
    rql_lock_facts facts = rql_lock_describe(first);

    for (size_t i = 0; i < count; i++) {
        const rql_lock *lock = hold->series ? rql_series_lock(hold->series, i) : hold->lock;

        (void)cJSON_AddItemToArray(tokens, cJSON_CreateNumber((double)rql_lock_token(lock)));
        (void)cJSON_AddItemToArray(secrets, cJSON_CreateString(rql_lock_secret(lock)));
    }
    (void)cJSON_AddStringToObject(reply, "node", rql_lock_node(first));
    (void)cJSON_AddStringToObject(reply, "name", facts.name);
    (void)cJSON_AddStringToObject(reply, "lock_key", facts.lock_key);
    (void)cJSON_AddStringToObject(reply, "acq_id", facts.acq_id);
    (void)cJSON_AddStringToObject(reply, "hst_id", facts.hst_id);
    (void)cJSON_AddNumberToObject(reply, "process", facts.process);
    (void)cJSON_AddNumberToObject(reply, "ts_us", (double)facts.ts_us);
    (void)cJSON_AddNumberToObject(reply, "ttl_ms", (double)facts.ttl_ms);
    (void)cJSON_AddNumberToObject(reply, "waited_us", (double)facts.waited_us);
    (void)cJSON_AddNumberToObject(reply, "tries", (double)facts.tries);
    (void)cJSON_AddBoolToObject(reply, "handed_over", facts.handed_over);
    (void)cJSON_AddBoolToObject(reply, "fsynced", facts.fsynced);
    (void)cJSON_AddNumberToObject(reply, "replicas_acked", facts.replicas_acked);
}

static void acquire(rql_client *client, cJSON *words)
{
    bool tries = cJSON_IsTrue(cJSON_GetObjectItem(words, "try"));
    struct hold *hold = hold_new(words);
    struct settings settings;
    rql_refusal refusal = {0};
    rql_error error = {0};
    rql_status status;
    cJSON *reply;

    read_settings(client, words, &settings);
    set_listeners(words, hold, &settings.lock);
    settings.lock.refusal = wants_refusal(words) ? &refusal : NULL;
    settings.series.result = &hold->result;
    if (settings.is_series && tries) {
        status = rql_series_try(client, &settings.series, &hold->series, &error);
    } else if (settings.is_series) {
        status = rql_series_acquire(client, &settings.series, &hold->series, &error);
    } else if (tries) {
        status = rql_lock_try(client, settings.names[0], &settings.lock, &hold->lock, &error);
    } else {
        status = rql_lock_acquire(client, settings.names[0], &settings.lock, &hold->lock, &error);
    }
    reply = answer_to(words, status, &error);
    add_result(reply, hold);
    if (status == RQL_OK) {
        add_facts(reply, hold);
        add_object(A_HOLD, words, "lock", hold);
    } else {
        free(hold);
    }
    if (status > 0) {
        add_refusal(reply, &refusal);
    }
    rql_refusal_clear(&refusal);
    say(reply);
    cJSON_Delete(words);
}

static void release(rql_client *client, cJSON *words)
{
    struct hold *hold = take_object(A_HOLD, words, "lock");
    rql_error error = {0};
    rql_status status;
    cJSON *reply;

    (void)client;
    if (hold->series) {
        status = rql_series_release(hold->series, &hold->result, &error);
    } else {
        status = rql_lock_release(hold->lock, &error);
    }
    reply = answer_to(words, status, &error);
    add_result(reply, hold);
    end_hold(hold);
    say(reply);
    cJSON_Delete(words);
}

/* Acquires and releases n times; says how long that took. */
static void pairs(rql_client *client, cJSON *words)
{
    struct settings settings;
    rql_status status = RQL_OK;
    rql_error error = {0};
    rql_lock *lock;
    cJSON *reply;

    read_settings(client, words, &settings);
    for (int64_t n = number_or(words, "n", 1); n > 0 && !status; n--) {
        status = rql_lock_acquire(client, settings.names[0], &settings.lock, &lock, &error);
        status = status ? status : rql_lock_release(lock, &error);
    }
    reply = answer_to(words, status, &error);
    say(reply);
    cJSON_Delete(words);
}

/* The lock stays on the server until its ttl. */
static void forget(rql_client *client, cJSON *words)
{
    struct hold *hold = take_object(A_HOLD, words, "lock");

    (void)client;
    if (hold->series) {
        (void)rql_series_forget(hold->series);
    } else {
        (void)rql_lock_forget(hold->lock);
    }
    free(hold);
    answer(words, RQL_OK, NULL);
}

static void extend(rql_client *client, cJSON *words)
{
    const struct hold *hold = find_object(A_HOLD, words, "lock");
    int64_t ttl_ms = number_or(words, "ttl_ms", 0);
    rql_error error = {0};
    rql_status status;

    (void)client;
    status = hold->series ? rql_series_extend(hold->series, ttl_ms, &error)
                          : rql_lock_extend(hold->lock, ttl_ms, &error);
    answer(words, status, &error);
}

static void verify(rql_client *client, cJSON *words)
{
    const struct hold *hold = find_object(A_HOLD, words, "lock");
    rql_error error = {0};

    (void)client;
    if (hold->series) {
        wrong(words, "a series cannot be verified");
    }
    answer(words, rql_lock_verify(hold->lock, &error), &error);
}

/* What its holder may rely on, by the local clock. */
static void state(rql_client *client, cJSON *words)
{
    const struct hold *hold = find_object(A_HOLD, words, "lock");
    cJSON *reply = answer_to(words, RQL_OK, NULL);
    rql_lock_state held;
    int64_t left_ms;

    (void)client;
    held = hold->series ? rql_series_get_state(hold->series) : rql_lock_get_state(hold->lock);
    left_ms =
        hold->series ? rql_series_remaining_ms(hold->series) : rql_lock_remaining_ms(hold->lock);
    (void)cJSON_AddNumberToObject(reply, "state", held);
    (void)cJSON_AddNumberToObject(reply, "remaining_ms", (double)left_ms);
    say(reply);
    cJSON_Delete(words);
}

/* Whether its descriptor becomes readable within that time. */
static void await_loss(rql_client *client, cJSON *words)
{
    const struct hold *hold = find_object(A_HOLD, words, "lock");
    struct pollfd loss = {.events = POLLIN};
    rql_error error = {0};
    rql_status status = hold->series ? rql_series_lost_fd(hold->series, &loss.fd, &error)
                                     : rql_lock_lost_fd(hold->lock, &loss.fd, &error);
    cJSON *reply = answer_to(words, status, &error);
    bool is_readable =
        status == RQL_OK && poll(&loss, 1, (int)number_or(words, "within_ms", 0)) > 0;

    (void)client;
    (void)cJSON_AddBoolToObject(reply, "is_readable", is_readable);
    say(reply);
    cJSON_Delete(words);
}

static void force_unlock(rql_client *client, cJSON *words)
{
    rql_unlock_result result = {0};
    rql_error error = {0};
    rql_status status = rql_force_unlock(client, text_in(words, "name"), &result, &error);
    cJSON *reply = answer_to(words, status, &error);

    (void)cJSON_AddBoolToObject(reply, "lock_released", result.lock_released);
    (void)cJSON_AddBoolToObject(reply, "queue_released", result.queue_released);
    (void)cJSON_AddNumberToObject(reply, "rel_time_us", (double)result.rel_time_us);
    say(reply);
    cJSON_Delete(words);
}

static void force_extend(rql_client *client, cJSON *words)
{
    rql_error error = {0};
    int64_t add_ms = number_or(words, "add_ms", 0);

    answer(words, rql_force_extend(client, text_in(words, "name"), add_ms, &error), &error);
}

/* What a secret is good for, whoever has it: extends if there is a ttl, and releases if not. */
static void use_secret(rql_client *client, cJSON *words)
{
    const char *name = text_in(words, "name");
    const char *secret = text_in(words, "secret");
    rql_error error = {0};
    rql_status status;

    status = cJSON_HasObjectItem(words, "ttl_ms")
                 ? rql_extend_by_secret(client, name, secret, number_or(words, "ttl_ms", 0), &error)
                 : rql_release_by_secret(client, name, secret, &error);
    answer(words, status, &error);
}

typedef rql_status list_fn(rql_client *client, rql_text_list **out, rql_error *error);

static void tell_list(list_fn *fn, rql_client *client, cJSON *words)
{
    rql_error error = {0};
    rql_text_list *list = NULL;
    rql_status status = fn(client, &list, &error);
    cJSON *reply = answer_to(words, status, &error);

    (void)cJSON_AddItemToObject(reply, "names", texts_of(list));
    rql_text_list_free(list);
    say(reply);
    cJSON_Delete(words);
}

static void acquired_locks(rql_client *client, cJSON *words)
{
    tell_list(rql_acquired_locks, client, words);
}

static void possible_hosts(rql_client *client, cJSON *words)
{
    tell_list(rql_possible_host_ids, client, words);
}

/* Who the calling thread is. */
static void whoami(rql_client *client, cJSON *words)
{
    cJSON *reply = answer_to(words, RQL_OK, NULL);
    uint64_t task = (uint64_t)number_or(words, "task", 0);
    char id[RQL_ID_SIZE];

    (void)cJSON_AddStringToObject(reply, "acq_id", rql_current_acquirer_id(client, task, id));
    (void)cJSON_AddStringToObject(reply, "hst_id", rql_current_host_id(client, id));
    (void)cJSON_AddStringToObject(reply, "identity", rql_client_identity(client));
    (void)cJSON_AddNumberToObject(reply, "thread", (double)this_thread());
    say(reply);
    cJSON_Delete(words);
}

static void connect_client(rql_client *client, cJSON *words)
{
    rql_error error = {0};

    answer(words, rql_client_connect(client, &error), &error);
}

static void check_until_free(rql_client *client, cJSON *words)
{
    struct settings settings;
    rql_error error = {0};
    rql_status status;

    read_settings(client, words, &settings);
    status = rql_check_until_free(client, settings.names[0], &settings.lock, &error);
    answer(words, status, &error);
}

static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Takes and gives back the lock again and again, until "end_us": how often since "begin_us", and
 * the longest wait that began since then. */
static void take_turns(rql_client *client, cJSON *words)
{
    const int64_t begin_us = number_or(words, "begin_us", 0);
    const int64_t end_us = number_or(words, "end_us", 0);
    int64_t longest_us = 0;
    int64_t count = 0;
    struct settings settings;
    rql_error error = {0};
    rql_status status = RQL_OK;
    cJSON *reply;

    read_settings(client, words, &settings);
    for (int64_t asked_us = now_us(); !status && asked_us < end_us; asked_us = now_us()) {
        rql_lock *lock = NULL;
        int64_t had_us;

        status = rql_lock_acquire(client, settings.names[0], &settings.lock, &lock, &error);
        had_us = now_us();
        if (asked_us >= begin_us && had_us - asked_us > longest_us) {
            longest_us = had_us - asked_us;
        }
        if (!status) {
            count += had_us >= begin_us && had_us < end_us;
            status = rql_lock_release(lock, &error);
        }
    }
    reply = answer_to(words, status, &error);
    (void)cJSON_AddNumberToObject(reply, "count", (double)count);
    (void)cJSON_AddNumberToObject(reply, "longest_us", (double)longest_us);
    say(reply);
    cJSON_Delete(words);
}

bool perform_on_thread(struct actor *actor, cJSON *words)
{
    static const struct {
        const char *name;
        void (*run)(rql_client *client, cJSON *words);
    } calls[] = {
        {"acquire", acquire},
        {"acquired_locks", acquired_locks},
        {"await_loss", await_loss},
        {"block", run_block},
        {"check_until_free", check_until_free},
        {"connect", connect_client},
        {"extend", extend},
        {"force_extend", force_extend},
        {"force_unlock", force_unlock},
        {"flush_zombies", flush_zombies},
        {"forget", forget},
        {"inspect", inspect},
        {"hosts", tell_hosts},
        {"possible_hosts", possible_hosts},
        {"probe_hosts", probe_hosts},
        {"pairs", pairs},
        {"release", release},
        {"state", state},
        {"sweep", sweep},
        {"turns", take_turns},
        {"use_secret", use_secret},
        {"verify", verify},
        {"whoami", whoami},
        {"zombies", tell_zombies},
    };

    if (strcmp(text_in(words, "do"), "with") == 0) {
        run_with(actor, words);
        return true;
    }
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(text_in(words, "do"), calls[i].name) == 0) {
            calls[i].run(actor_client(actor), words);
            return true;
        }
    }
    return false;
}
