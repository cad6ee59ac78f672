#ifndef RQLI_DECODE_H
#define RQLI_DECODE_H

/*
 * Bytes in, replies out: hiredis' reader with our own object functions, which put every reply into
 * an arena and enforce the caps: 16 MiB, 262144 elements, four levels an arena, 64 KiB a line.
 */

#include "wire/reply.h"

struct redisReader;

enum { RQLI_ARENA_FIRST_BYTES = 2048 };

/* Memory of the replies of one batch. Warm, it allocates nothing for small replies. */
struct rqli_arena {
    struct rqli_arena_block *blocks;
    size_t used; /* of the newest block, or of `first` */
    size_t bytes;
    size_t elements;
    _Alignas(16) char first[RQLI_ARENA_FIRST_BYTES];
};

void rqli_arena_reset(struct rqli_arena *self);
void *rqli_arena_take(struct rqli_arena *self, size_t size); /* NULL: over the cap or no memory */
/* Copies the text, with a 0 after it. NULL: as above. */
char *rqli_arena_copy(struct rqli_arena *self, struct rqli_slice text);

struct rqli_decoder {
    struct redisReader *reader;
    struct rqli_arena *arena; /* of the reply being read */
    struct rqli_reply *root;  /* where the reply goes */
    bool has_refused;         /* a reply was not the protocol, or over a cap */
};

bool rqli_decoder_init(struct rqli_decoder *self);
void rqli_decoder_fini(struct rqli_decoder *self);

/* Takes more bytes. False: the buffer would grow over its cap, or there is no memory. */
bool rqli_decoder_feed(struct rqli_decoder *self, const char *bytes, size_t length);

/* Puts the next reply into *root and arena, which stay the same until it is complete. 1: complete,
 * 0: needs more bytes, -1: not the protocol, over a cap, or no memory. */
int rqli_decoder_next(struct rqli_decoder *self, struct rqli_arena *arena, struct rqli_reply *root);

/* Returns true if the bytes were not the protocol, or over a cap, or there was no memory. It stays
 * so. */
bool rqli_decoder_has_failed(const struct rqli_decoder *self);

/* After a failure of rqli_decoder_feed() or rqli_decoder_next(): returns true if there was no
 * memory, false if the server is to blame. */
bool rqli_decoder_lacks_memory(const struct rqli_decoder *self);

/* Returns true if every byte was taken by a reply. */
bool rqli_decoder_is_empty(const struct rqli_decoder *self);

#endif
