#include "wire/command.h"

#include <stdlib.h>

/* No command of ours comes near the upper bound; it keeps a wrong length from eating the machine.
 */
enum {
    FIRST_CAPACITY = 512,
    MAX_CAPACITY = 64 << 20,
    HEADER_SIZE = 1 + 20 + 2, /* '$' or '*', a number, CR LF */
    END_SIZE = 2,
};

void rqli_command_reset(struct rqli_command *self)
{
    self->length = 0;
    self->n_commands = 0;
    self->failed = false;
}

void rqli_command_fini(struct rqli_command *self)
{
    free(self->data);
    *self = (struct rqli_command){0};
}

static bool grow(struct rqli_command *self, size_t needed)
{
    size_t capacity = self->capacity > 0 ? self->capacity : FIRST_CAPACITY;
    char *data;

    while (capacity < needed) {
        capacity *= 2;
    }
    data = realloc(self->data, capacity);
    if (!data) {
        return false;
    }
    self->data = data;
    self->capacity = capacity;
    return true;
}

bool rqli_command_reserve(struct rqli_command *self, size_t bytes)
{
    return self->capacity >= bytes || grow(self, bytes);
}

/* Makes room for more bytes; false from the first failure on, until the reset. */
static inline bool reserve(struct rqli_command *self, size_t more)
{
    if (self->failed) {
        return false;
    }
    if (more <= self->capacity - self->length) {
        return true;
    }
    self->failed = more > MAX_CAPACITY - self->length || !grow(self, self->length + more);
    return !self->failed;
}

/* Nearly all counts have two digits. */
static inline char *put_header(char *at, char mark, size_t count)
{
    *at++ = mark;
    if (count < 100) {
        *at = (char)('0' + count / 10);
        at += count >= 10;
        *at++ = (char)('0' + count % 10);
    } else {
        at += rqli_format_int(at, (int64_t)count);
    }
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

/* The room must be there. */
static inline void put_word(struct rqli_command *self, const char *word, size_t length)
{
    char *at = put_header(self->data + self->length, '$', length);

    if (length > 0) {
        memcpy(at, word, length);
        at += length;
    }
    *at++ = '\r';
    *at++ = '\n';
    self->length = (size_t)(at - self->data);
}

void rqli_command_begin(struct rqli_command *self, size_t argc)
{
    self->n_commands++;
    if (reserve(self, HEADER_SIZE)) {
        char *end = put_header(self->data + self->length, '*', argc);

        self->length = (size_t)(end - self->data);
    }
}

void rqli_command_slice(struct rqli_command *self, struct rqli_slice word)
{
    /* Checked apart: the sum below must not wrap. */
    if (word.length > MAX_CAPACITY) {
        self->failed = true;
        return;
    }
    if (reserve(self, HEADER_SIZE + word.length + END_SIZE)) {
        put_word(self, word.data, word.length);
    }
}

void rqli_command_text(struct rqli_command *self, const char *word)
{
    rqli_command_slice(self, rqli_slice_of(word));
}

void rqli_command_int(struct rqli_command *self, int64_t word)
{
    char digits[20];
    size_t length = rqli_format_int(digits, word);

    if (reserve(self, HEADER_SIZE + sizeof digits + END_SIZE)) {
        put_word(self, digits, length);
    }
}

void rqli_command_list(struct rqli_command *self, va_list words)
{
    va_list ahead;
    size_t count = 0;
    const char *word;

    va_copy(ahead, words);
    while (va_arg(ahead, const char *)) {
        count++;
    }
    va_end(ahead);
    rqli_command_begin(self, count);
    for (word = va_arg(words, const char *); word; word = va_arg(words, const char *)) {
        rqli_command_text(self, word);
    }
}

void rqli_command_words(struct rqli_command *self, ...)
{
    va_list words;

    va_start(words, self);
    rqli_command_list(self, words);
    va_end(words);
}

bool rqli_command_append(struct rqli_command *self, const struct rqli_command *other)
{
    if (self->failed || other->failed) {
        return false;
    }
    if (!reserve(self, other->length)) {
        self->failed = false; /* what is in the buffer is still whole */
        return false;
    }
    if (other->length > 0) {
        memcpy(self->data + self->length, other->data, other->length);
        self->length += other->length;
    }
    return true;
}
