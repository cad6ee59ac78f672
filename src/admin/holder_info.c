#include "admin/info.h"
#include "base/error.h"
#include "base/result.h"
#include "base/text.h"
#include "wire/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Reads the holders of one lock. A lock of one holder is read as rql_lock_info, whose texts its
 * holder uses. A lock of several has a field for each sharer; the ends of their shares are in a key
 * of their own.
 */

/* Replies: those about the lock, the ends of shares, TIME. */
enum { ENDS = RQLI_LOCK_INFO_REPLIES, NOW };

/* The holders that are read, and what they are made of. */
struct holders {
    rql_holder_list *list;
    const rql_lock_info *lock;
    struct rqli_list ends; /* of shares, by acquirer; in microseconds */
};

static void holders_fini_p(struct holders *self)
{
    (void)rql_free(self->list);
    rqli_list_fini_p(&self->ends);
}

static rql_holder_list *new_list(rql_key_status status, size_t count)
{
    rql_holder_list *list = rqli_result_new(sizeof *list + count * sizeof(void *));

    if (list) {
        list->status = status;
        list->item = count > 0 ? (rql_holder_info **)(list + 1) : NULL;
        list->server_us = -1;
    }
    return list;
}

/* A name that is too long for librql has no shares, so its key of shares may be cut. */
void rqli_holders_ask(struct rqli_command *command, struct rqli_slice key)
{
    const struct rqli_slice name = rqli_name_in(key, RQLI_KEY_LOCK);
    const struct rqli_key_set *set = rqli_key_set_in(key);
    char shares[RQLI_KEY_SIZE];

    (void)snprintf(shares, sizeof shares, "%s" RQLI_OF_SHARES "%.*s",
                   set ? set->prefix.data : RQLI_PREFIX, (int)name.length, name.data);
    rqli_lock_info_ask(command, key);
    rqli_command_words(command, "ZRANGE", shares, "0", "-1", "WITHSCORES", NULL);
    rqli_command_words(command, "TIME", NULL);
}

/* Without the right to read the ends, or if they are of another type, no end is known. */
static void read_ends(struct rqli_list *ends, const struct rqli_reply *reply)
{
    const size_t count = reply->type == RQLI_REPLY_ARRAY ? reply->count / 2 : 0;

    for (size_t i = 0; i < count; i++) {
        const struct rqli_reply *pair = &reply->items[2 * i];
        int64_t end_us;

        if (pair[0].type == RQLI_REPLY_TEXT && pair[1].type == RQLI_REPLY_TEXT &&
            rqli_parse_int(pair[1].text, &end_us)) {
            rqli_list_add(ends, pair[0].text, end_us);
        }
    }
    rqli_list_sort(ends);
}

/* Returns how long the share lives, or -1. A share whose end has come may still be listed. */
static int64_t remaining_ms(const struct holders *self, struct rqli_slice acquirer)
{
    const struct rqli_item *end = rqli_list_find(&self->ends, acquirer);
    const int64_t now_us = self->list->server_us;

    if (!end || now_us < 0) {
        return -1;
    }
    return end->number > now_us ? (end->number - now_us) / 1000 : 0;
}

/* Makes one allocation: the struct, its metadata, its slots, then all texts. NULL: no memory. */
static rql_holder_info *new_sharer(const struct holders *self, const struct rqli_sharer *sharer)
{
    const size_t n_meta = rqli_packed_count_pairs(sharer->metadata);
    const size_t n_slots = sharer->share.has_slots ? (size_t)sharer->share.units : 0;
    rql_holder_info *info = rqli_result_new(sizeof *info + n_meta * sizeof(rql_meta) +
                                            n_slots * sizeof(int) + sharer->acquirer.length +
                                            sharer->host.length + 2 + sharer->metadata.length);
    rql_meta *meta = (rql_meta *)(info + 1);
    int *slots = (int *)(meta + n_meta);
    char *cursor = (char *)(slots + n_slots);

    if (!info) {
        return NULL;
    }
    *info = (rql_holder_info){
        .acquirer_id = rqli_pack(&cursor, sharer->acquirer),
        .host_id = rqli_pack(&cursor, sharer->host),
        .token = sharer->token,
        .acquired_at_us = sharer->token,
        .ttl_ms = sharer->ttl_ms,
        .remaining_ms = remaining_ms(self, sharer->acquirer),
        .share_units = sharer->share.units,
        .share_limit = sharer->share.limit,
    };
    if (n_slots > 0 && rqli_share_read_slots(sharer->slots, &sharer->share, slots)) {
        info->n_slots = n_slots;
        info->slots = slots;
    }
    info->n_meta = rqli_packed_read_meta(sharer->metadata, meta, &cursor);
    info->meta = info->n_meta > 0 ? meta : NULL;
    return info;
}

static int compare(const void *a, const void *b)
{
    const int64_t left = (*(rql_holder_info *const *)a)->token;
    const int64_t right = (*(rql_holder_info *const *)b)->token;

    return (left > right) - (left < right);
}

/* A sharer whose field cannot be read is left out; the status of the lock says that there is one.
 */
