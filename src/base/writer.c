#include "base/writer.h"

#include "base/text.h"
#include <rql/base.h>

enum { INT_SIZE = 24, DIGITS_MAX = 6 };

void rqli_writer_init(struct rqli_writer *self, char *buffer, size_t size)
{
    self->buffer = buffer;
    self->size = size;
    self->length = 0;
}

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

static bool continues(const unsigned char *at, size_t count)
{
    for (size_t i = 1; i <= count; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return false;
        }
    }
    return true;
}

/* Bytes of the character that begins here; 0: it is no UTF-8 (overlong, a surrogate, too large). */
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

size_t rqli_writer_end(struct rqli_writer *self)
{
    if (self->size > 0) {
        self->buffer[self->length < self->size ? self->length : self->size - 1] = '\0';
    }
    return self->length;
}
