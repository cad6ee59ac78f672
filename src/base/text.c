#include "base/text.h"

#include <rql/base.h>

enum { MICROSECOND_DIGITS = 6, SAFE_DIGITS = 18 /* so many never overflow */ };

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

/* Takes the digits at *at and moves past them; none, or too large a number, is false. */
static bool take_digits(struct rqli_slice text, size_t *at, uint64_t limit, uint64_t *out)
{
    size_t start = *at;
    uint64_t value = 0;

    for (; *at < text.length && is_digit(text.data[*at]); (*at)++) {
        uint64_t digit = (uint64_t)(text.data[*at] - '0');

        if (*at - start >= SAFE_DIGITS && value > (limit - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out = value;
    return *at > start && value <= limit;
}

/* limit is at most 2^63, so that the smallest number is reached without overflow. */
static int64_t with_sign(uint64_t value, bool negative)
{
    return (int64_t)(negative ? 0 - value : value);
}

bool rqli_parse_int(struct rqli_slice text, int64_t *out)
{
    bool negative = text.length > 0 && text.data[0] == '-';
    size_t at = negative ? 1 : 0;
    uint64_t value;

    if (!take_digits(text, &at, (uint64_t)INT64_MAX + negative, &value) || at != text.length) {
        return false;
    }
    *out = with_sign(value, negative);
    return true;
}

/* The digits behind the point, rounded: Redis prints scores with more digits than they have. */
static bool take_fraction(struct rqli_slice text, size_t *at, uint64_t *out_us)
{
    size_t start = *at;
    uint64_t value = 0;
    bool round_up = false;

    for (; *at < text.length && is_digit(text.data[*at]); (*at)++) {
        if (*at - start < MICROSECOND_DIGITS) {
            value = value * 10 + (uint64_t)(text.data[*at] - '0');
        } else if (*at - start == MICROSECOND_DIGITS) {
            round_up = text.data[*at] >= '5';
        }
    }
    for (size_t n_digits = *at - start; n_digits < MICROSECOND_DIGITS; n_digits++) {
        value *= 10;
    }
    *out_us = value + round_up;
    return *at > start;
}

bool rqli_parse_seconds(struct rqli_slice text, int64_t *out_us)
{
    bool negative = text.length > 0 && text.data[0] == '-';
    size_t at = negative ? 1 : 0;
    uint64_t seconds;
    uint64_t fraction_us = 0;

    /* One second below the largest number leaves room for the fraction. */
    if (!take_digits(text, &at, INT64_MAX / 1000000 - 1, &seconds)) {
        return false;
    }
    if (at < text.length && text.data[at] == '.') {
        at++;
        if (!take_fraction(text, &at, &fraction_us)) {
            return false;
        }
    }
    if (at != text.length) {
        return false;
    }
    *out_us = with_sign(seconds * 1000000 + fraction_us, negative);
    return true;
}

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
        return 1 + rqli_format_uint(out + 1, 0 - (uint64_t)value);
    }
    return rqli_format_uint(out, (uint64_t)value);
}

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
