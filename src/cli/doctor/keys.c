#include "doctor.h"

#include "convoy.h"
#include "counts.h"

#include <stdio.h>
#include <time.h>

/* keys.damaged: checks the locks and queues that are stored. keys.waits: whether a holder waits for
 * another lock, while others wait for its own. */

enum { KEY_SIZE = 64, CONVOY_SIZE = 768 };

struct found {
    int64_t n_damaged;      /* keys that are not valid locks or queues */
    int64_t n_endless;      /* locks without a TTL */
    char damaged[KEY_SIZE]; /* the first of them */
    char endless[KEY_SIZE];
    int64_t n_circles;        /* queues whose holder waits, for a lock of a circle of holders */
    int64_t n_convoys;        /* or for another lock */
    char circle[CONVOY_SIZE]; /* the first of them */
    char convoy[CONVOY_SIZE];
};

/* Counts the keys of all servers: -1 if one of them may not be asked. Returns false if one of them
 * does not answer. */
static bool count_keys(struct doctor *self, int64_t *out)
{
    static const char *const words[] = {"DBSIZE", NULL};
    rql_status status = RQL_OK;
    int64_t count = 0;

    for (size_t n = 0; status == RQL_OK && count >= 0; n++) {
        CLI_AUTO(rql_free) rql_reply *reply = NULL;

        status = doctor_send(self->bare, n, words, &reply, &self->error);
        if (status == RQL_OK) {
            count = rql_reply_get_type(reply) == RQL_REPLY_INTEGER
                        ? count + rql_reply_integer(reply)
                        : -1;
        }
    }
    *out = count;
    return status == RQL_NOT_FOUND || count < 0;
}

static void note(char first[KEY_SIZE], int64_t *count, const char *key)
{
    if ((*count)++ == 0) {
        (void)snprintf(first, KEY_SIZE, "%s", key);
    }
}

static void check_keys(const struct cli_wait_reading *reading, struct found *found)
{
    for (size_t i = 0; i < reading->locks->count; i++) {
        const rql_lock_info *lock = reading->locks->item[i];

        if (cli_is_damaged(lock->status)) {
            note(found->damaged, &found->n_damaged, lock->key);
        } else if (lock->status == RQL_KEY_ALIVE && lock->remaining_ms == RQL_FOREVER) {
            note(found->endless, &found->n_endless, lock->key);
        }
    }
    for (size_t i = 0; i < reading->queues->count; i++) {
        const rql_queue_info *queue = reading->queues->item[i];

        if (cli_is_damaged(queue->status)) {
            note(found->damaged, &found->n_damaged, queue->key);
        }
    }
}

/* Counts the queues whose holders wait in both readings. */
static void count_convoys(const struct cli_wait_reading *now, const struct cli_wait_reading *before,
                          const struct cli_names *names, struct found *found)
{
    for (size_t i = 0; i < now->queues->count; i++) {
        const char *name = now->queues->item[i]->name;
        __attribute__((cleanup(cli_convoy_free_p))) struct cli_convoy convoy =
            cli_convoy_find(&now->waits, &before->waits, names, name);
        int64_t *count = convoy.is_circle ? &found->n_circles : &found->n_convoys;

        if (convoy.text && (*count)++ == 0) {
            (void)snprintf(convoy.is_circle ? found->circle : found->convoy, CONVOY_SIZE,
                           "%.128s: %s", name, convoy.text);
        }
    }
}

/* Reads once more only if the first reading has such a queue. */
static bool check_waits(struct doctor *self, const struct cli_wait_reading *first,
                        struct found *found)
{
    const struct timespec pause = {.tv_nsec = CLI_CONVOY_MS * 1000000L};
    __attribute__((cleanup(cli_wait_reading_free_p))) struct cli_wait_reading second = {.locks =
                                                                                            NULL};
    CLI_AUTO(cli_names_free) struct cli_names names = {.clients = NULL};
    struct found at_once = {.n_damaged = 0};

