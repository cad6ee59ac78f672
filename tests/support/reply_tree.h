#ifndef REPLY_TREE_H
#define REPLY_TREE_H

/* Reply trees for tests, written down as values. */

#include "wire/reply.h"

#define TREE_COUNT(items) (sizeof(items) / sizeof(items)[0])

static inline struct rqli_reply tree_text(const char *text)
{
    return (struct rqli_reply){.type = RQLI_REPLY_TEXT, .text = rqli_slice_of(text)};
}

static inline struct rqli_reply tree_bytes(const char *data, size_t length)
{
    return (struct rqli_reply){.type = RQLI_REPLY_TEXT, .text = {data, length}};
}

static inline struct rqli_reply tree_error(const char *text)
{
    return (struct rqli_reply){.type = RQLI_REPLY_ERROR, .text = rqli_slice_of(text)};
}

static inline struct rqli_reply tree_int(int64_t value)
{
    return (struct rqli_reply){.type = RQLI_REPLY_INTEGER, .integer = value};
}

static inline struct rqli_reply tree_nil(void)
{
    return (struct rqli_reply){.type = RQLI_REPLY_NIL};
}

static inline struct rqli_reply tree_array(const struct rqli_reply *items, size_t count)
{
    return (struct rqli_reply){.type = RQLI_REPLY_ARRAY, .count = count, .items = items};
}

#endif
