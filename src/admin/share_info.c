#include "admin/info.h"
#include "base/random.h"
#include "base/text.h"

#include <string.h>

/*
 * Reads shares as the scripts store them. A field may have been written by any program, so a value
 * that cannot be a share is refused as a whole.
 */

bool rqli_share_read(struct rqli_slice value, struct rqli_share *out)
{
    struct rqli_slice units = rqli_slice_word(&value);

    *out =
        (struct rqli_share){.has_slots = value.length > 0 && value.data[value.length - 1] == 's'};
    value.length -= out->has_slots;
    return rqli_parse_within(units, 1, RQL_SHARE_MAX, &out->units) &&
           rqli_parse_within(value, out->units, RQL_SHARE_MAX, &out->limit);
}

/* The units are "2", or "2:0,3" with the slots. */
static bool read_units(struct rqli_slice word, struct rqli_sharer *out)
{
    struct rqli_slice units = rqli_slice_take(&word, rqli_slice_before(word, ":"));

    out->share.has_slots = rqli_slice_skip(&word, ":");
    out->slots = word;
    return rqli_parse_within(units, 1, RQL_SHARE_MAX, &out->share.units);
}

bool rqli_sharer_read(struct rqli_slice name, struct rqli_slice value, struct rqli_sharer *out)
{
    struct rqli_slice units;
    struct rqli_slice limit;
    struct rqli_slice token;
    struct rqli_slice ttl_ms;

    *out = (struct rqli_sharer){.acquirer = name};
    if (!rqli_slice_skip(&out->acquirer, RQLI_SHARER_PREFIX)) {
        return false;
    }
    out->nonce = rqli_slice_word(&value);
    units = rqli_slice_word(&value);
    limit = rqli_slice_word(&value);
    token = rqli_slice_word(&value);
    ttl_ms = rqli_slice_word(&value);
    (void)rqli_slice_word(&value); /* whether its owner has called yet */
    out->host = rqli_slice_word(&value);
    out->metadata = value;
    return out->nonce.length == RQLI_HEX_SIZE - 1 && read_units(units, out) &&
           rqli_parse_within(limit, out->share.units, RQL_SHARE_MAX, &out->share.limit) &&
           rqli_parse_int(token, &out->token) && rqli_parse_int(ttl_ms, &out->ttl_ms) &&
           out->host.length > 0;
}

/* ---- MessagePack ---- */

/* The first byte of an array or text has its length in its low bits, or says how many bytes of
 * length follow it, the highest first. */
enum {
    SHORT_ARRAY = 0x90, /* to 0x9f */
    ARRAY_16 = 0xdc,
    ARRAY_32 = 0xdd,
    SHORT_TEXT = 0xa0, /* to 0xbf */
    TEXT_8 = 0xd9,
    TEXT_16 = 0xda,
    TEXT_32 = 0xdb,
};

/* Cuts a length of n bytes off the front. Returns false if there are fewer. */
static bool take_length(struct rqli_slice *rest, size_t n, size_t *out)
{
    *out = 0;
    if (rest->length < n) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        *out = *out << 8 | (unsigned char)rest->data[i];
    }
    (void)rqli_slice_take(rest, n);
    return true;
}

/* Returns the number of items; 0 if there is no array. */
static size_t take_array(struct rqli_slice *rest)
{
    size_t first;
    size_t count;
    bool is_array;

    if (!take_length(rest, 1, &first)) {
        return 0;
    }
    if ((first & 0xf0) == SHORT_ARRAY) {
        return first & 0x0f;
    }
    is_array = (first == ARRAY_16 && take_length(rest, 2, &count)) ||
               (first == ARRAY_32 && take_length(rest, 4, &count));
    return is_array ? count : 0;
}

struct rqli_packed rqli_packed_begin(struct rqli_slice packed)
{
    struct rqli_packed self = {.rest = packed};

    self.left = take_array(&self.rest);
    return self;
}

static bool take_text_length(struct rqli_slice *rest, size_t *out)
{
    size_t first;

    if (!take_length(rest, 1, &first)) {
        return false;
    }
    if ((first & 0xe0) == SHORT_TEXT) {
        *out = first & 0x1f;
        return true;
    }
    return (first == TEXT_8 && take_length(rest, 1, out)) ||
           (first == TEXT_16 && take_length(rest, 2, out)) ||
           (first == TEXT_32 && take_length(rest, 4, out));
}

bool rqli_packed_next(struct rqli_packed *self, struct rqli_slice *out)
{
    size_t length;

    if (self->left == 0 || !take_text_length(&self->rest, &length) || length > self->rest.length) {
        self->left = 0;
        return false;
    }
    self->left--;
    *out = rqli_slice_take(&self->rest, length);
    return true;
}

size_t rqli_packed_count_pairs(struct rqli_slice packed)
{
    struct rqli_packed reading = rqli_packed_begin(packed);
    struct rqli_slice text;
    size_t count = 0;

    while (rqli_packed_next(&reading, &text)) {
        count++;
    }
    return count / 2;
}

/* A text's terminator takes no more room than the byte in front of it that says how long it is. */
size_t rqli_packed_read_meta(struct rqli_slice packed, rql_meta *out, char **cursor)
{
    struct rqli_packed reading = rqli_packed_begin(packed);
    struct rqli_slice name;
    struct rqli_slice value;
    size_t count = 0;

    while (rqli_packed_next(&reading, &name) && rqli_packed_next(&reading, &value)) {
        if (rqli_is_meta(name)) {
            out[count].name = rqli_pack(cursor, name);
            out[count++].value = rqli_pack(cursor, value);
        }
    }
    return count;
}
