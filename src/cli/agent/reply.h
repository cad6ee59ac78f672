#ifndef AGENT_REPLY_H
#define AGENT_REPLY_H

/* Writes replies of the Redis protocol into a buffer, which grows. */

#include <rql/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A zeroed reply is empty. */
struct agent_reply {
    char *data;
    size_t size;     /* bytes that are not sent yet */
    size_t capacity; /* of data */
};

void agent_reply_fini(struct agent_reply *self);

/* Removes bytes that were sent from the front. An empty reply keeps no memory. */
void agent_reply_sent(struct agent_reply *self, size_t size);

void agent_reply_status(struct agent_reply *self, const char *text); /* "+OK" */
void agent_reply_number(struct agent_reply *self, int64_t number);
void agent_reply_text(struct agent_reply *self, const char *text);
/* type: '*' array, '%' map of so many pairs, '>' push. */
void agent_reply_begin(struct agent_reply *self, char type, size_t count);
/* A null of RESP3; or of RESP2: the null array that BLPOP answers, or a null text. */
void agent_reply_null(struct agent_reply *self, bool is_resp3);
void agent_reply_null_text(struct agent_reply *self, bool is_resp3);

/* code: a word in capitals. Line ends in the message become blanks. */
void agent_reply_error(struct agent_reply *self, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes an error for a status of the library. message: NULL: what the status says. */
void agent_reply_fault(struct agent_reply *self, rql_status status, const char *message);
/* why: NULL: it was lost. */
void agent_reply_not_held(struct agent_reply *self, const char *why);
/* No request is taken any more. */
void agent_reply_ending(struct agent_reply *self);

#endif
