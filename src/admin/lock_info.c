#include "admin/info.h"

#include "base/error.h"
#include "base/result.h"
#include "base/text.h"
#include "wire/answer.h"
#include "wire/command.h"
#include "wire/number.h"

#include <stdlib.h>
#include <string.h>

/*
 * Reads a lock's hash into a struct. Ruby writes numbers as it prints them, and any program may
 * have written to the hash. A value that cannot be relied on marks the lock as malformed, and the
 * values that could be read are returned all the same.
 */

enum { PTTL_NO_TTL = -1, PTTL_NO_KEY = -2 };

/* Where a field of the hash goes in rql_lock_info: a text as a pointer to a copy, a number as
 * int64_t, seconds as microseconds. An ignored field is no metadata either. */
struct field {
    const char *name;

    enum { FIELD_TEXT, FIELD_SECONDS, FIELD_INTEGER, FIELD_IGNORED } kind;

    bool is_needed;
    size_t offset;
};

#define FIELD_AT(member) offsetof(rql_lock_info, member)

/* The gem's eleven names and our token. Any other field is metadata, or internal to librql.
 * lock_key and rem_ttl can be stored through the gem's Symbol keys; it overwrites them too. */
static const struct field fields[] = {
    {"acq_id", FIELD_TEXT, true, FIELD_AT(acquirer_id)},
    {"hst_id", FIELD_TEXT, true, FIELD_AT(host_id)},
    {"ts", FIELD_SECONDS, true, FIELD_AT(acquired_at_us)},
    {"ini_ttl", FIELD_INTEGER, true, FIELD_AT(ttl_ms)},
    {"spc_cnt", FIELD_INTEGER, false, FIELD_AT(reentries)},
    {"l_spc_ts", FIELD_SECONDS, false, FIELD_AT(reentered_at_us)},
    {"spc_ext_ttl", FIELD_INTEGER, false, FIELD_AT(extended_ms)},
    {"l_spc_ext_ts", FIELD_SECONDS, false, FIELD_AT(extended_at_us)},
    {"l_spc_ext_ini_ttl", FIELD_INTEGER, false, FIELD_AT(last_extension_ms)},
    {"rql_token", FIELD_INTEGER, false, FIELD_AT(token)},
    {"lock_key", FIELD_IGNORED, false, 0},
    {"rem_ttl", FIELD_IGNORED, false, 0},
};

enum { N_FIELDS = sizeof fields / sizeof fields[0] };

void rqli_lock_info_ask(struct rqli_command *command, struct rqli_slice key)
{
    rqli_command_begin(command, 2);
    rqli_command_text(command, "HGETALL");
    rqli_command_slice(command, key);
    rqli_command_begin(command, 2);
    rqli_command_text(command, "PTTL");
    rqli_command_slice(command, key);
}

static const struct field *find_field(struct rqli_slice name)
{
    for (size_t i = 0; i < N_FIELDS; i++) {
        if (rqli_slice_is(name, fields[i].name)) {
            return &fields[i];
        }
    }
    return NULL;
}

/* Names with our prefix are reserved for later versions, so they are no metadata. */
bool rqli_is_meta(struct rqli_slice name)
{
    return !find_field(name) && !rqli_has_prefix(name, rqli_slice_of("rql_"));
}

/* Checks the form of HGETALL in RESP2: names and values in turn. */
static bool is_hash(const struct rqli_reply *reply)
{
    if (reply->type != RQLI_REPLY_ARRAY || reply->count % 2 != 0) {
        return false;
    }
    for (size_t i = 0; i < reply->count; i++) {
        if (reply->items[i].type != RQLI_REPLY_TEXT) {
            return false;
        }
    }
    return true;
}

/* Returns an upper bound of the bytes of all texts, metadata included, so that one allocation is
 * enough. Two bytes for each pair are the terminating NULs of its texts. */
static size_t measure(const struct rqli_reply *hash, size_t *n_meta)
{
    size_t size = 0;

    *n_meta = 0;
    for (size_t i = 0; i < hash->count; i += 2) {
        size += hash->items[i].text.length + hash->items[i + 1].text.length + 2;
        *n_meta += rqli_is_meta(hash->items[i].text);
    }
    return size + *n_meta * sizeof(rql_meta);
}

/* Makes a description in which only the key is set. `size` more bytes hold the metadata and, at
 * *cursor, the texts. The metadata come right after the struct, because they contain pointers,
 * which must be aligned. */
