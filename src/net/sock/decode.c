/*
 * hiredis calls the functions below for each value that it reads. Replies are trees in the arena of
 * their batch, so that a small one costs no malloc() and all of it is freed at once. A reply
 * that is too large or too deep for us ends the connection, because no later byte could be known to
 * begin the next reply.
 */

#include "net/sock/decode.h"

#include <hiredis/hiredis.h>
#include <hiredis/read.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS_MAX = 262144, DEPTH_MAX = 7, BLOCK_BYTES = 65536, LINE_MAX = 65536 };

static const size_t bytes_max = 16U << 20;

struct rqli_arena_block {
    struct rqli_arena_block *older;
    size_t size;
    _Alignas(16) char memory[];
};

/* Frees everything that was taken: the bytes of `first` are used again, the blocks are freed. */
void rqli_arena_reset(struct rqli_arena *self)
{
    struct rqli_arena_block *block = self->blocks;

    while (block) {
        struct rqli_arena_block *older = block->older;

        free(block);
        block = older;
    }
    self->blocks = NULL;
    self->used = 0;
    self->bytes = 0;
    self->elements = 0;
}

/* Adds a block; `first` is part of the arena. Large replies get blocks of 64 KiB, or one of their
 * size. */
static bool add_block(struct rqli_arena *self, size_t size)
{
    size_t bytes = size > BLOCK_BYTES ? size : BLOCK_BYTES;
    struct rqli_arena_block *block = malloc(sizeof *block + bytes);

    if (!block) {
        return false;
    }
    block->older = self->blocks;
    block->size = bytes;
    self->blocks = block;
    self->used = 0;
    return true;
}

/* Rounds up to a multiple of 16, so that each piece is aligned for any type. */
static size_t round_up(size_t size)
{
    return (size + 15) & ~(size_t)15;
}

static bool is_below_cap(const struct rqli_arena *self, size_t size)
{
    return size <= bytes_max && self->bytes + round_up(size) <= bytes_max;
}

/* The rest of a block that is too small for the next piece stays unused when a new block begins. */
void *rqli_arena_take(struct rqli_arena *self, size_t size)
{
    size_t rounded = round_up(size);
    size_t room = self->blocks ? self->blocks->size : sizeof self->first;
    char *memory;

    if (!is_below_cap(self, size)) {
        return NULL;
    }
    if (rounded > room - self->used && !add_block(self, rounded)) {
        return NULL;
    }
    memory = self->blocks ? self->blocks->memory : self->first;
    memory += self->used;
    self->used += rounded;
    self->bytes += rounded;
    return memory;
}

char *rqli_arena_copy(struct rqli_arena *self, struct rqli_slice text)
{
    char *copy = rqli_arena_take(self, text.length + 1);

    if (!copy) {
        return NULL;
    }
    if (text.length > 0) { /* else its data may be NULL */
        memcpy(copy, text.data, text.length);
    }
    copy[text.length] = '\0';
    return copy;
}

/* Returns the node of the value that hiredis is about to make: the root, or an item of its parent,
 * which hiredis knows by its items. */
static struct rqli_reply *node_of(const redisReadTask *task)
{
    struct rqli_decoder *decoder = task->privdata;
    struct rqli_reply *items;

    if (!task->parent) {
        return decoder->root;
    }
    items = task->parent->obj;
    return &items[task->idx];
}

/* We speak only RESP2, but hiredis from 1.0 on reads RESP3 as well and makes its types by the same
 * functions; only the task's type differs. A function that returns NULL ends the connection. */
static bool is_text(int type)
{
    return type == REDIS_REPLY_STRING || type == REDIS_REPLY_STATUS || type == REDIS_REPLY_ERROR;
}

/* Refuses a value. hiredis takes the NULL for a lack of memory, so the decoder notes the
 * difference. */
static void *refuse(const redisReadTask *task)
{
    struct rqli_decoder *decoder = task->privdata;

    decoder->has_refused = true;
    return NULL;
}

/* Copies the bytes, because hiredis' buffer moves when more bytes come. */
/* As hiredis calls it. NOLINTNEXTLINE(readability-non-const-parameter) */
static void *make_string(const redisReadTask *task, char *bytes, size_t length)
{
    struct rqli_decoder *decoder = task->privdata;
    struct rqli_reply *node = node_of(task);
    const struct rqli_slice text = {bytes, length};
    char *copy;

    /* A length of SIZE_MAX would be one of 0 with its terminator. */
    if (!is_text(task->type) || length >= bytes_max || !is_below_cap(decoder->arena, length + 1)) {
        return refuse(task);
    }
    copy = rqli_arena_copy(decoder->arena, text);
    if (!copy) {
        return NULL;
    }
    node->type = task->type == REDIS_REPLY_ERROR    ? RQLI_REPLY_ERROR
                 : task->type == REDIS_REPLY_STATUS ? RQLI_REPLY_STATUS
                                                    : RQLI_REPLY_TEXT;
    node->text = (struct rqli_slice){copy, length};
    return node;
}

