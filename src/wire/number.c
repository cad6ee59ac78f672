#include "wire/number.h"

/* In the range of a clock, no double that is printed with an exponent has more digits, or a larger
 * exponent. */
enum { MANTISSA_MAX = 40, EXPONENT_MAX = 40, MICROSECOND_DIGITS = 6 };

/* One second below the largest number leaves room for rounding. */
static const int64_t us_max = INT64_MAX / 1000000 * 1000000 - 1;

static struct rqli_slice behind(struct rqli_slice text, size_t count)
{
    return (struct rqli_slice){text.data + count, text.length - count};
}

/* Cuts off a '+'. The parser of the rest takes no '+', so that of "+-1" stays and it is not a
 * number. */
static struct rqli_slice without_plus(struct rqli_slice text)
{
    bool plus = text.length > 1 && text.data[0] == '+' && text.data[1] != '-';

    return plus ? behind(text, 1) : text;
}

static size_t count_digits(struct rqli_slice text, size_t at)
{
    size_t end = at;

    while (end < text.length && text.data[end] >= '0' && text.data[end] <= '9') {
        end++;
    }
    return end - at;
}

/* Cuts "e9" off, and returns its number, or 0 if there is none. False: it is not a number, or far
 * too large. */
static bool take_exponent(struct rqli_slice *text, int64_t *out)
{
    size_t at = 0;

    while (at < text->length && (text->data[at] | 0x20) != 'e') {
        at++;
    }
    *out = 0;
    if (at == text->length) {
        return true;
    }
    if (at > MANTISSA_MAX || !rqli_parse_int(without_plus(behind(*text, at + 1)), out)) {
        return false;
    }
    text->length = at;
    return *out >= -EXPONENT_MAX && *out <= EXPONENT_MAX;
}

/* Works digit by digit, so that none is lost as it would be in a double: servers print scores with
 * more digits than they have, and the gem compares them. */
bool rqli_gem_seconds(struct rqli_slice text, int64_t *out_us)
{
    struct rqli_slice rest = without_plus(text);
    bool negative = rest.length > 0 && rest.data[0] == '-';
    bool rounds_up = false;
    int64_t exponent;
    int64_t us = 0;
    size_t n_whole;
    size_t at = 0;

    rest = negative ? behind(rest, 1) : rest;
    if (!take_exponent(&rest, &exponent)) {
        return false;
    }
    /* Digits, optionally followed by a point and more digits. */
    n_whole = count_digits(rest, 0);
    if (n_whole == 0 ||
        (n_whole < rest.length && (rest.data[n_whole] != '.' || n_whole + 1 == rest.length ||
                                   n_whole + 1 + count_digits(rest, n_whole + 1) < rest.length))) {
        return false;
    }
    /* Each digit stands for this power of ten microseconds; the first digit below one is for
     * rounding. After the last digit there are zeros. */
    for (int64_t power = (int64_t)n_whole - 1 + exponent + MICROSECOND_DIGITS; power >= -1;
         power--) {
        int digit = 0;

        at += at == n_whole; /* the point */
        if (at < rest.length) {
            digit = rest.data[at++] - '0';
        }
        if (power < 0) {
            rounds_up = digit >= 5;
        } else if (us > (us_max - digit) / 10) {
            return false;
        } else {
            us = us * 10 + digit;
        }
    }
    us += rounds_up;
    *out_us = negative ? -us : us;
    return true;
}

/* A zero in front would mean octal for Ruby. */
bool rqli_gem_integer(struct rqli_slice text, int64_t *out)
{
    struct rqli_slice number = without_plus(text);
    size_t first = number.length > 0 && number.data[0] == '-' ? 1 : 0;

    if (number.length > first + 1 && number.data[first] == '0') {
        return false;
    }
    return rqli_parse_int(number, out);
}
