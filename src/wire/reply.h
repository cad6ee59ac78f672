#ifndef RQLI_REPLY_H
#define RQLI_REPLY_H

/* A reply of the server as a tree, whose size net/decode limits when it builds it. Lives as long as
 * its batch. */

#include "base/text.h"

#include <rql/status.h>

enum rqli_reply_type {
    RQLI_REPLY_NIL,
    RQLI_REPLY_INTEGER,
    RQLI_REPLY_TEXT, /* a bulk string */
    RQLI_REPLY_STATUS,
    RQLI_REPLY_ERROR,
    RQLI_REPLY_ARRAY,
};

struct rqli_reply {
    enum rqli_reply_type type;
    int64_t integer;
    struct rqli_slice text; /* also terminated, for messages */
    size_t count;
    const struct rqli_reply *items;
};

/* Returns the status that an error reply stands for. */
rql_status rqli_reply_class(const struct rqli_reply *error_reply);

/* Raises the fault of an error reply, or of a reply of an unexpected shape. `what` is the script or
 * command, `where` the key. */
rql_status rqli_reply_fault(const struct rqli_reply *reply, const char *what, const char *where,
                            rql_error *error);

/* Returns whether the reply begins with this word: rqli_reply_says(reply, "LOADING"). Accepts any
 * text, so check the type as well. */
bool rqli_reply_says(const struct rqli_reply *reply, const char *word);

/* Returns whether the server does not know the script: nothing was done, and the call must be
 * repeated with its text. */
bool rqli_reply_wants_text(const struct rqli_reply *reply);

/* Returns whether the reply is an error that says that nothing was done. */
bool rqli_reply_did_nothing(const struct rqli_reply *reply);

bool rqli_reply_is(const struct rqli_reply *reply, const char *text);

/* Returns whether a server may have counted so many, and whether the reply is such a number. Sums
 * and products of what a server says could overflow otherwise. */
bool rqli_is_count(int64_t number);
bool rqli_reply_is_count(const struct rqli_reply *reply);

/* Returns whether the user has no right to the command, or there is no such command: it was
 * renamed, or is of a later server. */
bool rqli_reply_is_refused(const struct rqli_reply *reply);

/* Returns the value of a field in an answer that is a list of names and values; or NULL. */
const struct rqli_reply *rqli_reply_field(const struct rqli_reply *reply, const char *name,
                                          enum rqli_reply_type type);

/* Copies the text between two marks, if both are there and it fits; otherwise *out stays as it
 * is. */
void rqli_reply_copy_between(char *out, size_t size, const struct rqli_reply *reply,
                             const char *begin, const char *end);

/* Returns a number of INFO, whose lines are "name:value\r\n". The mark is "\nname:", because the
 * first line is a heading. -1: there is no such number. */
int64_t rqli_info_number(const struct rqli_reply *info, const char *mark);

#endif