static rql_lock_info *new_info(struct rqli_slice key, size_t n_meta, size_t size, char **cursor)
{
    rql_lock_info *info = rqli_result_new(sizeof *info + size + key.length + 1);
    rql_meta *meta;

    if (!info) {
        return NULL;
    }
    meta = (rql_meta *)(info + 1);
    *cursor = (char *)(meta + n_meta);
    *info = (rql_lock_info){
        .acquired_at_us = -1,
        .ttl_ms = -1,
        .remaining_ms = -1,
        .reentries = -1,
        .reentered_at_us = -1,
        .extended_ms = -1,
        .extended_at_us = -1,
        .last_extension_ms = -1,
        .token = -1,
        .server_us = -1,
        .meta = n_meta > 0 ? meta : NULL,
    };
    info->key = rqli_pack(cursor, key);
    info->name = info->key + (key.length - rqli_name_in(key, RQLI_KEY_LOCK).length);
    info->status = rqli_is_plain(key) ? RQL_KEY_ALIVE : RQL_KEY_MALFORMED;
    return info;
}

/* Returns false if the value cannot be relied on. Such a number stays -1; such a text is shown
 * all the same, up to a NUL. An empty text is no id. */
static bool put_field(rql_lock_info *info, const struct field *field, struct rqli_slice value,
                      char **cursor)
{
    const char *text;
    int64_t number = -1;
    bool is_good = true;

    switch (field->kind) {
    case FIELD_TEXT:
        text = rqli_pack(cursor, value);
        memcpy((char *)info + field->offset, &text, sizeof text);
        return value.length > 0 && rqli_is_plain(value);
    case FIELD_SECONDS:
        is_good = rqli_gem_seconds(value, &number);
        break;
    case FIELD_INTEGER:
        is_good = rqli_gem_integer(value, &number);
        break;
    case FIELD_IGNORED:
        return true;
    }
    if (is_good) {
        memcpy((char *)info + field->offset, &number, sizeof number);
    }
    return is_good;
}

bool rqli_lock_info_is_of_several(const rql_lock_info *info)
{
    return info->acquirer_id && strcmp(info->acquirer_id, RQLI_SHARED_ACQUIRER) == 0;
}

/* Notes a share. A limit that differs from the one before, or from one of those before, is 0. */
static void add_share(rql_lock_info *info, const struct rqli_share *share)
{
    const bool is_same = info->n_holders == 0 || info->share_limit == share->limit;

    info->share_limit = is_same ? share->limit : 0;
    info->used_units += share->units;
    info->n_holders++;
}

/* The owner of a lock of one has the fields of any owner, and one more if it shares. */
static void count_owner(rql_lock_info *info, const struct rqli_reply *hash)
{
    struct rqli_share share;

    for (size_t i = 0; i < hash->count; i += 2) {
        if (rqli_slice_is(hash->items[i].text, RQLI_SHARE_FIELD) &&
            rqli_share_read(hash->items[i + 1].text, &share)) {
            add_share(info, &share);
            return;
        }
    }
    info->n_holders = 1;
}

/* A hash without acq_id is no lock. */
static void count_holders(rql_lock_info *info, const struct rqli_reply *hash)
{
    const struct rqli_slice prefix = rqli_slice_of(RQLI_SHARER_PREFIX);
    struct rqli_sharer sharer;

    if (!rqli_lock_info_is_of_several(info)) {
        if (info->acquirer_id && !info->is_kept) {
            count_owner(info, hash);
        }
        return;
    }
    for (size_t i = 0; i < hash->count; i += 2) {
        if (rqli_sharer_read(hash->items[i].text, hash->items[i + 1].text, &sharer)) {
            add_share(info, &sharer.share);
        } else if (rqli_has_prefix(hash->items[i].text, prefix)) {
            info->status = RQL_KEY_MALFORMED;
        }
    }
}

/* A field that is missing or unreliable makes the whole lock malformed. The values that could be
 * read are returned all the same, for the operator that has to clear it up. `missing` has a bit for
 * each row of the table. */
static void fill(rql_lock_info *info, const struct rqli_reply *hash, char **cursor)
{
    unsigned missing = 0;

    for (size_t i = 0; i < N_FIELDS; i++) {
        missing |= (unsigned)fields[i].is_needed << i;
    }
    for (size_t i = 0; i < hash->count; i += 2) {
        struct rqli_slice name = hash->items[i].text;
        struct rqli_slice value = hash->items[i + 1].text;
        const struct field *field = find_field(name);

        if (field && put_field(info, field, value, cursor)) {
            missing &= ~(1U << (field - fields));
        } else if (field) {
            info->status = RQL_KEY_MALFORMED;
        } else if (rqli_is_meta(name)) {
            rql_meta *pair = (rql_meta *)(info + 1) + info->n_meta++;

            pair->name = rqli_pack(cursor, name);
            pair->value = rqli_pack(cursor, value);
        }
    }
    if (missing != 0) {
        info->status = RQL_KEY_MALFORMED;
    }
    info->is_kept = info->acquirer_id && strcmp(info->acquirer_id, RQLI_KEPT_ACQUIRER) == 0;
    count_holders(info, hash);
}

