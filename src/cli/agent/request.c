#include "request.h"

#include <stdbool.h>
#include <string.h>

/* Returns the bytes of the line that begins here, without its end; -1: its end has not come. *next
 * is behind the end, which is "\r\n" or "\n". */
static ptrdiff_t line_length(const char *data, size_t size, size_t *next)
{
    const char *end = memchr(data, '\n', size);
    size_t length;

    if (!end) {
        return -1;
    }
    length = (size_t)(end - data);
    *next = length + 1;
    return (ptrdiff_t)(length > 0 && data[length - 1] == '\r' ? length - 1 : length);
}

/* Reads a number of at most five digits, 0 to `most`, which is the whole text. */
static bool read_number(const char *text, size_t length, size_t most, size_t *out)
{
    size_t number = 0;

    if (length == 0 || length > 5) {
        return false;
    }
    for (size_t i = 0; i < length; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        number = number * 10 + (size_t)(text[i] - '0');
    }
    *out = number;
    return number <= most;
}

static enum agent_reading fail(const char **wrong, const char *why)
{
    *wrong = why;
    return AGENT_READ_WRONG;
}

/* A line that has no end yet is wrong once it is longer than any number. */
static enum agent_reading wait_for_line(size_t size, const char **wrong)
{
    return size > 16 ? fail(wrong, "Protocol error: invalid length") : AGENT_READ_PART;
}

/* Reads "$5\r\nhello\r\n" at *at. */
static enum agent_reading read_word(char *data, size_t size, size_t *at, struct agent_word *out,
                                    const char **wrong)
{
    char *start = data + *at;
    const size_t left = size - *at;
    size_t next = 0;
    size_t length = 0;
    const ptrdiff_t digits = left > 0 ? line_length(start, left, &next) : -1;

    if (left > 0 && start[0] != '$') {
        return fail(wrong, "Protocol error: expected '$'");
    }
    if (digits < 0) {
        return wait_for_line(left, wrong);
    }
    if (!read_number(start + 1, (size_t)digits - 1, AGENT_REQUEST_MAX, &length)) {
        return fail(wrong, "Protocol error: invalid bulk length");
    }
    if (left - next < length + 2) {
        return AGENT_READ_PART;
    }
    if (memcmp(start + next + length, "\r\n", 2) != 0) {
        return fail(wrong, "Protocol error: a bulk string is longer than its length");
    }
    *out = (struct agent_word){.data = start + next, .length = length};
    *at += next + length + 2;
    return AGENT_READ_ALL;
}

/* Words are terminated only when all have come: until then the buffer is read again. */
static enum agent_reading read_array(char *data, size_t size, struct agent_request *out,
                                     size_t *used, const char **wrong)
{
    const ptrdiff_t digits = line_length(data, size, used);
    size_t count = 0;

    if (digits < 0) {
        return wait_for_line(size, wrong);
    }
    if (digits > 1 && data[1] == '-') { /* as Redis: nothing is asked */
        out->count = 0;
        return AGENT_READ_ALL;
    }
    if (!read_number(data + 1, (size_t)digits - 1, AGENT_WORDS_MAX, &count)) {
        return fail(wrong, "Protocol error: invalid multibulk length");
    }
    for (size_t i = 0; i < count; i++) {
        const enum agent_reading reading = read_word(data, size, used, &out->words[i], wrong);

        if (reading != AGENT_READ_ALL) {
            return reading;
        }
    }
    for (size_t i = 0; i < count; i++) {
        out->words[i].data[out->words[i].length] = '\0';
    }
    out->count = count;
    return AGENT_READ_ALL;
}

/* Words of a line are separated by blanks; there are no quotes. */
static enum agent_reading read_line(char *data, size_t size, struct agent_request *out,
                                    size_t *used, const char **wrong)
{
    const ptrdiff_t length = line_length(data, size, used);
    char *at = data;

    if (length < 0) {
        return AGENT_READ_PART;
    }
    if (memchr(data, '\0', (size_t)length)) {
        return fail(wrong, "Protocol error: a NUL byte");
    }
    data[length] = '\0';
    out->count = 0;
    for (at += strspn(at, " \t"); *at; at += strspn(at, " \t")) {
        if (out->count == AGENT_WORDS_MAX) {
            return fail(wrong, "Protocol error: too many words");
        }
        out->words[out->count] = (struct agent_word){.data = at, .length = strcspn(at, " \t")};
        at += out->words[out->count++].length;
        if (*at) {
            *at++ = '\0';
        }
    }
    return AGENT_READ_ALL;
}

enum agent_reading agent_request_read(char *data, size_t size, struct agent_request *out,
                                      size_t *used, const char **wrong)
{
    const size_t looked_at = size < AGENT_REQUEST_MAX ? size : AGENT_REQUEST_MAX;
    enum agent_reading reading = AGENT_READ_PART;

    if (size > 0) {
        reading = data[0] == '*' ? read_array(data, looked_at, out, used, wrong)
                                 : read_line(data, looked_at, out, used, wrong);
    }
    if (reading == AGENT_READ_PART && size >= AGENT_REQUEST_MAX) {
        return fail(wrong, "Protocol error: the request is too long");
    }
    return reading;
}
