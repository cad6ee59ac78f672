#include "format.h"

#include "exit.h"
#include "os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

enum {
    MS_PER_SECOND = 1000,
    ESCAPE_SIZE = 8,         /* room for the longest escape, "\u202e", and its terminator */
    FIRST_COMBINING = 0x300, /* all characters below it take one column */
};

/* The C library decodes by the locale, which may be any. Names are UTF-8 by the rules of the API,
 * but other programs may break the rules. */

/* Returns the number of bytes of the valid UTF-8 character at `text`, or 0. The terminator is no
 * continuation byte, so decoding stops in time. */
static size_t decode(const char *text, uint32_t *out)
{
    /* Indexed by the number of bytes: a smaller value could be written with fewer bytes. */
    static const uint32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char first = (unsigned char)text[0];
    const size_t length = first < 0x80   ? 1
                          : first < 0xc2 ? 0
                          : first < 0xe0 ? 2
                          : first < 0xf0 ? 3
                          : first < 0xf5 ? 4
                                         : 0;
    uint32_t value = length == 1 ? first : first & (0x7fU >> length);

    for (size_t i = 1; i < length; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) {
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

/* Returns whether a character could make a text look like another one. These are control
 * characters, characters that change the direction of text, line separators and the byte order
 * mark. */
static bool is_dangerous(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x061c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

/* Writes a printable escape. It is the same for equal bytes, so the output can be compared and
 * searched. No escaped character is above U+FFFF. Returns the length, as snprintf() does. */
static int write_escape(char out[ESCAPE_SIZE], uint32_t c)
{
    if (c == '\n' || c == '\t') {
        return snprintf(out, ESCAPE_SIZE, "\\%c", c == '\n' ? 'n' : 't');
    }
    return snprintf(out, ESCAPE_SIZE, c < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)(c & 0xffff));
}

/* Returns a cleaned copy, which the caller frees. Each byte becomes at most one escape, so the size
 * is known beforehand. */
static char *clean(const char *text, bool for_terminal)
{
    const size_t length = strlen(text);
    char *const out =
        cli_must(length < SIZE_MAX / ESCAPE_SIZE - 1 ? malloc(length * ESCAPE_SIZE + 1) : NULL);
    char *end = out;
    uint32_t c = 0;
    size_t n;

    for (; *text; text += n > 0 ? n : 1) {
        n = decode(text, &c);
        if (n > 0 && !(for_terminal && is_dangerous(c))) {
            end = mempcpy(end, text, n);
        } else if (n > 0) {
            end += write_escape(end, c);
        } else {
            end += for_terminal ? snprintf(end, ESCAPE_SIZE, "\\x%02x", (unsigned char)*text)
                                : snprintf(end, ESCAPE_SIZE, "\xef\xbf\xbd"); /* U+FFFD */
        }
    }
    *end = '\0';
    return out;
}

char *cli_text_for_terminal(const char *text)
{
    return clean(text, true);
}

char *cli_text_for_json(const char *text)
{
    return clean(text, false);
}

int cli_compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int cli_compare_numbers(const void *a, const void *b)
{
    const int64_t *left = a;
    const int64_t *right = b;

    return (*left > *right) - (*left < *right);
}

/* The locale is made at its first use and kept. Only one thread prints tables and matches names. */
locale_t cli_utf8(void)
{
    static locale_t utf8;

    if (!utf8) {
        utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", NULL);
    }
    return utf8;
}

/* Returns the width by the C library's tables: 2 for wide characters, 0 for combining ones. */
static size_t width_of(uint32_t c)
{
    const locale_t utf8 = c >= FIRST_COMBINING ? cli_utf8() : NULL;
    locale_t old;
    int width;

    if (!utf8) {
        return 1;
    }
    old = uselocale(utf8);
    width = wcwidth((wchar_t)c);
    (void)uselocale(old);
    return width < 0 ? 1 : (size_t)width;
}

/* Returns the text after the prefix, or the same pointer if it does not begin with the prefix. */
static const char *without_prefix(const char *text, const char *prefix)
{
    const size_t length = strlen(prefix);

    return strncmp(text, prefix, length) == 0 ? text + length : text;
}

/* In a cluster the name comes after the tag of its partition. */
const char *cli_name_of_key(const char *key)
{
    const char *rest = without_prefix(key, "rql:");
    const char *tag_end = *rest == '{' ? strstr(rest, "}:") : NULL;
    const char *kind = tag_end ? tag_end + strlen("}:") : rest;
    const char *name = without_prefix(kind, "lock:");

    name = name == kind ? without_prefix(kind, "lock_queue:") : name;
    return name == kind ? key : name;
}

/* Expects a text that was made for a terminal. Such a text is UTF-8, so an invalid byte is not
 * expected. */
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

/* Uses at most two units, because a reader of a table needs only an approximate duration. JSON has
 * the exact number. */
const char *cli_format_duration(int64_t value_ms, char out[CLI_DURATION_SIZE])
{
    static const struct {
        int64_t large_s;
        int64_t small_s;
        char letters[2];
    } units[] = {{86400, 3600, "dh"}, {3600, 60, "hm"}, {60, 1, "ms"}};

    /* The loop starts with the largest unit. Below a minute there is a fraction instead of a second
     * unit. */
    const int64_t s = value_ms / MS_PER_SECOND;

    if (value_ms < 0) {
        /* This is not in `out`: the caller must use the result, not the buffer. */
        return "-";
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (s >= units[i].large_s) {
            (void)snprintf(out, CLI_DURATION_SIZE, "%lld%c%02lld%c",
                           (long long)(s / units[i].large_s), units[i].letters[0],
                           (long long)(s % units[i].large_s / units[i].small_s),
                           units[i].letters[1]);
            return out;
        }
    }
    if (s > 0) {
        (void)snprintf(out, CLI_DURATION_SIZE, "%lld.%llds", (long long)s,
                       (long long)(value_ms % MS_PER_SECOND / 100));
    } else {
        (void)snprintf(out, CLI_DURATION_SIZE, "%lldms", (long long)value_ms);
    }
    return out;
}

static int64_t read_us(clockid_t clock)
{
    struct timespec now = {0};

    (void)clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

/* Reads the clock that continues during suspend, as the library does. */
int64_t cli_now_us(void)
{
    return read_us(CLI_OS_CLOCK);
}

int64_t cli_wall_us(void)
{
    return read_us(CLOCK_REALTIME);
}

int64_t cli_now_ms(void)
{
    return cli_now_us() / 1000;
}

int64_t cli_after_ms(int64_t ms)
{
    int64_t sum;

    return __builtin_add_overflow(cli_now_ms(), ms, &sum) ? INT64_MAX : sum;
}

struct timespec cli_timespec(int64_t ms)
{
    const int64_t most_s = sizeof(time_t) > sizeof(int32_t) ? INT64_MAX : INT32_MAX;
    const int64_t s = ms / 1000;

    return (struct timespec){.tv_sec = (time_t)(s < most_s ? s : most_s),
                             .tv_nsec = (long)(ms % 1000) * 1000000};
}

/* A negative age counts as 0: the gem dates its requests by its own machine's clock, which may be
 * ahead. */
int64_t cli_age_ms(int64_t time_us, int64_t server_us)
{
    const int64_t age_ms = (server_us - time_us) / 1000;

    if (time_us < 0 || server_us < 0) {
        return -1;
    }
    return age_ms > 0 ? age_ms : 0;
}

size_t cli_help_width(void)
{
    enum { WIDEST = 80, NARROWEST = 40 };

    struct winsize size = {.ws_col = 0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_col > WIDEST) {
        return WIDEST;
    }
    return size.ws_col < NARROWEST ? NARROWEST : size.ws_col;
}

const char *cli_paragraph_end(const char *text)
{
    const bool is_set_in = *text == ' ';

    while (*text && (*text == ' ') == is_set_in) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return text;
}

void cli_print_words(FILE *to, const char *text, size_t length, size_t indent)
{
    const char *const end = text + length;
    const size_t width = cli_help_width();
    size_t column = indent;

    while (text < end) {
        const size_t word = strcspn(text, " \n");

        if (column > indent && column + 1 + word > width) {
            (void)fprintf(to, "\n%*s", (int)indent, "");
            column = indent;
        }
        (void)fprintf(to, "%s%.*s", column > indent ? " " : "", (int)word, text);
        column += word + (column > indent);
        text += word;
        text += strspn(text, " \n");
    }
    (void)fputc('\n', to);
}
