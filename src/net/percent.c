#include "net/percent.h"

#include "base/error.h"
#include "base/secret.h"

#include <stdlib.h>

static int hex_value(char digit)
{
    if (digit >= '0' && digit <= '9') {
        return digit - '0';
    }
    digit = (char)(digit | 0x20); /* lower case */
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

/* The byte at the front, decoded; -1: bad encoding, or a NUL, which would cut a C string short. The
 * text is not empty. */
static int take_byte(struct rqli_slice *rest)
{
    struct rqli_slice code = rqli_slice_take(rest, 1);
    int high;
    int low;

    if (code.data[0] != '%') {
        return (unsigned char)code.data[0];
    }
    if (rest->length < 2) {
        return -1;
    }
    code = rqli_slice_take(rest, 2);
    high = hex_value(code.data[0]);
    low = hex_value(code.data[1]);
    return high < 0 || low < 0 || high + low == 0 ? -1 : high * 16 + low;
}

rql_status rqli_percent_write(char **next, struct rqli_slice text, const char *part,
                              rql_error *error)
{
    while (text.length > 0) {
        int byte = take_byte(&text);

        if (byte < 0) {
            return rqli_fail(error, RQL_E_INVALID, "url: bad percent-encoding in the %s", part);
        }
        *(*next)++ = (char)byte;
    }
    *(*next)++ = '\0';
    return RQL_OK;
}

rql_status rqli_percent_decode(char **out, struct rqli_slice text, const char *part,
                               rql_error *error)
{
    char *next = calloc(1, text.length + 1);

    *out = next;
    return next ? rqli_percent_write(&next, text, part, error) : rqli_fail_nomem(error);
}

rql_status rqli_percent_decode_secret(char **out, struct rqli_slice text, const char *part,
                                      rql_error *error)
{
    char *next = rqli_secret_new(text.length + 1);

    *out = next;
    return next ? rqli_percent_write(&next, text, part, error) : rqli_fail_nomem(error);
}
