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
    hold->releases = is_set(words, "releases_when_lost");
    hold->releases_late = is_set(words, "releases_late");
    hold->makes_way = is_set(words, "makes_way");
    return hold;
}

/* When, by the machine's time of day. */
static void say_lost(rql_lock *lock, void *data)
{
    struct hold *hold = data;
    cJSON *line = cJSON_CreateObject();
    struct timespec now;
    int64_t at_us;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    at_us = (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
    (void)cJSON_AddNumberToObject(line, "at_us", (double)at_us);
    (void)cJSON_AddStringToObject(line, "lost", hold->name);
    (void)cJSON_AddStringToObject(line, "name", rql_lock_name(lock));
    if (hold->releases) {
        cJSON *words = cJSON_CreateObject();

        (void)cJSON_AddStringToObject(words, "lock", hold->name);
        (void)take_object(A_HOLD, words, "lock");
        cJSON_Delete(words);
    }
    if (hold->releases || hold->releases_late) {
        (void)cJSON_AddNumberToObject(line, "state", rql_lock_get_state(lock));
        (void)cJSON_AddNumberToObject(line, "released", rql_lock_release(lock, NULL));
    }
    if (hold->releases) {
        free(hold);
    }
    say(line);
}

static void say_wanted(rql_lock *lock, const rql_wanted *wanted, void *data)
{
    struct hold *hold = data;
    cJSON *line = cJSON_CreateObject();

    (void)cJSON_AddStringToObject(line, "wanted", hold->name);
    (void)cJSON_AddNumberToObject(line, "waiters", (double)wanted->waiters);
    (void)cJSON_AddNumberToObject(line, "within_ms", (double)wanted->within_ms);
    if (hold->makes_way) {
        cJSON *words = cJSON_CreateObject();

        (void)cJSON_AddStringToObject(words, "lock", hold->name);
        (void)take_object(A_HOLD, words, "lock");
        cJSON_Delete(words);
        (void)cJSON_AddNumberToObject(line, "released", rql_lock_release(lock, NULL));
        free(hold);
    }
    say(line);
}

void set_listeners(const cJSON *words, struct hold *hold, rql_lock_options *out)
{
    hold->is_lazy = out->lazy_release;
    out->on_lost = say_lost;
    out->on_lost_data = hold;
    if (is_set(words, "hears_wanted") || hold->makes_way) {
        out->on_wanted = say_wanted;
        out->on_wanted_data = hold;
    }
    if (is_set(words, "logs")) {
        out->logger_data = hold->name;
        out->instrumenter = NULL;
    }
}

/* Unless the caller is to have rql_error alone. */
bool wants_refusal(const cJSON *words)
{
    return !is_set(words, "no_refusal");
}

static void add_refusal(cJSON *reply, const rql_refusal *refusal)
{
    const struct number numbers[] = {
        {"reason", refusal->reason}, {"waited_us", refusal->waited_us}, {"tries", refusal->tries},
        {"n_over", refusal->n_over}, {"position", refusal->position},
    };
    cJSON *added = cJSON_AddObjectToObject(reply, "refusal");
    cJSON *queue;

    add_numbers(added, numbers, sizeof numbers / sizeof numbers[0]);
    (void)cJSON_AddStringToObject(added, "message", refusal->message);
    if (refusal->holder) {
        (void)cJSON_AddStringToObject(added, "holder", refusal->holder->name);
        (void)cJSON_AddStringToObject(added, "holder_acq_id", refusal->holder->acquirer_id);
    }
    if (refusal->queue) {
        queue = cJSON_AddArrayToObject(added, "queue");
        for (size_t i = 0; i < refusal->queue->n_requests; i++) {
            const char *acquirer = refusal->queue->requests[i]->acquirer_id;

            (void)cJSON_AddItemToArray(queue, cJSON_CreateString(acquirer));
        }
    }
}

void end_refusal(cJSON *reply, rql_status status, rql_refusal *refusal)
{
    if (status > 0) {
        add_refusal(reply, refusal);
    }
    rql_refusal_clear(refusal);
}

void add_result(cJSON *reply, const struct hold *hold)
{
    const rql_series_result *result = &hold->result;
    const struct number numbers[] = {
        {"reason", result->reason},
        {"n_acquired", (int64_t)result->n_acquired},
        {"failed_on", (int64_t)result->failed_on},
        {"acq_time_us", result->waited_us},
        {"hold_time_us", result->held_us},
        {"ending", result->ending},
    };
    cJSON *added;
    cJSON *fates;

    if (result->count == 0) {
        return;
    }
    added = cJSON_AddObjectToObject(reply, "result");
    add_numbers(added, numbers, sizeof numbers / sizeof numbers[0]);
    fates = cJSON_AddArrayToObject(added, "fates");
    for (size_t i = 0; i < result->count; i++) {
        (void)cJSON_AddItemToArray(fates, cJSON_CreateNumber(result->fate[i]));
    }
}

/* Of the first lock; tokens and secrets of all, in the given order. */
void add_slots(cJSON *reply, const rql_lock *lock)
{
    cJSON *added = cJSON_AddArrayToObject(reply, "slots");
    size_t count;
    const int *slots = rql_lock_slots(lock, &count);

    for (size_t i = 0; i < count; i++) {
        (void)cJSON_AddItemToArray(added, cJSON_CreateNumber(slots[i]));
    }
}

static void add_facts(cJSON *reply, const struct hold *hold)
{
    size_t count = hold->series ? rql_series_count(hold->series) : 1;
    cJSON *tokens = cJSON_AddArrayToObject(reply, "tokens");
    cJSON *secrets = cJSON_AddArrayToObject(reply, "secrets");
    const rql_lock *first = hold->series ? rql_series_lock(hold->series, 0) : hold->lock;
    rql_lock_facts facts;

    rql_lock_describe(first, &facts);
    for (size_t i = 0; i < count; i++) {
        const rql_lock *lock = hold->series ? rql_series_lock(hold->series, i) : hold->lock;

        (void)cJSON_AddItemToArray(tokens, cJSON_CreateNumber((double)rql_lock_token(lock)));
        (void)cJSON_AddItemToArray(secrets, cJSON_CreateString(rql_lock_secret(lock)));
    }
    (void)cJSON_AddStringToObject(reply, "node", rql_lock_node(first));
    (void)cJSON_AddStringToObject(reply, "name", facts.name);
    (void)cJSON_AddStringToObject(reply, "lock_key", facts.key);
    (void)cJSON_AddStringToObject(reply, "acq_id", facts.acquirer_id);
    (void)cJSON_AddStringToObject(reply, "hst_id", facts.host_id);
    (void)cJSON_AddNumberToObject(reply, "process", facts.process);
    (void)cJSON_AddNumberToObject(reply, "ts_us", (double)facts.acquired_at_us);
    (void)cJSON_AddNumberToObject(reply, "ttl_ms", (double)facts.ttl_ms);
    (void)cJSON_AddNumberToObject(reply, "waited_us", (double)facts.waited_us);
    (void)cJSON_AddNumberToObject(reply, "tries", (double)facts.tries);
    (void)cJSON_AddBoolToObject(reply, "handed_over", facts.handed_over);
    (void)cJSON_AddBoolToObject(reply, "fsynced", facts.fsynced);
    (void)cJSON_AddNumberToObject(reply, "replicas_acked", facts.replicas_acked);
    (void)cJSON_AddNumberToObject(reply, "share_units", (double)facts.share_units);
    (void)cJSON_AddNumberToObject(reply, "share_limit", (double)facts.share_limit);
    add_slots(reply, first);
}

void end_acquisition(cJSON *reply, const cJSON *words, rql_status status, struct hold *hold,
                     rql_refusal *refusal)
{
    add_result(reply, hold);
    if (status == RQL_OK) {
        add_facts(reply, hold);
        add_object(A_HOLD, words, "lock", hold);
    } else {
        free(hold);
    }
    end_refusal(reply, status, refusal);
}

static rql_status acquire(struct call *call)
{
    bool tries = is_set(call->words, "try");
    struct hold *hold = hold_new(call->words);
    struct settings settings;
    rql_refusal refusal;
    rql_status status;

    read_settings(call->client, call->words, &settings);
    set_listeners(call->words, hold, &settings.lock);
    rql_result_init(&refusal);
    rql_result_init(&hold->result);
    settings.lock.refusal = wants_refusal(call->words) ? &refusal : NULL;
    settings.series.result = &hold->result;
    if (settings.is_series) {
        settings.lock.fail_fast = settings.lock.fail_fast || tries;
        status = rql_series_acquire(call->client, &settings.series, &hold->series, &call->error);
    } else {
        status = (tries ? rql_lock_try : rql_lock_acquire)(
            call->client, settings.names[0], &settings.lock, &hold->lock, &call->error);
    }
    end_acquisition(call->reply, call->words, status, hold, &refusal);
    return status;
}

static rql_status release(struct call *call)
{
    struct hold *hold = take_object(A_HOLD, call->words, "lock");
    rql_status status = hold->series ? rql_series_release(hold->series, &hold->result, &call->error)
                                     : rql_lock_release(hold->lock, &call->error);

    add_result(call->reply, hold);
    end_hold(hold);
    return status;
}

/* The lock stays on the server until its ttl. */
static rql_status forget(struct call *call)
{
    struct hold *hold = take_object(A_HOLD, call->words, "lock");

    if (hold->series) {
        (void)rql_series_forget(hold->series);
    } else {
        (void)rql_lock_forget(hold->lock);
    }
    free(hold);
    return RQL_OK;
}

static rql_status extend(struct call *call)
{
    const struct hold *hold = find_object(A_HOLD, call->words, "lock");
    int64_t ttl_ms = number_or(call->words, "ttl_ms", 0);

    return hold->series ? rql_series_extend(hold->series, ttl_ms, &call->error)
                        : rql_lock_extend(hold->lock, ttl_ms, &call->error);
}

/* "options": the share that it has from then on. */
static rql_status lower(struct call *call)
{
    const struct hold *hold = find_object(A_HOLD, call->words, "lock");
    struct settings settings;
    rql_status status;

    read_settings(call->client, call->words, &settings);
    status = rql_lock_lower(hold->lock, &settings.lock, &call->error);
    add_slots(call->reply, hold->lock);
    return status;
}

static rql_status drain(struct call *call)
{
    return rql_client_drain(call->client, number_or(call->words, "timeout_ms", 0), &call->error);
}

static rql_status verify(struct call *call)
{
    const struct hold *hold = find_object(A_HOLD, call->words, "lock");

    if (hold->series) {
        wrong(call->words, "a series cannot be verified");
    }
    return rql_lock_verify(hold->lock, &call->error);
}

/* What its holder may rely on, by the local clock. */
static rql_status state(struct call *call)
{
    const struct hold *hold = find_object(A_HOLD, call->words, "lock");
    rql_lock_state held =
        hold->series ? rql_series_get_state(hold->series) : rql_lock_get_state(hold->lock);
    int64_t left_ms =
        hold->series ? rql_series_remaining_ms(hold->series) : rql_lock_remaining_ms(hold->lock);

    (void)cJSON_AddNumberToObject(call->reply, "state", held);
    (void)cJSON_AddNumberToObject(call->reply, "remaining_ms", (double)left_ms);
    return RQL_OK;
}

/* Whether its descriptor becomes readable within that time. */
static rql_status await_loss(struct call *call)
{
    const struct hold *hold = find_object(A_HOLD, call->words, "lock");
    struct pollfd loss = {.events = POLLIN};
    rql_status status = hold->series ? rql_series_lost_fd(hold->series, &loss.fd, &call->error)
                                     : rql_lock_lost_fd(hold->lock, &loss.fd, &call->error);
    int within_ms = (int)number_or(call->words, "within_ms", 0);

    (void)cJSON_AddBoolToObject(call->reply, "is_readable",
                                status == RQL_OK && poll(&loss, 1, within_ms) > 0);
    return status;
}

static rql_status force_unlock(struct call *call)
{
    rql_unlock_result result = {0};
    rql_status status =
        rql_lock_force_unlock(call->client, text_in(call->words, "name"), &result, &call->error);

    (void)cJSON_AddBoolToObject(call->reply, "lock_released", result.lock_released);
    (void)cJSON_AddBoolToObject(call->reply, "queue_released", result.queue_released);
    (void)cJSON_AddNumberToObject(call->reply, "rel_time_us", (double)result.duration_us);
    return status;
}

static rql_status force_extend(struct call *call)
{
    return rql_lock_force_extend(call->client, text_in(call->words, "name"),
                                 number_or(call->words, "add_ms", 0), &call->error);
}

/* What a secret is good for, whoever has it: extends if there is a ttl, and releases if not. */
static rql_status use_secret(struct call *call)
{
    const char *name = text_in(call->words, "name");
    const char *secret = text_in(call->words, "secret");
    int64_t ttl_ms = number_or(call->words, "ttl_ms", 0);

    return cJSON_HasObjectItem(call->words, "ttl_ms")
               ? rql_lock_extend_by_secret(call->client, name, secret, ttl_ms, &call->error)
               : rql_lock_release_by_secret(call->client, name, secret, &call->error);
}

/* Who the calling thread is. */
static rql_status whoami(struct call *call)
{
    uint64_t task = (uint64_t)number_or(call->words, "task", 0);
    char id[RQL_ID_SIZE];

    add_text(call->reply, "acq_id", rql_client_acquirer_id(call->client, task, id));
    add_text(call->reply, "hst_id", rql_client_host_id(call->client, id));
    add_text(call->reply, "identity", rql_client_identity(call->client));
    (void)cJSON_AddNumberToObject(call->reply, "thread", (double)this_thread());
    return RQL_OK;
}

static rql_status connect_client(struct call *call)
{
    return rql_client_connect(call->client, &call->error);
}

static rql_status check_until_free(struct call *call)
{
    struct settings settings;

    read_settings(call->client, call->words, &settings);
    return rql_lock_wait_until_free(call->client, settings.names[0], &settings.lock, &call->error);
}

static int64_t now_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Takes and gives back the lock "n" times, or until "end_us": how often since "begin_us", and the
 * longest wait that began since then. */
static rql_status take_turns(struct call *call)
{
    const int64_t begin_us = number_or(call->words, "begin_us", 0);
    const int64_t end_us = number_or(call->words, "end_us", INT64_MAX);
    int64_t left = number_or(call->words, "n", INT64_MAX);
    int64_t longest_us = 0;
    int64_t count = 0;
    struct settings settings;
    rql_status status = RQL_OK;

    read_settings(call->client, call->words, &settings);
    for (int64_t asked_us = now_us(); !status && left > 0 && asked_us < end_us;
         asked_us = now_us(), left--) {
        rql_lock *lock = NULL;
        int64_t had_us;

        status =
            rql_lock_acquire(call->client, settings.names[0], &settings.lock, &lock, &call->error);
        had_us = now_us();
        if (asked_us >= begin_us && had_us - asked_us > longest_us) {
            longest_us = had_us - asked_us;
        }
        if (!status) {
            count += had_us >= begin_us && had_us < end_us;
            status = rql_lock_release(lock, &call->error);
        }
    }
    (void)cJSON_AddNumberToObject(call->reply, "count", (double)count);
    (void)cJSON_AddNumberToObject(call->reply, "longest_us", (double)longest_us);
    return status;
}

bool perform_on_thread(struct actor *actor, cJSON *words)
{
    static const struct call_row rows[] = {
        {"acquire", acquire},
        {"await_loss", await_loss},
        {"block", run_block},
        {"check_until_free", check_until_free},
        {"connect", connect_client},
        {"drain", drain},
        {"drain_host", drain_host},
        {"extend", extend},
        {"force_extend", force_extend},
        {"lower", lower},
        {"force_unlock", force_unlock},
        {"flush_zombies", flush_zombies},
        {"forget", forget},
        {"inspect", inspect},
        {"hosts", tell_hosts},
        {"probe_hosts", probe_hosts},
        {"release", release},
        {"state", state},
        {"sweep", sweep},
        {"turns", take_turns},
        {"use_secret", use_secret},
        {"verify", verify},
        {"whoami", whoami},
        {"zombies", tell_zombies},
    };

    return make_call(rows, sizeof rows / sizeof rows[0], actor, words);
}
