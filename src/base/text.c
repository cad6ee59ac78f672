#include "base/text.h"

#include <rql/base.h>
#include <stdarg.h>
#include <stdio.h>

/*
 * Numbers, names and texts without the C library's locale. Parsers are strict, because locks depend
 * on the values that they read: no blanks, no sign but a minus, no overflow. The writer goes on
 * counting when its buffer is full, so that callers learn how much room they need.
 */

enum { SAFE_DIGITS = 18 /* this many never overflow */ };

/* Takes the digits at *at and moves past them. Returns false if there are none, or the number is
 * too large. The limit is checked by division only after the 18th digit, which nearly no number
 * has. */
static bool take_digits(struct rqli_slice text, size_t *at, uint64_t limit, uint64_t *out)
{
    size_t start = *at;
    uint64_t value = 0;

    for (; *at < text.length && text.data[*at] >= '0' && text.data[*at] <= '9'; (*at)++) {
        uint64_t digit = (uint64_t)(text.data[*at] - '0');

        if (*at - start >= SAFE_DIGITS && value > (limit - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return *at > start && value <= limit;
}

bool rqli_parse_int(struct rqli_slice text, int64_t *out)
{
    bool negative = text.length > 0 && text.data[0] == '-';
    size_t at = negative ? 1 : 0;
    uint64_t value;

    if (!take_digits(text, &at, (uint64_t)INT64_MAX + negative, &value) || at != text.length) {
        return false;
    }
    /* Negated as unsigned: the smallest number, -2^63, has no positive one. */
    *out = (int64_t)(negative ? 0 - value : value);
    return true;
}

bool rqli_parse_within(struct rqli_slice text, int min, int max, int *out)
{
    int64_t value;

    /* "-0" is refused. */
    if ((text.length > 0 && text.data[0] == '-') || !rqli_parse_int(text, &value) || value < min ||
        value > max) {
        return false;
    }
    *out = (int)value;
    return true;
}

/* Writes the digits from the last one on, as the division yields them; 20 are enough for 64
 * bits. */
size_t rqli_format_uint(char *out, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    memcpy(out, digits + at, sizeof digits - at);
    return sizeof digits - at;
}

size_t rqli_format_int(char *out, int64_t value)
{
    if (value < 0) {
        *out = '-';
        /* Negated as unsigned: the smallest number has no positive one. */
        return 1 + rqli_format_uint(out + 1, 0 - (uint64_t)value);
    }
    return rqli_format_uint(out, (uint64_t)value);
}

/* A name becomes part of keys, log lines and terminal output, so control bytes are refused. It need
 * not be UTF-8, because the gem accepts any bytes. */
bool rqli_name_is_valid(const char *name)
{
    size_t length;

    if (!name) {
        return false;
    }
    for (length = 0; name[length] != '\0'; length++) {
        unsigned char byte = (unsigned char)name[length];

        if (length == RQL_NAME_MAX || byte < 0x20 || byte == 0x7F) {
            return false;
        }
    }
    return length > 0;
}

enum { INT_SIZE = 24, DIGITS_MAX = 6 };

void rqli_writer_init(struct rqli_writer *self, char *buffer, size_t size)
{
    self->buffer = buffer;
    self->size = size;
    self->length = 0;
}

/* Once a text was cut, nothing more is written, because the length stays beyond the size. */
void rqli_write_bytes(struct rqli_writer *self, const char *bytes, size_t length)
{
    size_t room = self->length < self->size ? self->size - self->length : 0;

    if (room > 0) {
        memcpy(self->buffer + self->length, bytes, length < room ? length : room);
    }
    self->length += length;
}

void rqli_write_text(struct rqli_writer *self, const char *text)
{
    rqli_write_bytes(self, text, strlen(text));
}

void rqli_write_format(struct rqli_writer *self, const char *format, ...)
{
    size_t room = self->length < self->size ? self->size - self->length : 0;
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(room > 0 ? self->buffer + self->length : NULL, room, format, args);
    va_end(args);
    self->length += length > 0 ? (size_t)length : 0;
}

void rqli_write_int(struct rqli_writer *self, int64_t value)
{
    char digits[INT_SIZE];

    rqli_write_bytes(self, digits, rqli_format_int(digits, value));
}

void rqli_write_uint(struct rqli_writer *self, uint64_t value)
{
    char digits[INT_SIZE];

    rqli_write_bytes(self, digits, rqli_format_uint(digits, value));
}

/* Writes the number as Ruby prints a Float: no zeros at the end, but at least one digit after the
 * point. -0.5 has a whole part of 0, which has no sign, so the sign is written separately. */
void rqli_write_decimal(struct rqli_writer *self, int64_t value, unsigned digits)
{
    static const int64_t powers[DIGITS_MAX + 1] = {1, 10, 100, 1000, 10000, 100000, 1000000};
    int64_t rest = value < 0 ? -(value % powers[digits]) : value % powers[digits];
    char fraction[DIGITS_MAX + 1] = "0";
    size_t length = 1;

    for (unsigned i = 0; i < digits; i++) {
        fraction[i] = (char)('0' + rest / powers[digits - 1 - i] % 10);
        length = fraction[i] != '0' ? i + 1 : length;
    }
    if (value < 0 && value / powers[digits] == 0) {
        rqli_write_text(self, "-");
    }
    rqli_write_int(self, value / powers[digits]);
    rqli_write_text(self, ".");
    rqli_write_bytes(self, fraction, length);
}

void rqli_write_seconds(struct rqli_writer *self, int64_t ms, const char *forever)
{
    if (ms == RQL_FOREVER) {
        rqli_write_text(self, forever);
    } else if (ms % 1000 == 0) {
        rqli_write_int(self, ms / 1000);
    } else {
        rqli_write_decimal(self, ms, 3);
    }
}

/* Returns whether `count` bytes follow that continue a character. A NUL does not continue one, so
 * the end of the text is never passed. */
static bool continues(const unsigned char *at, size_t count)
{
    for (size_t i = 1; i <= count; i++) {
        if (!rqli_continues_character((char)at[i])) {
            return false;
        }
    }
    return true;
}

/* Returns the number of bytes of the character that begins here, or 0 if it is not UTF-8. The
 * second byte shows an encoding that is longer than needed (after E0 and F0), a surrogate (ED), and
 * a number that is too large (F4). */
static size_t utf8_length(const unsigned char *at)
{
    if (at[0] < 0x80) {
        return 1;
    }
    if (at[0] >= 0xC2 && at[0] <= 0xDF) {
        return continues(at, 1) ? 2 : 0;
    }
    if (at[0] >= 0xE0 && at[0] <= 0xEF) {
        if ((at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xED && at[1] > 0x9F)) {
            return 0;
        }
        return continues(at, 2) ? 3 : 0;
    }
    if (at[0] >= 0xF0 && at[0] <= 0xF4) {
        if ((at[0] == 0xF0 && at[1] < 0x90) || (at[0] == 0xF4 && at[1] > 0x8F)) {
            return 0;
        }
        return continues(at, 3) ? 4 : 0;
    }
    return 0;
}

/* Writes a byte below 0x80. DEL is escaped as well: JSON would allow it, but a terminal acts upon
 * it. */
static void write_ascii(struct rqli_writer *self, char byte)
{
    static const char hex[] = "0123456789abcdef";
    const char escaped[] = {'\\', byte};
    const char control[] = {'\\', 'u', '0', '0', hex[(byte >> 4) & 15], hex[byte & 15]};

    if (byte == '"' || byte == '\\') {
        rqli_write_bytes(self, escaped, sizeof escaped);
    } else if (byte < 0x20 || byte == 0x7F) {
        rqli_write_bytes(self, control, sizeof control);
    } else {
        rqli_write_bytes(self, &byte, 1);
    }
}

/* Bytes that are not UTF-8 become the replacement character, because JSON cannot carry them and a
 * line must not be lost because of them. */
void rqli_write_json(struct rqli_writer *self, const char *text)
{
    if (!text) {
        rqli_write_text(self, "null");
        return;
    }
    rqli_write_text(self, "\"");
    while (*text) {
        size_t length = utf8_length((const unsigned char *)text);

        if (length == 1) {
            write_ascii(self, *text);
        } else if (length > 1) {
            rqli_write_bytes(self, text, length);
        } else {
            rqli_write_text(self, "\\ufffd");
        }
        text += length > 0 ? length : 1;
    }
    rqli_write_text(self, "\"");
}

/* If the text is too long, its last byte gives way to the terminator. */
size_t rqli_writer_end(struct rqli_writer *self)
{
    if (self->size > 0) {
        self->buffer[self->length < self->size ? self->length : self->size - 1] = '\0';
    }
    return self->length;
}