    (void)!rql_clients_list(self->client, &names.clients, NULL);
    count_convoys(first, first, &names, &at_once);
    if (at_once.n_circles + at_once.n_convoys == 0) {
        return true;
    }
    (void)nanosleep(&pause, NULL);
    if (cli_wait_reading_read(&second, self->client, &self->error) != RQL_OK) {
        return false;
    }
    count_convoys(&second, first, &names, found);
    return true;
}

static bool check_all(struct doctor *self, struct found *found)
{
    __attribute__((cleanup(cli_wait_reading_free_p))) struct cli_wait_reading reading = {.locks =
                                                                                             NULL};

    if (cli_wait_reading_read(&reading, self->client, &self->error) != RQL_OK) {
        return false;
    }
    check_keys(&reading, found);
    return check_waits(self, &reading, found);
}

static bool read_keys(struct doctor *self)
{
    struct found found = {.n_damaged = 0};
    int64_t n_keys = 0;
    bool is_read;

    if (!count_keys(self, &n_keys)) {
        return false;
    }
    is_read = n_keys >= 0 && n_keys <= self->wish.max_keys;
    if (is_read && !check_all(self, &found)) {
        return false;
    }
    doctor_number(self, "", "keys", n_keys);
    doctor_flag(self, "hides_size", n_keys < 0);
    doctor_flag(self, "is_too_large", !is_read);
    doctor_flag(self, "has_damaged", found.n_damaged > 0);
    doctor_flag(self, "has_endless", found.n_endless > 0);
    doctor_number(self, "keys.damaged", "damaged", found.n_damaged);
    doctor_number(self, "keys.damaged", "without_ttl", found.n_endless);
    doctor_flag(self, "has_circle", found.n_circles > 0);
    doctor_flag(self, "has_convoy", found.n_convoys > 0);
    doctor_number(self, "keys.waits", "circles", found.n_circles);
    doctor_number(self, "keys.waits", "convoys", found.n_convoys);
    doctor_text(self, "", "circle", found.circle);
    doctor_text(self, "", "convoy", found.convoy);
    doctor_text(self, "", "damaged_key", found.damaged);
    doctor_text(self, "", "endless_key", found.endless);
    return true;
}

static const struct doctor_row rows[] = {
    DOCTOR_SKIP_ROW("keys.damaged", "hides_size", "stored locks: no right to DBSIZE"),
    DOCTOR_SKIP_ROW("keys.damaged", "is_too_large",
                    "stored locks: the database has {keys} key{keys:plural}, more than --max-keys"),
    {"keys.damaged", DOCTOR_WARN, "has_damaged",
     "invalid locks or queues: {damaged}, such as {damaged_key}",
     "a lock of that name cannot be taken",
     "find out which program wrote the key, then: redis-cli DEL KEY"},
    {"keys.damaged", DOCTOR_WARN, "has_endless",
     "locks without a TTL: {without_ttl}, such as {endless_key}",
     "such a lock never ends by itself", "rql info NAME, then: rql unlock NAME --force"},
    DOCTOR_GOOD_ROW("keys.damaged", NULL, "all stored locks and queues are valid"),
    DOCTOR_SKIP_ROW("keys.waits", "hides_size", "holders that wait: no right to DBSIZE"),
    DOCTOR_SKIP_ROW("keys.waits", "is_too_large",
                    "holders that wait: the database has {keys} key{keys:plural}, more than "
                    "--max-keys"),
    {"keys.waits", DOCTOR_WARN, "has_circle",
     "queues behind a circle of waiters: {circles}, such as {circle}",
     "each of them waits for another one, so none gets its lock before its time is over",
     "rql top, then b; end one of their commands, or choose one of the locks in rql top and press "
     "u"},
    {"keys.waits", DOCTOR_NOTE, "has_convoy",
     "queues whose holder waits for another lock: {convoys}, such as {convoy}",
     "such a queue moves only when the other lock is released", "rql top, then b"},
    DOCTOR_GOOD_ROW("keys.waits", NULL, "no holder keeps others waiting while it waits itself"),
};

const struct doctor_group doctor_keys = {rows, sizeof rows / sizeof rows[0], read_keys,
                                         DOCTOR_LOCKS};
