#ifndef RQLI_TEXT_H
#define RQLI_TEXT_H

/* Small pieces of text: bytes with a length, strict numbers. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Borrowed bytes; not terminated. */
struct rqli_slice {
    const char *data;
    size_t length;
};

static inline struct rqli_slice rqli_slice_of(const char *text)
{
    return (struct rqli_slice){text, strlen(text)};
}

static inline bool rqli_slice_is(struct rqli_slice slice, const char *text)
{
    return strlen(text) == slice.length &&
           (slice.length == 0 || memcmp(text, slice.data, slice.length) == 0);
}

/* Decimal digits with an optional '-', nothing else, no overflow. */
bool rqli_parse_int(struct rqli_slice text, int64_t *out);

/* Seconds as the gem writes them ("1795254268.4681") to microseconds; no exponent, no nan. */
bool rqli_parse_seconds(struct rqli_slice text, int64_t *out_us);

/* Write a decimal number without terminator; return its length, at most 20. */
size_t rqli_format_int(char *out, int64_t value);
size_t rqli_format_uint(char *out, uint64_t value);

/* 1 to RQL_NAME_MAX bytes, no control bytes. */
bool rqli_name_is_valid(const char *name);

#endif