static bool add_sharers(struct holders *self, const struct rqli_reply *hash)
{
    struct rqli_sharer sharer;

    for (size_t i = 0; i < hash->count; i += 2) {
        rql_holder_info *info;

        if (!rqli_sharer_read(hash->items[i].text, hash->items[i + 1].text, &sharer)) {
            continue;
        }
        info = new_sharer(self, &sharer);
        if (!info) {
            return false;
        }
        rqli_result_adopt(self->list, info);
        self->list->item[self->list->count++] = info;
    }
    if (self->list->count > 1) {
        qsort(self->list->item, self->list->count, sizeof(void *), compare);
    }
    return true;
}

/* Returns the value of the field in which a lock of one holder has its share; empty: it is held
 * alone. */
static struct rqli_slice share_field(const struct rqli_reply *hash)
{
    for (size_t i = 0; i < hash->count; i += 2) {
        if (rqli_slice_is(hash->items[i].text, RQLI_SHARE_FIELD)) {
            return hash->items[i + 1].text;
        }
    }
    return (struct rqli_slice){"", 0};
}

/* Its slots are the first ones. */
static bool add_one(struct holders *self, const struct rqli_reply *hash)
{
    struct rqli_share share = {.units = 0};
    bool is_shared = rqli_share_read(share_field(hash), &share);
    size_t n_slots = is_shared && share.has_slots ? (size_t)share.units : 0;
    rql_holder_info *info = rqli_result_new(sizeof *info + n_slots * sizeof(int));
    int *slots = (int *)(info + 1);

    if (!info) {
        return false;
    }
    *info = (rql_holder_info){
        .acquirer_id = self->lock->acquirer_id,
        .host_id = self->lock->host_id,
        .token = self->lock->token,
        .acquired_at_us = self->lock->acquired_at_us,
        .ttl_ms = self->lock->ttl_ms,
        .remaining_ms = self->lock->remaining_ms,
        .share_units = is_shared ? share.units : 0,
        .share_limit = is_shared ? share.limit : 0,
        .n_slots = n_slots,
        .slots = n_slots > 0 ? slots : NULL,
        .n_meta = self->lock->n_meta,
        .meta = self->lock->meta,
    };
    for (size_t i = 0; i < n_slots; i++) {
        slots[i] = (int)i;
    }
    rqli_result_adopt(self->list, info);
    self->list->item[self->list->count++] = info;
    return true;
}

/* Makes the list from the replies. The texts of `lock`, which the list owns then, are used again.
 */
static rql_status make_list(struct holders *self, const struct rqli_reply *replies,
                            rql_lock_info *lock, rql_error *error)
{
    bool has_memory = true;

    self->lock = lock;
    self->list = new_list(lock->status, (size_t)lock->n_holders);
    if (!self->list) {
        (void)rql_free(lock);
        return rqli_fail_nomem(error);
    }
    rqli_result_adopt(self->list, lock);
    (void)rqli_time_read(&replies[NOW], &self->list->server_us);
    if (rqli_lock_info_is_of_several(lock)) {
        read_ends(&self->ends, &replies[ENDS]);
        has_memory = !self->ends.failed && add_sharers(self, &replies[0]);
    } else if (lock->n_holders > 0) {
        has_memory = add_one(self, &replies[0]);
    }
    return has_memory ? RQL_OK : rqli_fail_nomem(error);
}

rql_status rqli_holders_read(const struct rqli_reply *replies, struct rqli_slice key,
                             const char *where, rql_holder_list **out, rql_error *error)
{
    RQLI_AUTO(holders_fini) struct holders holders = {.list = NULL};
    rql_lock_info *lock = NULL;
    rql_status status = rqli_lock_info_read(replies, key, where, &lock, error);

    status = status ? status : make_list(&holders, replies, lock, error);
    if (!status) {
        *out = RQLI_GIVE(holders.list);
    }
    return status;
}

/* `context` is where the list goes. */
static rql_status read_one(const struct rqli_reader *reader, const struct rqli_key_batch *self,
                           size_t first, size_t n)
{
    const struct rqli_slice key = self->keys[first].text;
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = rqli_reader_take(reader);
    rql_status status;

    (void)n;
    if (batch) {
        rqli_holders_ask(&batch->command, key);
    }
    status = rqli_reader_run(reader, batch);
    return status ? status
                  : rqli_holders_read(batch->reply, key, reader->where,
                                      (rql_holder_list **)self->context, reader->error);
}

/* Returns only a status for a lock that is too large. */
static rql_status report_unread(const struct rqli_reader *reader, const struct rqli_key_batch *self,
                                size_t i)
{
    rql_holder_list *list = new_list(RQL_KEY_MALFORMED, 0);

    (void)i;
    *(rql_holder_list **)self->context = list;
    return list ? RQL_OK : rqli_fail_nomem(reader->error);
}

/* The ends of the shares take as many items as the lock has fields. */
rql_status rqli_read_holders(const struct rqli_reader *reader, struct rqli_slice key,
                             rql_holder_list **out)
{
    static const struct rqli_key_batch_ops locks = {"HLEN", RQLI_BATCH_ELEMENTS / 2, read_one,
                                                    report_unread};
    const struct rqli_item item = {.text = key};

    return rqli_key_batch_read(reader, &locks, &item, 1, out);
}
