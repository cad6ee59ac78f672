#include "admin/infos.h"
#include "admin/pages.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/result.h"
#include "net/conn/conn_threads.h"
#include "wire/keys.h"

#include <rql/history.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads single holds (lua/optional.md 74), a stream, from its end on. An entry that cannot be read
 * is left out, because another program has written it. */

enum {
    ENTRIES_PAGE = 500,
    ID_SIZE = 48,
    REMOVED_AT_ONCE = 100,
};

struct listing {
    struct rqli_infos holds;
    char end[ID_SIZE]; /* where the next page begins: "+", or "(" and an id */
    bool is_done;
};

static void fini_listing_p(struct listing *self)
{
    rqli_infos_fini_p(&self->holds);
}

/* ---- an entry ---- */

static const char *const texts[] = {"name", "user", "host", "client", "reason", "ended"};
static const char *const numbers[] = {"at_us", "waited_us", "held_us", "units", "token"};

enum {
    N_TEXTS = sizeof texts / sizeof texts[0],
    N_NUMBERS = sizeof numbers / sizeof numbers[0],
};

/* Returns the value of a field, or an empty text. */
static struct rqli_slice field_of(const struct rqli_reply *fields, const char *name)
{
    for (size_t i = 0; i + 1 < fields->count; i += 2) {
        if (rqli_slice_is(fields->items[i].text, name) &&
            rqli_is_plain(fields->items[i + 1].text)) {
            return fields->items[i + 1].text;
        }
    }
    return (struct rqli_slice){"", 0};
}

/* Returns whether it is {id, {name, value, ...}}, all of them texts. */
static bool is_entry(const struct rqli_reply *reply)
{
    const struct rqli_reply *fields = &reply->items[1];
    bool is_good = reply->type == RQLI_REPLY_ARRAY && reply->count == 2 &&
                   reply->items[0].type == RQLI_REPLY_TEXT && fields->type == RQLI_REPLY_ARRAY &&
                   reply->items[0].text.length + 2 <= ID_SIZE &&
                   rqli_is_plain(reply->items[0].text);

    for (size_t i = 0; is_good && i < fields->count; i++) {
        is_good = fields->items[i].type == RQLI_REPLY_TEXT;
    }
    return is_good;
}

/* Reads an entry in one allocation. NULL: no memory. */
static rql_history_info *read_entry(struct rqli_slice id, const struct rqli_reply *fields)
{
    size_t size = sizeof(rql_history_info) + id.length + 1 + N_TEXTS;
    rql_history_info *info;
    char *cursor;

    for (size_t i = 0; i < N_TEXTS; i++) {
        size += field_of(fields, texts[i]).length;
    }
    info = rqli_result_new(size);
    if (info) {
        const char **const to[] = {&info->name,   &info->user,   &info->host,
                                   &info->client, &info->reason, &info->ended};
        int64_t *const into[] = {&info->at_us, &info->waited_us, &info->held_us, &info->units,
                                 &info->token};

        cursor = (char *)(info + 1);
        info->id = rqli_pack(&cursor, id);
        for (size_t i = 0; i < N_TEXTS; i++) {
            *to[i] = rqli_pack(&cursor, field_of(fields, texts[i]));
        }
        for (size_t i = 0; i < N_NUMBERS; i++) {
            *into[i] = -1;
            (void)rqli_parse_int(field_of(fields, numbers[i]), into[i]);
        }
    }
    return info;
}

/* ---- pages ---- */

static bool are_entries(const struct rqli_reply *reply)
{
    bool is_good = reply->type == RQLI_REPLY_ARRAY;

    for (size_t i = 0; is_good && i < reply->count; i++) {
        is_good = is_entry(&reply->items[i]);
    }
    return is_good;
}

static void take_entries(struct listing *self, const struct rqli_reply *reply)
{
    for (size_t i = 0; i < reply->count; i++) {
        const struct rqli_reply *entry = reply->items[i].items;

        rqli_infos_add(&self->holds, read_entry(entry[0].text, &entry[1]));
        (void)snprintf(self->end, sizeof self->end, "(%s", entry[0].text.data);
    }
    self->is_done = reply->count < ENTRIES_PAGE;
}

