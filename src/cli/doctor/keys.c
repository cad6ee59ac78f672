#include "doctor.h"

#include "counts.h"

#include <stdio.h>

/* keys.damaged: checks the locks and queues that are stored. */

enum { KEY_SIZE = 64 };

struct found {
    int64_t n_damaged;      /* keys that are not valid locks or queues */
    int64_t n_endless;      /* locks without a TTL */
    char damaged[KEY_SIZE]; /* the first of them */
    char endless[KEY_SIZE];
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

static bool read_locks(struct doctor *self, struct found *found)
{
    CLI_AUTO(rql_free) rql_lock_info_list *locks = NULL;

    if (rql_locks_inspect(self->client, &locks, &self->error) != RQL_OK) {
        return false;
    }
    for (size_t i = 0; i < locks->count; i++) {
        const rql_lock_info *lock = locks->item[i];

        if (cli_is_damaged(lock->status)) {
            note(found->damaged, &found->n_damaged, lock->key);
        } else if (lock->status == RQL_KEY_ALIVE && lock->remaining_ms == RQL_FOREVER) {
            note(found->endless, &found->n_endless, lock->key);
        }
    }
    return true;
}

static bool read_queues(struct doctor *self, struct found *found)
{
    CLI_AUTO(rql_free) rql_queue_info_list *queues = NULL;

    if (rql_queues_inspect(self->client, &queues, &self->error) != RQL_OK) {
        return false;
    }
    for (size_t i = 0; i < queues->count; i++) {
        const rql_queue_info *queue = queues->item[i];

        if (cli_is_damaged(queue->status)) {
            note(found->damaged, &found->n_damaged, queue->key);
        }
    }
    return true;
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
    if (is_read && (!read_locks(self, &found) || !read_queues(self, &found))) {
        return false;
    }
    doctor_number(self, "", "keys", n_keys);
    doctor_flag(self, "hides_size", n_keys < 0);
    doctor_flag(self, "is_too_large", !is_read);
    doctor_flag(self, "has_damaged", found.n_damaged > 0);
    doctor_flag(self, "has_endless", found.n_endless > 0);
    doctor_number(self, "keys.damaged", "damaged", found.n_damaged);
    doctor_number(self, "keys.damaged", "without_ttl", found.n_endless);
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
};

const struct doctor_group doctor_keys = {rows, sizeof rows / sizeof rows[0], read_keys,
                                         DOCTOR_LOCKS};
