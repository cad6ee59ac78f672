#include "options/text_forms.h"

#include <string.h>

/* The form of a traceparent of version 00: 'x' stands for a digit in base 16. */
static const char form[] = "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";

enum { TRACE_AT = 3, PARENT_AT = 36, FLAGS_AT = 53 };

enum { SERVER_NAME_MAX = 255 /* RFC 6066: a host name of DNS */ };

static bool is_digit(char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
}

/* Returns whether an id is more than zeros, which stand for no id. */
static bool is_id(const char *text, size_t length)
{
    return strspn(text, "0") < length;
}

bool rqli_is_traceparent(const char *text)
{
    size_t i = 0;

    while (form[i] != '\0' && (form[i] == 'x' ? is_digit(text[i]) : text[i] == form[i])) {
        i++;
    }
    return form[i] == '\0' && text[i] == '\0' && is_id(text + TRACE_AT, PARENT_AT - 1 - TRACE_AT) &&
           is_id(text + PARENT_AT, FLAGS_AT - 1 - PARENT_AT);
}

bool rqli_is_server_name(const char *text)
{
    return strlen(text) <= SERVER_NAME_MAX;
}