static rql_status read_entries(struct listing *self, const struct rqli_reader *reader,
                               const struct rqli_keys *keys)
{
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    char count[16];
    rql_status status;

    (void)snprintf(count, sizeof count, "%d", ENTRIES_PAGE);
    status = rqli_query_about(reader->client, keys, &batch, reader->error, "XREVRANGE",
                              keys->lock.data, self->end, "-", "COUNT", count, NULL);
    if (status) {
        return rqli_reader_status(status, rqli_client_node(reader->client, keys), reader->error);
    }
    if (!are_entries(batch->reply)) {
        return rqli_batch_fault(batch, batch->reply, "XREVRANGE", reader->where, reader->error);
    }
    take_entries(self, batch->reply);
    return self->holds.failed ? rqli_fail_nomem(reader->error) : RQL_OK;
}

/* ---- the list ---- */

/* Compares ids, as in "1795989961690-0". */
static int compare_ids(const char *left, const char *right)
{
    size_t a = strcspn(left, "-");
    size_t b = strcspn(right, "-");
    int order = a != b ? (a > b) - (a < b) : strncmp(left, right, a);

    if (order == 0) {
        a = strlen(left);
        b = strlen(right);
        order = a != b ? (a > b) - (a < b) : strcmp(left, right);
    }
    return order;
}

static const rql_history_info *info_at(const void *item)
{
    return *(const rql_history_info *const *)item;
}

/* The latest first. */
static int compare_times(const void *a, const void *b)
{
    return compare_ids(info_at(b)->id, info_at(a)->id);
}

/* A lock of the gem has no token. */
static int compare_holds(const void *a, const void *b)
{
    const rql_history_info *left = info_at(a);
    const rql_history_info *right = info_at(b);
    int order = strcmp(left->name, right->name);

    order = order ? order : (left->token > right->token) - (left->token < right->token);
    return order || left->token >= 0 ? order : compare_ids(left->id, right->id);
}

/* Returns whether a holder noticed only that its hold was over, or does not know. */
static bool is_vague(const rql_history_info *info)
{
    return strcmp(info->ended, "lost") == 0 || strcmp(info->ended, "unknown") == 0;
}

/* Several parties may have recorded the same hold. The record of the one that ended it stays, and
 * of two of them the first. */
static int compare_records(const void *a, const void *b)
{
    int order = compare_holds(a, b);

    order = order ? order : is_vague(info_at(a)) - is_vague(info_at(b));
    return order ? order : compare_ids(info_at(a)->id, info_at(b)->id);
}

/* All of them, about 20,000 at most: the records of one hold may be far from each other. */
static rql_status read_all(struct listing *self, rql_client *client, rql_error *error)
{
    const struct rqli_key_set *set = rqli_client_nth_set(client, 0);
    const struct rqli_reader reader = {.client = client, .where = "history", .error = error};
    char key[RQLI_HISTORY_KEY_SIZE];
    const struct rqli_keys keys = {.set = set, .lock = rqli_history_key(set, key)};
    rql_status status = RQL_OK;

    while (!status && !self->is_done) {
        status = read_entries(self, &reader, &keys);
    }
    return status;
}

rql_status rql_history_list(rql_client *client, int64_t most, rql_history_info_list **out,
                            rql_error *error)
{
    RQLI_DEFER_CANCEL;
    __attribute__((cleanup(fini_listing_p))) struct listing listing = {.end = "+"};
    rql_history_info_list *list;
    rql_status status = rqli_client_check(client, error);

    if (!status && (!out || most < 1)) {
        status = rqli_fail(error, RQL_E_INVALID, "most is less than 1, or out is NULL");
    }
    status = status ? status : read_all(&listing, client, error);
    if (status) {
        return status;
    }
    list = rqli_infos_give(&listing.holds, sizeof *list, compare_records, compare_holds);
    if (!list) {
        return rqli_fail_nomem(error);
    }
    if (list->count > 0) {
        qsort(list->item, list->count, sizeof(void *), compare_times);
    }
    list->count = list->count < (size_t)most ? list->count : (size_t)most;
    *out = list;
    return RQL_OK;
}

/* ---- removal ---- */

