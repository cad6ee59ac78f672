#ifndef RQLI_TEXT_H
#define RQLI_TEXT_H

/* Small pieces of text: bytes with a length, and strict numbers. */

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

/* Returns whether this byte of UTF-8 continues a character, so that no cut may come before it. */
static inline bool rqli_continues_character(char byte)
{
    return ((unsigned char)byte & 0xC0) == 0x80;
}

/* Cuts this many bytes off the front. */
static inline struct rqli_slice rqli_slice_take(struct rqli_slice *rest, size_t length)
{
    struct rqli_slice taken = {rest->data, length};

    rest->data += length;
    rest->length -= length;
    return taken;
}

/* Cuts this text off the front. Returns false if another text is there. */
static inline bool rqli_slice_skip(struct rqli_slice *rest, const char *text)
{
    size_t length = strlen(text);

    if (rest->length < length || memcmp(rest->data, text, length) != 0) {
        return false;
    }
    (void)rqli_slice_take(rest, length);
    return true;
}

/* Returns the length of the text in front of the first of these bytes, or of all if none is
 * there. */
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

/* Returns how often the byte is in the text. */
static inline size_t rqli_slice_count(struct rqli_slice text, char byte)
{
    size_t count = 0;

    for (size_t i = 0; i < text.length; i++) {
        count += text.data[i] == byte;
    }
    return count;
}

/* Cuts off a word, and the blank after it. */
static inline struct rqli_slice rqli_slice_word(struct rqli_slice *rest)
{
    const char *blank = rest->length > 0 ? memchr(rest->data, ' ', rest->length) : NULL;
    size_t length = blank ? (size_t)(blank - rest->data) : rest->length;
    struct rqli_slice word = rqli_slice_take(rest, length);

    if (blank) {
        (void)rqli_slice_take(rest, 1);
    }
    return word;
}

/* Returns whether it is one of these words. */
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

/* FNV-1a of 64 bits. The hash begins with RQLI_HASH_START, or continues that of another text. */
#define RQLI_HASH_START UINT64_C(0xcbf29ce484222325)

static inline uint64_t rqli_hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    }
    return hash;
}

/* Reads decimal digits with an optional '-': nothing else, and no overflow. */
bool rqli_parse_int(struct rqli_slice text, int64_t *out);

/* Reads digits alone, from min, which is not below 0, to max. */
bool rqli_parse_within(struct rqli_slice text, int min, int max, int *out);

/* Write a decimal number without terminator; return its length, at most 20. */
size_t rqli_format_int(char *out, int64_t value);
size_t rqli_format_uint(char *out, uint64_t value);

/* Returns whether the name has 1 to RQL_NAME_MAX bytes and no control bytes. */
bool rqli_name_is_valid(const char *name);

/* Writes text into a buffer of fixed size and counts the bytes that the whole text needs, as
 * snprintf() does, but in steps. Text that does not fit is cut. */

struct rqli_writer {
    char *buffer; /* NULL is fine if size is 0 */
    size_t size;
    size_t length; /* of the whole text, written or not */
};

void rqli_writer_init(struct rqli_writer *self, char *buffer, size_t size);
void rqli_write_bytes(struct rqli_writer *self, const char *bytes, size_t length);
void rqli_write_text(struct rqli_writer *self, const char *text);
/* Writes a format of printf() with texts and whole numbers. Slower than the other functions. */
void rqli_write_format(struct rqli_writer *self, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void rqli_write_int(struct rqli_writer *self, int64_t value);
void rqli_write_uint(struct rqli_writer *self, uint64_t value);

/* Writes value / 10^digits (at most 6) as Ruby prints a Float: at least one digit after the point,
 * and no zeros at the end. */
void rqli_write_decimal(struct rqli_writer *self, int64_t value, unsigned digits);
/* Writes a duration as the gem does: whole seconds without a point; `forever` for RQL_FOREVER. */
void rqli_write_seconds(struct rqli_writer *self, int64_t ms, const char *forever);

/* Writes a JSON string with its quotes. Control bytes are escaped; bytes that are not UTF-8 become
 * U+FFFD, one by one. NULL becomes null. */
void rqli_write_json(struct rqli_writer *self, const char *text);

/* Terminates the text; returns its length without the terminator. */
size_t rqli_writer_end(struct rqli_writer *self);

/* Lays texts out one after the other in memory whose size was computed before. */

/* Copies text to *cursor, terminates it and moves the cursor past it. */
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

/* Returns whether a C program sees the whole text: there is no NUL inside. */
static inline bool rqli_is_plain(struct rqli_slice text)
{
    return text.length == 0 || !memchr(text.data, '\0', text.length);
}

static inline bool rqli_has_prefix(struct rqli_slice text, struct rqli_slice prefix)
{
    return text.length >= prefix.length && memcmp(text.data, prefix.data, prefix.length) == 0;
}

#endif
