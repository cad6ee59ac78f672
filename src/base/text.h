#ifndef RQLI_TEXT_H
#define RQLI_TEXT_H

/* Small pieces of text: bytes with a length, strict numbers. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Borrowed bytes; not terminated. */
struct rqli_slice {
    const char *data;
    size_t length;
};

static inline struct rqli_slice rqli_slice_of(const char *text)
{
    return (struct rqli_slice){text, strlen(text)};
}

/* Cuts so many bytes off the front. */
static inline struct rqli_slice rqli_slice_take(struct rqli_slice *rest, size_t length)
{
    struct rqli_slice taken = {rest->data, length};

    rest->data += length;
    rest->length -= length;
    return taken;
}

/* Cuts this text off the front. False: something else is there. */
static inline bool rqli_slice_skip(struct rqli_slice *rest, const char *text)
{
    size_t length = strlen(text);

    if (rest->length < length || memcmp(rest->data, text, length) != 0) {
        return false;
    }
    (void)rqli_slice_take(rest, length);
    return true;
}

/* The length of what is in front of the first of these bytes: all, if none is there. */
static inline size_t rqli_slice_before(struct rqli_slice text, const char *stops)
{
    size_t i = 0;

    while (i < text.length && !strchr(stops, text.data[i])) {
        i++;
    }
    return i;
}

static inline bool rqli_slice_is(struct rqli_slice slice, const char *text)
{
    return strlen(text) == slice.length &&
           (slice.length == 0 || memcmp(text, slice.data, slice.length) == 0);
}

/* How often the byte is in it. */
static inline size_t rqli_slice_count(struct rqli_slice text, char byte)
{
    size_t count = 0;

    for (size_t i = 0; i < text.length; i++) {
        count += text.data[i] == byte;
    }
    return count;
}

/* Cuts the first word off a list of words, which have a blank between two. */
static inline struct rqli_slice rqli_slice_word(struct rqli_slice *rest)
{
    struct rqli_slice word = rqli_slice_take(rest, rqli_slice_before(*rest, " "));

    (void)rqli_slice_skip(rest, " ");
    return word;
}

/* Is it one of these words? */
static inline bool rqli_has_word(const char *words, struct rqli_slice word)
{
    struct rqli_slice rest = rqli_slice_of(words);

    while (rest.length > 0) {
        struct rqli_slice next = rqli_slice_word(&rest);

        if (next.length == word.length && memcmp(next.data, word.data, word.length) == 0) {
            return true;
        }
    }
    return false;
}

/* FNV-1a of 64 bits. It begins with RQLI_HASH_START, or goes on from another text's. */
#define RQLI_HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t rqli_hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Decimal digits with an optional '-', nothing else, no overflow. */
bool rqli_parse_int(struct rqli_slice text, int64_t *out);

/* Digits alone, from min, which is not below 0, to max. */
bool rqli_parse_within(struct rqli_slice text, int min, int max, int *out);

/* Write a decimal number without terminator; return its length, at most 20. */
size_t rqli_format_int(char *out, int64_t value);
size_t rqli_format_uint(char *out, uint64_t value);

/* 1 to RQL_NAME_MAX bytes, no control bytes. */
bool rqli_name_is_valid(const char *name);

/* Text into a buffer of fixed size, counting what it would have taken: as snprintf() does, but in
 * steps. What does not fit is cut. */

struct rqli_writer {
    char *buffer; /* NULL is fine if size is 0 */
    size_t size;
    size_t length; /* of the whole text, written or not */
};

void rqli_writer_init(struct rqli_writer *self, char *buffer, size_t size);
void rqli_write_bytes(struct rqli_writer *self, const char *bytes, size_t length);
void rqli_write_text(struct rqli_writer *self, const char *text);
void rqli_write_int(struct rqli_writer *self, int64_t value);
void rqli_write_uint(struct rqli_writer *self, uint64_t value);

/* value / 10^digits (at most 6), at least one digit behind the point and no zeros at its end: as
 * Ruby prints a Float. */
void rqli_write_decimal(struct rqli_writer *self, int64_t value, unsigned digits);
/* As the gem prints a duration: whole seconds without a point; `forever` for RQL_FOREVER. */
void rqli_write_seconds(struct rqli_writer *self, int64_t ms, const char *forever);

/* A JSON string with its quotes. Control bytes are escaped; what is no UTF-8 becomes U+FFFD, byte
 * by byte. NULL: null. */
void rqli_write_json(struct rqli_writer *self, const char *text);

/* Terminates the text; returns its length without the terminator. */
size_t rqli_writer_end(struct rqli_writer *self);

/* Lays texts out one after the other in memory that was measured before. */

/* Copies text to *cursor, terminates it and moves the cursor behind it. */
static inline const char *rqli_pack(char **cursor, struct rqli_slice text)
{
    char *start = *cursor;

    if (text.length > 0) {
        memcpy(start, text.data, text.length);
    }
    start[text.length] = '\0';
    *cursor = start + text.length + 1;
    return start;
}

/* A C program sees it whole: no NUL inside. */
static inline bool rqli_is_plain(struct rqli_slice text)
{
    return text.length == 0 || !memchr(text.data, '\0', text.length);
}

static inline bool rqli_has_prefix(struct rqli_slice text, struct rqli_slice prefix)
{
    return text.length >= prefix.length && memcmp(text.data, prefix.data, prefix.length) == 0;
}

#endif
