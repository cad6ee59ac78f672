#ifndef RQLI_WRITER_H
#define RQLI_WRITER_H

/* Text into a buffer of fixed size, counting what it would have taken: as snprintf() does, but in
 * steps. What does not fit is cut. */

#include <stddef.h>
#include <stdint.h>

struct rqli_writer {
    char *buffer; /* NULL is fine if size is 0 */
    size_t size;
    size_t length; /* of the whole text, written or not */
};

void rqli_writer_init(struct rqli_writer *self, char *buffer, size_t size);
void rqli_write_bytes(struct rqli_writer *self, const char *bytes, size_t length);
void rqli_write_text(struct rqli_writer *self, const char *text);
void rqli_write_int(struct rqli_writer *self, int64_t value);
void rqli_write_uint(struct rqli_writer *self, uint64_t value);

/* value / 10^digits (at most 6), at least one digit behind the point and no zeros at its end: as
 * Ruby prints a Float. */
void rqli_write_decimal(struct rqli_writer *self, int64_t value, unsigned digits);
/* As the gem prints a duration: whole seconds without a point; `forever` for RQL_FOREVER. */
void rqli_write_seconds(struct rqli_writer *self, int64_t ms, const char *forever);

/* A JSON string with its quotes. Control bytes are escaped; what is no UTF-8 becomes U+FFFD, byte
 * by byte. NULL: null. */
void rqli_write_json(struct rqli_writer *self, const char *text);

/* Terminates the text; returns its length without the terminator. */
size_t rqli_writer_end(struct rqli_writer *self);

#endif
