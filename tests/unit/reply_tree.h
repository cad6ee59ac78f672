#ifndef REPLY_TREE_H
#define REPLY_TREE_H

/* Replies written down as values, and commands read as text. */

#include "wire/command.h"
#include "wire/reply.h"

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

static inline struct rqli_reply tree_status(const char *text)
{
    return (struct rqli_reply){.type = RQLI_REPLY_STATUS, .text = rqli_slice_of(text)};
}

/* A list of these; they live as long as the block. */
#define TREE(...)                                                                                  \
    tree_array((const struct rqli_reply[]){__VA_ARGS__},                                           \
               sizeof((const struct rqli_reply[]){__VA_ARGS__}) / sizeof(struct rqli_reply))

/* What a command says so far, as a text. */
static inline const char *text_of(struct rqli_command *command)
{
    size_t length = command->length;

    rqli_command_slice(command, (struct rqli_slice){"", 1});
    assert_false(command->failed);
    memset(command->data + length, 0, command->length - length);
    command->length = length;
    return command->data;
}

#endif
