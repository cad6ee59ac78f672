#ifndef RQLI_COMMAND_H
#define RQLI_COMMAND_H

/* Writes Redis commands into one buffer. Appending never fails half-way: when memory runs out the
 * buffer says so once, at the end. Our own formatter, because hiredis' allocates for each call. */

#include "base/text.h"

#include <stdarg.h>

struct rqli_command {
    char *data;
    size_t length;
    size_t capacity;
    int n_commands; /* replies to expect; of the commands begun here */
    bool failed;    /* out of memory; length is meaningless */
};

void rqli_command_reset(struct rqli_command *self); /* keeps the memory */

/* Room for so many bytes in all. False: no memory. */
bool rqli_command_reserve(struct rqli_command *self, size_t bytes);
void rqli_command_fini(struct rqli_command *self);

/* Opens a command of argc words; then exactly argc of the three below. */
void rqli_command_begin(struct rqli_command *self, size_t argc);
void rqli_command_slice(struct rqli_command *self, struct rqli_slice word);
void rqli_command_text(struct rqli_command *self, const char *word);
void rqli_command_int(struct rqli_command *self, int64_t word);

/* A whole command of texts, NULL behind the last one. */
__attribute__((sentinel)) void rqli_command_words(struct rqli_command *self, ...);
void rqli_command_list(struct rqli_command *self, va_list words);

/* Copies the bytes of another buffer behind the own, and nothing but the bytes: n_commands stays.
 * False: out of memory, nothing was copied. */
bool rqli_command_append(struct rqli_command *self, const struct rqli_command *other);

#endif