/* Returns a lock of which only the key and this status are known. */
static rql_status give_bare(struct rqli_slice key, rql_key_status status, rql_lock_info **out,
                            rql_error *error)
{
    char *cursor;
    rql_lock_info *info = new_info(key, 0, 0, &cursor);

    if (!info) {
        return rqli_fail_nomem(error);
    }
    info->status = status;
    *out = info;
    return RQL_OK;
}

/* *out is set after RQL_OK, whatever the status in it: NULL is never a description. */
rql_status rqli_lock_info_read(const struct rqli_reply *replies, struct rqli_slice key,
                               const char *where, rql_lock_info **out, rql_error *error)
{
    const struct rqli_reply *hash = &replies[0];
    const struct rqli_reply *ttl = &replies[1];
    rql_lock_info *info;
    size_t n_meta;
    size_t size;
    char *cursor;

    if (hash->type == RQLI_REPLY_ERROR && rqli_reply_class(hash) == RQL_E_WRONG_TYPE) {
        return give_bare(key, RQL_KEY_WRONG_TYPE, out, error);
    }
    if (!is_hash(hash)) {
        return rqli_reply_fault(hash, "HGETALL", where, error);
    }
    if (ttl->type != RQLI_REPLY_INTEGER) {
        return rqli_reply_fault(ttl, "PTTL", where, error);
    }
    /* The two commands are no transaction: a lock that ended between them is gone. */
    if (hash->count == 0 || ttl->integer == PTTL_NO_KEY) {
        return give_bare(key, RQL_KEY_RELEASED, out, error);
    }
    size = measure(hash, &n_meta);
    info = new_info(key, n_meta, size, &cursor);
    if (!info) {
        return rqli_fail_nomem(error);
    }
    fill(info, hash, &cursor);
    info->remaining_ms = ttl->integer == PTTL_NO_TTL ? RQL_FOREVER : ttl->integer;
    *out = info;
    return RQL_OK;
}

/* Reads as many keys as fit into one batch, by their measured sizes. After a fault the places
 * after the failed key are still NULL. */
static rql_status read_some(const struct rqli_reader *reader, const struct rqli_key_batch *self,
                            size_t first, size_t n)
{
    const struct rqli_item *keys = self->keys + first;
    rql_lock_info **out = (rql_lock_info **)self->context + first;
    RQLI_AUTO(rqli_batch_give)
    struct rqli_batch *batch = rqli_reader_take(reader);
    rql_status status;

    for (size_t i = 0; batch && i < n; i++) {
        rqli_lock_info_ask(&batch->command, keys[i].text);
    }
    if (batch) {
        rqli_command_words(&batch->command, "TIME", NULL);
    }
    status = rqli_reader_run(reader, batch);
    for (size_t i = 0; !status && i < n; i++) {
        status = rqli_lock_info_read(&batch->reply[RQLI_LOCK_INFO_REPLIES * i], keys[i].text,
                                     reader->where, &out[i], reader->error);
        if (!status) {
            out[i]->node = rqli_reader_node(reader);
            (void)rqli_time_read(&batch->reply[RQLI_LOCK_INFO_REPLIES * n], &out[i]->server_us);
        }
    }
    return status;
}

/* Returns only a status for a lock that is too large. */
static rql_status report_unread(const struct rqli_reader *reader, const struct rqli_key_batch *self,
                                size_t i)
{
    rql_lock_info **out = (rql_lock_info **)self->context + i;

    rql_status status = give_bare(self->keys[i].text, RQL_KEY_MALFORMED, out, reader->error);

    if (!status) {
        (*out)->node = rqli_reader_node(reader);
    }
    return status;
}

/* HGETALL has no pages, so a lock has to fit into a batch as a whole. */
rql_status rqli_read_locks(const struct rqli_reader *reader, const struct rqli_item *keys, size_t n,
                           rql_lock_info **out)
{
    static const struct rqli_key_batch_ops locks = {"HLEN", RQLI_BATCH_ELEMENTS, read_some,
                                                    report_unread};

    return rqli_key_batch_read(reader, &locks, keys, n, out);
}
