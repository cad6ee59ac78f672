#ifndef RQLI_LINE_H
#define RQLI_LINE_H

/* What a script answers: whole numbers and at the end perhaps a word; as a list, or as one line of
 * text with blanks between, which costs the server a good deal less. */

#include "wire/reply.h"

enum { RQLI_LINE_NUMBERS = 8 };

struct rqli_line {
    int64_t numbers[RQLI_LINE_NUMBERS];
    size_t count;           /* of those */
    struct rqli_slice word; /* what follows them, empty if they are all; of a list: if it is text */
};

/* The numbers that it begins with, so many as fit. A reply of another shape has none. */
struct rqli_line rqli_line_read(const struct rqli_reply *reply);

#endif
