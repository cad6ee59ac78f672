#include "text.h"

#include "output.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>

enum {
    MS_PER_SECOND = 1000,
    SECONDS_PER_MINUTE = 60,
    SECONDS_PER_HOUR = 3600,
    SECONDS_PER_DAY = 86400,
    ESCAPE_SIZE = 8,         /* longest escape, "\u202e", with its terminator */
    FIRST_COMBINING = 0x300, /* all characters before it take one column */
};

static bool is_tail(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

static size_t length_of_sequence(unsigned char first)
{
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xc2 && first <= 0xdf) {
        return 2;
    }
    if (first >= 0xe0 && first <= 0xef) {
        return 3;
    }
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* Bytes of the valid character at `text`, or 0. The terminator is no tail, so it stops in time. */
static size_t decode(const char *text, uint32_t *out)
{
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = (unsigned char)text[0];
    const size_t length = length_of_sequence(first);
    uint32_t value = length == 1 ? first : first & (0x7fU >> length);
    size_t i;

    for (i = 1; i < length; i++) {
        if (!is_tail((unsigned char)text[i])) {
            return 0;
        }
        value = value << 6 | ((unsigned char)text[i] & 0x3fU);
    }
    if (length == 0 || value < smallest[length] || value > 0x10ffff ||
        (value >= 0xd800 && value <= 0xdfff)) {
        return 0;
    }
    *out = value;
    return length;
}

/* Control characters, and those that turn the direction of text around. */
static bool is_dangerous(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x061c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

static int write_escape(char out[ESCAPE_SIZE], uint32_t c)
{
    if (c == '\n') {
        return snprintf(out, ESCAPE_SIZE, "\\n");
    }
    if (c == '\t') {
        return snprintf(out, ESCAPE_SIZE, "\\t");
    }
    return c < 0x80 ? snprintf(out, ESCAPE_SIZE, "\\x%02x", (unsigned)c)
                    : snprintf(out, ESCAPE_SIZE, "\\u%04x", (unsigned)(c & 0xffff));
}

static char *allocate(size_t length, size_t growth)
{
    return cli_must(length < SIZE_MAX / growth - 1 ? malloc(length * growth + 1) : NULL);
}

char *cli_text_for_terminal(const char *text)
{
    char *const out = allocate(strlen(text), ESCAPE_SIZE);
    size_t used = 0;
    uint32_t c = 0;
    size_t n;

    while (*text) {
        n = decode(text, &c);
        if (n > 0 && !is_dangerous(c)) {
            (void)memcpy(out + used, text, n);
            used += n;
        } else if (n > 0) {
            used += (size_t)write_escape(out + used, c);
        } else {
            used += (size_t)snprintf(out + used, ESCAPE_SIZE, "\\x%02x", (unsigned char)*text);
        }
        text += n > 0 ? n : 1;
    }
    out[used] = '\0';
    return out;
}

char *cli_text_for_json(const char *text)
{
    static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */
    char *const out = allocate(strlen(text), sizeof replacement - 1);
    size_t used = 0;
    uint32_t c = 0;
    size_t n;

    while (*text) {
        n = decode(text, &c);
        (void)memcpy(out + used, n > 0 ? text : replacement, n > 0 ? n : sizeof replacement - 1);
        used += n > 0 ? n : sizeof replacement - 1;
        text += n > 0 ? n : 1;
    }
    out[used] = '\0';
    return out;
}

/* By the C library's tables: 2 for wide characters, 0 for those that are put upon the last one. */
static size_t width_of(uint32_t c)
{
    static locale_t utf8;
    locale_t old;
    int width;

    if (c >= FIRST_COMBINING && !utf8) {
        utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
    }
    if (c < FIRST_COMBINING || !utf8) {
        return 1;
    }
    old = uselocale(utf8);
    width = wcwidth((wchar_t)c);
    (void)uselocale(old);
    return width < 0 ? 1 : (size_t)width;
}

size_t cli_text_width(const char *text)
{
    size_t width = 0;
    uint32_t c = 0;
    size_t n;

    for (; *text; text += n > 0 ? n : 1) {
        n = decode(text, &c);
        width += n > 0 ? width_of(c) : 1;
    }
    return width;
}

/* A count of a larger unit and one of the next smaller. */
static const char *print_two(char *out, int64_t seconds, int64_t large, const char *letters)
{
    const int64_t small = large == SECONDS_PER_MINUTE ? 1
                          : large == SECONDS_PER_HOUR ? SECONDS_PER_MINUTE
                                                      : SECONDS_PER_HOUR;

    (void)snprintf(out, CLI_DURATION_SIZE, "%lld%c%02lld%c", (long long)(seconds / large),
                   letters[0], (long long)(seconds % large / small), letters[1]);
    return out;
}

const char *cli_format_duration(int64_t value_ms, char out[CLI_DURATION_SIZE])
{
    const int64_t s = value_ms / MS_PER_SECOND;

    if (value_ms < 0) {
        return "-";
    }
    if (s >= SECONDS_PER_DAY) {
        return print_two(out, s, SECONDS_PER_DAY, "dh");
    }
    if (s >= SECONDS_PER_HOUR) {
        return print_two(out, s, SECONDS_PER_HOUR, "hm");
    }
    if (s >= SECONDS_PER_MINUTE) {
        return print_two(out, s, SECONDS_PER_MINUTE, "ms");
    }
    if (s > 0) {
        (void)snprintf(out, CLI_DURATION_SIZE, "%lld.%llds", (long long)s,
                       (long long)(value_ms % MS_PER_SECOND / 100));
    } else {
        (void)snprintf(out, CLI_DURATION_SIZE, "%lldms", (long long)value_ms);
    }
    return out;
}

static int64_t read_clock_us(clockid_t clock)
{
    struct timespec now = {0};

    (void)clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

int64_t cli_now_ms(void)
{
    return read_clock_us(CLOCK_BOOTTIME) / 1000;
}

int64_t cli_after_ms(int64_t ms)
{
    int64_t sum;

    return __builtin_add_overflow(cli_now_ms(), ms, &sum) ? INT64_MAX : sum;
}

int64_t cli_age_ms(int64_t time_us)
{
    const int64_t age_ms = (read_clock_us(CLOCK_REALTIME) - time_us) / 1000;

    if (time_us < 0) {
        return -1;
    }
    return age_ms > 0 ? age_ms : 0; /* two hosts' clocks differ */
}
