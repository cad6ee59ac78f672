/* Durations as people write them: "0.5s", "1h30m", "30d". */

#include "base/error.h"

#include <rql/options.h>
#include <string.h>

/* From the longest on: the parts of a duration stand in this order. */
static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {
    {"d", INT64_C(86400000)}, {"h", INT64_C(3600000)}, {"m", INT64_C(60000)},
    {"s", INT64_C(1000)},     {"ms", INT64_C(1)},
};

enum { N_UNITS = sizeof units / sizeof units[0], FRACTION_DIGITS = 9 };

/* One number with its unit. */
struct part {
    int64_t whole;
    int64_t fraction; /* the digits behind the point */
    int64_t scale;    /* ten to the power of their number; 1: there is no point */
    size_t unit;
};

/* Digits only, so that " 5s", "+5s" and "0x5s" are refused. What follows them, or NULL. */
static const char *take_digits(const char *at, int64_t *out)
{
    int64_t value = 0;

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

static const char *take_fraction(const char *at, struct part *part)
{
    const char *end = take_digits(at, &part->fraction);

    if (!end || end - at > FRACTION_DIGITS) {
        return NULL;
    }
    for (; at < end; at++) {
        part->scale *= 10;
    }
    return end;
}

static const char *take_unit(const char *at, struct part *part)
{
    size_t length = strspn(at, "dhms");

    for (part->unit = 0; part->unit < N_UNITS; part->unit++) {
        if (strlen(units[part->unit].name) == length &&
            strncmp(at, units[part->unit].name, length) == 0) {
            return at + length;
        }
    }
    return NULL;
}

static const char *take_part(const char *at, struct part *part)
{
    *part = (struct part){.scale = 1};
    at = take_digits(at, &part->whole);
    if (at && *at == '.') {
        at = take_fraction(at + 1, part);
    }
    return at ? take_unit(at, part) : NULL;
}

/* False: too large, or no whole number of milliseconds. */
static bool add_part(int64_t *total_ms, const struct part *part)
{
    int64_t whole_ms;
    int64_t fraction_ms;

    return !__builtin_mul_overflow(part->whole, units[part->unit].ms, &whole_ms) &&
           !__builtin_mul_overflow(part->fraction, units[part->unit].ms, &fraction_ms) &&
           fraction_ms % part->scale == 0 &&
           !__builtin_add_overflow(*total_ms, whole_ms, total_ms) &&
           !__builtin_add_overflow(*total_ms, fraction_ms / part->scale, total_ms);
}

/* Only the last part may have a point, and each has a shorter unit than the one before. */
static bool read_parts(const char *at, int64_t *out_ms)
{
    struct part part = {.scale = 1};
    size_t least_unit = 0;
    int64_t total_ms = 0;

    do {
        if (part.scale != 1) {
            return false;
        }
        at = take_part(at, &part);
        if (!at || part.unit < least_unit || !add_part(&total_ms, &part)) {
            return false;
        }
        least_unit = part.unit + 1;
    } while (*at != '\0');
    *out_ms = total_ms;
    return true;
}

rql_status rql_parse_duration(const char *text, int64_t *out_ms, rql_error *error)
{
    bool is_negative = text && *text == '-';
    const char *digits = is_negative ? text + 1 : text;
    int64_t value_ms = 0;

    if (!text || !out_ms) {
        return rqli_fail(error, RQL_E_INVALID, "duration: text or result is NULL");
    }
    if (strcmp(digits, "0") != 0 && !read_parts(digits, &value_ms)) {
        return rqli_fail(error, RQL_E_INVALID,
                         "duration: must have units, as 500ms, 0.5s, 1h30m or 30d");
    }
    *out_ms = is_negative ? -value_ms : value_ms;
    return RQL_OK;
}
