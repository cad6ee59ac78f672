#ifndef RQLI_PACK_H
#define RQLI_PACK_H

/* Lays texts out one after the other in memory that was measured before. */

#include "base/text.h"

/* Copies text to *cursor, terminates it and moves the cursor behind it. */
static inline const char *rqli_pack(char **cursor, struct rqli_slice text)
{
    char *start = *cursor;

    if (text.length > 0) {
        memcpy(start, text.data, text.length);
    }
    start[text.length] = '\0';
    *cursor = start + text.length + 1;
    return start;
}

/* A C program sees it whole: no NUL inside. */
static inline bool rqli_is_plain(struct rqli_slice text)
{
    return text.length == 0 || !memchr(text.data, '\0', text.length);
}

static inline bool rqli_has_prefix(struct rqli_slice text, struct rqli_slice prefix)
{
    return text.length >= prefix.length && memcmp(text.data, prefix.data, prefix.length) == 0;
}

/* What follows the prefix of a key, "" if it has another one. */
static inline struct rqli_slice rqli_name_in(struct rqli_slice key, const char *prefix)
{
    size_t length = strlen(prefix);

    if (!rqli_has_prefix(key, (struct rqli_slice){prefix, length})) {
        length = key.length;
    }
    return (struct rqli_slice){key.data + length, key.length - length};
}

#endif
