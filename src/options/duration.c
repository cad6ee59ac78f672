/* Durations as people write them: "0.5s", "1h30m", "30d". */

#include "base/error.h"

#include <rql/admin.h>
#include <string.h>

/* The longest comes first: the parts of a duration have this order. */
static const struct {
    const char *name;
    int64_t ms;
} units[] = {
    {"d", INT64_C(86400000)}, {"h", INT64_C(3600000)}, {"m", INT64_C(60000)},
    {"s", INT64_C(1000)},     {"ms", INT64_C(1)},
};

enum { N_UNITS = sizeof units / sizeof units[0], FRACTION_DIGITS = 9 };

/* The part of the duration that was read so far. */
struct duration {
    int64_t total_ms;
    size_t next_unit; /* each part has a shorter unit than the one before */
    bool is_ended;    /* only the last part may have a point */
};

/* Reads digits only, so that " 5s", "+5s" and "0x5s" are refused. Returns the text after them, or
 * NULL. */
static const char *take_digits(const char *at, int64_t *out)
{
    int64_t value = 0;

    /* Without a digit, neither a unit without a number nor an empty text is a part. */
    if (*at < '0' || *at > '9') {
        return NULL;
    }
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *at - '0', &value)) {
            return NULL;
        }
    }
    *out = value;
    return at;
}

/* Reads a number with its unit: "1.5s" is 1 and 5 with a scale of 10. Returns the text after it, or
 * NULL if there is no number, it is too large, or it is not whole milliseconds. */
static const char *take_part(const char *at, struct duration *out)
{
    int64_t whole = 0;
    int64_t fraction = 0;
    int64_t scale = 1; /* ten to the power of the number of digits after the point */
    size_t length;
    size_t i = out->next_unit;

    at = out->is_ended ? NULL : take_digits(at, &whole);
    if (at && *at == '.') {
        const char *end = take_digits(at + 1, &fraction);

        out->is_ended = true;
        if (!end || end - (at + 1) > FRACTION_DIGITS) {
            return NULL;
        }
        for (at++; at < end; at++) {
            scale *= 10;
        }
    }
    if (!at) {
        return NULL;
    }
    /* Takes all letters together, so that "5ms" is not read as minutes. The search begins after the
     * last unit: "1s1h" and "1s1s" are refused. */
    length = strspn(at, "dhms");
    while (i < N_UNITS &&
           (strlen(units[i].name) != length || strncmp(at, units[i].name, length) != 0)) {
        i++;
    }
    /* Nine digits of days in milliseconds fit into 64 bits; the whole part may be too large. */
    if (i == N_UNITS || __builtin_mul_overflow(whole, units[i].ms, &whole) ||
        __builtin_mul_overflow(fraction, units[i].ms, &fraction) || fraction % scale != 0 ||
        __builtin_add_overflow(out->total_ms, whole, &out->total_ms) ||
        __builtin_add_overflow(out->total_ms, fraction / scale, &out->total_ms)) {
        return NULL;
    }
    out->next_unit = i + 1;
    return at + length;
}

rql_status rql_duration_parse(const char *text, int64_t *out_ms, rql_error *error)
{
    bool is_negative = text && *text == '-';
    const char *digits = is_negative ? text + 1 : text;
    struct duration read = {0};

    if (!text || !out_ms) {
        return rqli_fail(error, RQL_E_INVALID, "duration: text or result is NULL");
    }
    /* Only "0" needs no unit. An empty text fails in the first round. */
    if (strcmp(digits, "0") != 0) {
        do {
            digits = take_part(digits, &read);
        } while (digits && *digits != '\0');
    }
    if (!digits) {
        return rqli_fail(error, RQL_E_INVALID,
                         "duration: must have units, such as 500ms, 0.5s, 1h30m or 30d");
    }
    /* The sum is not negative, so its negation cannot overflow. */
    *out_ms = is_negative ? -read.total_ms : read.total_ms;
    return RQL_OK;
}