/* Removes records, many in one round trip. */
struct removal {
    rql_client *client;
    const struct rqli_key_set *set;
    struct rqli_batch *batch; /* NULL: nothing waits */
    int64_t removed;
};

/* Sends what waits, and counts. */
static rql_status flush(struct removal *self, rql_error *error)
{
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = RQLI_GIVE(self->batch);
    rql_status status;

    if (!batch) {
        return RQL_OK;
    }
    status = rqli_client_run(self->client, batch, rqli_client_until_us(self->client, rqli_now_us()),
                             error);
    for (int i = 0; !status && i < batch->command.n_commands; i++) {
        const struct rqli_reply *reply = &batch->reply[i];

        if (!rqli_reply_is_count(reply)) {
            return rqli_batch_fault(batch, reply, "forget", "history", error);
        }
        self->removed += reply->integer;
    }
    return status;
}

/* Removes a field of a hash, or an entry of a stream. */
static rql_status remove_one(struct removal *self, const char *command, const char *key,
                             const char *what, rql_error *error)
{
    if (!self->batch) {
        self->batch = rqli_client_batch(self->client, self->set,
                                        rqli_client_until_us(self->client, rqli_now_us()));
    }
    if (!self->batch) {
        return rqli_fail_nomem(error);
    }
    rqli_command_words(&self->batch->command, command, key, what, NULL);
    return self->batch->command.n_commands < REMOVED_AT_ONCE ? RQL_OK : flush(self, error);
}

/* What is to be forgotten. */
struct subject {
    const char *name; /* NULL: of any */
    const char *user;
};

static bool is_about(const struct subject *self, const char *name, const char *user)
{
    return (!self->name || strcmp(self->name, name) == 0) &&
           (!self->user || strcmp(self->user, user) == 0);
}

static rql_status forget_singles(struct removal *self, const struct subject *subject,
                                 rql_error *error)
{
    __attribute__((cleanup(fini_listing_p))) struct listing listing = {.end = "+"};
    char key[RQLI_HISTORY_KEY_SIZE];
    rql_status status = read_all(&listing, self->client, error);

    (void)rqli_history_key(self->set, key);
    for (size_t i = 0; !status && i < listing.holds.count; i++) {
        const rql_history_info *info = listing.holds.item[i];

        if (is_about(subject, info->name, info->user)) {
            status = remove_one(self, "XDEL", key, info->id, error);
        }
    }
    return status ? status : flush(self, error);
}

static rql_status forget_usage(struct removal *self, const struct subject *subject,
                               rql_error *error)
{
    RQLI_AUTO(rql_free) rql_usage_info_list *list = NULL;
    rql_status status = rql_usage_list(self->client, RQL_USAGE_DAYS, &list, error);

    for (size_t i = 0; !status && i < list->count; i++) {
        const rql_usage_info *info = list->item[i];
        char key[RQLI_HISTORY_KEY_SIZE];
        char field[RQLI_USAGE_FIELD_SIZE];

        if (info->name[0] != '\0' && is_about(subject, info->name, info->user)) {
            (void)rqli_usage_key(self->set, info->day_us / RQLI_DAY_US, key);
            rqli_usage_field(rqli_slice_of(info->user), rqli_slice_of(info->host),
                             rqli_slice_of(info->name), field);
            status = remove_one(self, "HDEL", key, field, error);
        }
    }
    return status ? status : flush(self, error);
}

rql_status rql_history_forget(rql_client *client, const char *name, const char *user,
                              int64_t *removed, rql_error *error)
{
    RQLI_DEFER_CANCEL;
    const struct subject subject = {name, user};
    struct removal removal = {.client = client};
    rql_status status = rqli_client_check(client, error);

    if (!status && !name && !user) {
        status = rqli_fail(error, RQL_E_INVALID, "neither a name nor a user is given");
    }
    if (status) {
        return status;
    }
    removal.set = rqli_client_nth_set(client, 0);
    status = forget_singles(&removal, &subject, error);
    status = status ? status : forget_usage(&removal, &subject, error);
    if (removal.batch) {
        rqli_batch_give(removal.batch);
    }
    if (!status && removed) {
        *removed = removal.removed;
    }
    return status;
}
