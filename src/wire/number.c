#include "wire/number.h"

/* More digits or a larger exponent than any double needs in the range of a clock. */
enum { MAX_MANTISSA = 40, MAX_EXPONENT = 40, EXPANDED_SIZE = MAX_MANTISSA + MAX_EXPONENT + 8 };

static struct rqli_slice behind(struct rqli_slice text, size_t count)
{
    return (struct rqli_slice){text.data + count, text.length - count};
}

static struct rqli_slice without_plus(struct rqli_slice text)
{
    bool plus = text.length > 1 && text.data[0] == '+' && text.data[1] != '-';

    return plus ? behind(text, 1) : text;
}

static size_t skip_digits(struct rqli_slice text, size_t at)
{
    while (at < text.length && text.data[at] >= '0' && text.data[at] <= '9') {
        at++;
    }
    return at;
}

/* Digits, and if there is a point then digits behind it too. */
static bool is_mantissa(struct rqli_slice text)
{
    size_t first = text.length > 0 && text.data[0] == '-' ? 1 : 0;
    size_t at = skip_digits(text, first);

    if (at == first || at == text.length) {
        return at > first;
    }
    return text.data[at] == '.' && at + 1 < text.length && skip_digits(text, at + 1) == text.length;
}

static size_t find_exponent(struct rqli_slice text)
{
    size_t at = 0;

    while (at < text.length && text.data[at] != 'e' && text.data[at] != 'E') {
        at++;
    }
    return at;
}

/* The digits of a well-formed mantissa without its point; returns where the point was. */
static size_t strip_point(struct rqli_slice mantissa, char *digits, size_t *n_digits)
{
    size_t point = mantissa.length;

    *n_digits = 0;
    for (size_t i = 0; i < mantissa.length; i++) {
        if (mantissa.data[i] == '.') {
            point = i;
        } else {
            digits[(*n_digits)++] = mantissa.data[i];
        }
    }
    return point;
}

/* Writes digits with the point moved to `point`, which may lie outside of them. */
static size_t place_point(char *out, const char *digits, size_t n_digits, int64_t point)
{
    size_t length = 0;

    if (point <= 0) {
        out[length++] = '0';
    }
    for (int64_t i = point < 0 ? point : 0; i < (int64_t)n_digits || i < point; i++) {
        if (i == point) {
            out[length++] = '.';
        }
        out[length] = '0';
        if (i >= 0 && i < (int64_t)n_digits) {
            out[length] = digits[i];
        }
        length++;
    }
    return length;
}

/* "1.79e9" is "1790000000": moving the point keeps every digit, a double would not. */
static bool parse_scaled(struct rqli_slice mantissa, int64_t exponent, int64_t *out_us)
{
    bool negative = mantissa.length > 0 && mantissa.data[0] == '-';
    char digits[MAX_MANTISSA];
    char expanded[EXPANDED_SIZE];
    size_t n_digits;
    size_t length = 0;
    int64_t point;

    if (mantissa.length > MAX_MANTISSA || exponent < -MAX_EXPONENT || exponent > MAX_EXPONENT) {
        return false;
    }
    if (negative) {
        expanded[length++] = '-';
    }
    point = (int64_t)strip_point(behind(mantissa, negative), digits, &n_digits) + exponent;
    length += place_point(expanded + length, digits, n_digits, point);
    return rqli_parse_seconds((struct rqli_slice){expanded, length}, out_us);
}

bool rqli_gem_seconds(struct rqli_slice text, int64_t *out_us)
{
    struct rqli_slice mantissa = without_plus(text);
    size_t at = find_exponent(mantissa);
    int64_t exponent;

    if (at == mantissa.length) {
        return rqli_parse_seconds(mantissa, out_us);
    }
    if (!rqli_parse_int(without_plus(behind(mantissa, at + 1)), &exponent)) {
        return false;
    }
    mantissa.length = at;
    return is_mantissa(mantissa) && parse_scaled(mantissa, exponent, out_us);
}

bool rqli_gem_integer(struct rqli_slice text, int64_t *out)
{
    struct rqli_slice number = without_plus(text);
    size_t first = number.length > 0 && number.data[0] == '-' ? 1 : 0;

    if (number.length > first + 1 && number.data[first] == '0') {
        return false;
    }
    return rqli_parse_int(number, out);
}