/* Makes the items, empty; hiredis fills them in one by one. It gets the items and not the node, for
 * the use of node_of(). With no items the pointer is still not NULL, which would be a failure. All
 * items of an arena are counted together: many small lists are as costly as a large one. */
static void *make_items(const redisReadTask *task, size_t count)
{
    struct rqli_decoder *decoder = task->privdata;
    struct rqli_reply *node = node_of(task);
    struct rqli_reply *items = NULL;
    const redisReadTask *up = task;
    int depth = 0;

    while (up) {
        depth++;
        up = up->parent;
    }
    decoder->arena->elements += count;
    if (task->type != REDIS_REPLY_ARRAY || depth > DEPTH_MAX || count > ELEMENTS_MAX ||
        decoder->arena->elements > ELEMENTS_MAX ||
        !is_below_cap(decoder->arena, count * sizeof *items)) {
        return refuse(task);
    }
    items = rqli_arena_take(decoder->arena, count * sizeof *items);
    if (!items) {
        return NULL;
    }
    memset(items, 0, count * sizeof *items);
    node->type = RQLI_REPLY_ARRAY;
    node->count = count;
    node->items = items;
    return items;
}

/* hiredis before 1.0 counts items as an int, and does not read RESP3. */
#if defined(HIREDIS_MAJOR) && HIREDIS_MAJOR >= 1
static void *make_array(const redisReadTask *task, size_t count)
{
    return make_items(task, count);
}

static void *refuse_double(const redisReadTask *task, double value, char *text, size_t length)
{
    (void)value;
    (void)text;
    (void)length;
    return refuse(task);
}

static void *refuse_bool(const redisReadTask *task, int value)
{
    (void)value;
    return refuse(task);
}
#else
static void *make_array(const redisReadTask *task, int count)
{
    return count < 0 ? refuse(task) : make_items(task, (size_t)count);
}
#endif

static void *make_integer(const redisReadTask *task, long long value)
{
    struct rqli_reply *node = node_of(task);

    node->type = RQLI_REPLY_INTEGER;
    node->integer = value;
    return node;
}

/* Makes RESP2's nil, a text or an array without a length; a nil with a type of its own is
 * RESP3's. */
static void *make_nil(const redisReadTask *task)
{
    struct rqli_reply *node = node_of(task);

    if (task->type == REDIS_REPLY_NIL) {
        return refuse(task);
    }
    node->type = RQLI_REPLY_NIL;
    return node;
}

/* Frees nothing, because replies belong to their arena. */
static void keep(void *object)
{
    (void)object;
}

/* hiredis would read over a type without a function as if it had been made. */
static redisReplyObjectFunctions makers = {
    .createString = make_string,
    .createArray = make_array,
    .createInteger = make_integer,
    .createNil = make_nil,
#if defined(HIREDIS_MAJOR) && HIREDIS_MAJOR >= 1
    .createDouble = refuse_double,
    .createBool = refuse_bool,
#endif
    .freeObject = keep,
};

/* The reader keeps the address of `self`, which must not move until rqli_decoder_fini(). */
bool rqli_decoder_init(struct rqli_decoder *self)
{
    *self = (struct rqli_decoder){.reader = redisReaderCreateWithFunctions(&makers)};
    if (self->reader) {
        self->reader->privdata = self;
    }
    return self->reader != NULL;
}

void rqli_decoder_fini(struct rqli_decoder *self)
{
    if (self->reader) {
        redisReaderFree(self->reader);
        self->reader = NULL;
    }
}

bool rqli_decoder_feed(struct rqli_decoder *self, const char *bytes, size_t length)
{
    /* A reply that never ends would grow the buffer until memory runs out. */
    if (self->reader->len - self->reader->pos + length > bytes_max) {
        self->has_refused = true;
        return false;
    }
    return redisReaderFeed(self->reader, bytes, length) == REDIS_OK;
}

/* hiredis looks for the end of a line from its beginning each time that more bytes come, so a line
 * without an end would cost time that grows with the square of its length. While it waits for the
 * bytes of a text, its position is before the line with the length. */
static bool has_long_line(const struct redisReader *reader)
{
    return reader->len - reader->pos > LINE_MAX &&
           !memchr(reader->buf + reader->pos, '\n', LINE_MAX);
}

/* A function above has returned `done` for the root; it only counts whether it is NULL. -1 is
 * permanent, because hiredis stays in its error. */
int rqli_decoder_next(struct rqli_decoder *self, struct rqli_arena *arena, struct rqli_reply *root)
{
    void *done = NULL;

    self->arena = arena;
    self->root = root;
    if (redisReaderGetReply(self->reader, &done) != REDIS_OK) {
        return -1;
    }
    if (!done && has_long_line(self->reader)) {
        self->has_refused = true;
        return -1;
    }
    return done ? 1 : 0;
}

bool rqli_decoder_has_failed(const struct rqli_decoder *self)
{
    return self->reader->err != 0 || self->has_refused;
}

bool rqli_decoder_lacks_memory(const struct rqli_decoder *self)
{
    return self->reader->err == REDIS_ERR_OOM && !self->has_refused;
}

bool rqli_decoder_is_empty(const struct rqli_decoder *self)
{
    return self->reader->pos == self->reader->len;
}
