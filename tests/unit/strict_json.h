#ifndef STRICT_JSON_H
#define STRICT_JSON_H

/* Is a text one JSON value (RFC 8259) in valid UTF-8, and nothing else? */

#include <stdbool.h>
#include <string.h>

static inline const char *json_value(const char *at);

/* Past a string, or NULL. */
static inline const char *json_string(const char *at)
{
    if (*at++ != '"') {
        return NULL;
    }
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < 0x20) {
            return NULL;
        }
        if (*at == '\\') {
            at++;
            if (*at == 'u') {
                if (strspn(at + 1, "0123456789abcdefABCDEF") < 4) {
                    return NULL;
                }
                at += 4;
            } else if (*at == '\0' || !strchr("\"\\/bfnrt", *at)) {
                return NULL;
            }
        }
    }
    return at + 1;
}

static inline const char *json_number(const char *at)
{
    size_t length;

    at += *at == '-';
    length = strspn(at, "0123456789");
    if (length == 0 || (at[0] == '0' && length > 1)) {
        return NULL;
    }
    at += length;
    if (*at == '.') {
        length = strspn(at + 1, "0123456789");
        at = length > 0 ? at + 1 + length : NULL;
    }
    return at;
}

/* Members of an object or items of an array. */
static inline const char *json_members(const char *at, char closing)
{
    if (*++at == closing) {
        return at + 1;
    }
    for (;; at++) {
        if (closing == '}') {
            at = json_string(at);
            if (!at || *at++ != ':') {
                return NULL;
            }
        }
        at = json_value(at);
        if (!at || *at != ',') {
            return at && *at == closing ? at + 1 : NULL;
        }
    }
}

static inline const char *json_value(const char *at)
{
    switch (*at) {
    case '{':
        return json_members(at, '}');
    case '[':
        return json_members(at, ']');
    case '"':
        return json_string(at);
    case 'n':
        return strncmp(at, "null", 4) == 0 ? at + 4 : NULL;
    default:
        return json_number(at);
    }
}

/* By the table of RFC 3629, written the other way round than in the library: decode, then look. */
static inline bool is_utf8(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;

    while (*at) {
        size_t more = *at < 0x80 ? 0 : *at < 0xE0 ? 1 : *at < 0xF0 ? 2 : 3;
        unsigned code = more == 0 ? *at : *at & (0x3FU >> more);
        static const unsigned least[] = {0, 0x80, 0x800, 0x10000};

        if ((*at >= 0x80 && *at < 0xC0) || *at >= 0xF8) {
            return false;
        }
        for (size_t i = 1; i <= more; i++) {
            if ((at[i] & 0xC0) != 0x80) {
                return false;
            }
            code = code << 6 | (at[i] & 0x3FU);
        }
        if (code < least[more] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
            return false;
        }
        at += more + 1;
    }
    return true;
}

static inline bool is_json(const char *text)
{
    const char *end = json_value(text);

    return end && *end == '\0' && is_utf8(text);
}

#endif
