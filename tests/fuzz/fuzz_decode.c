/* Bytes of a server, once in one piece and once in pieces: the same replies, within the caps. The
 * first byte says how the pieces are cut. */

#include "base/must.h"
#include "net/sock/decode.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 7, ELEMENTS_MAX = 262144, REPLIES_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct side {
    struct rqli_decoder decoder;
    struct rqli_arena arena;
    struct rqli_reply replies[REPLIES_MAX];
    size_t n_replies;
    bool is_broken;
};

/* Takes all replies that are whole. */
static void take(struct side *side)
{
    int result = 1;

    while (result == 1 && side->n_replies < REPLIES_MAX) {
        result = rqli_decoder_next(&side->decoder, &side->arena, &side->replies[side->n_replies]);
        side->n_replies += result == 1;
    }
    side->is_broken = result < 0;
}

static void feed(struct side *side, const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1); /* its end is where a sanitizer sees it */

    RQLI_MUST(copy != NULL);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    RQLI_MUST(rqli_decoder_feed(&side->decoder, copy, size));
    free(copy);
    take(side);
}

static void feed_in_pieces(struct side *side, const uint8_t *data, size_t size, uint8_t cut)
{
    while (size > 0 && !side->is_broken) {
        size_t piece = 1 + cut % 7;

        piece = piece < size ? piece : size;
        feed(side, data, piece);
        data += piece;
        size -= piece;
        cut = (uint8_t)(cut * 5 + 3);
    }
}

static void check_same(const struct rqli_reply *a, const struct rqli_reply *b, int depth)
{
    RQLI_MUST(a->type == b->type && depth <= DEPTH_MAX);
    switch (a->type) {
    case RQLI_REPLY_NIL:
        return;
    case RQLI_REPLY_INTEGER:
        RQLI_MUST(a->integer == b->integer);
        return;
    case RQLI_REPLY_TEXT:
    case RQLI_REPLY_STATUS:
    case RQLI_REPLY_ERROR:
        RQLI_MUST(a->text.length == b->text.length && a->text.data[a->text.length] == '\0');
        RQLI_MUST(memcmp(a->text.data, b->text.data, a->text.length) == 0);
        return;
    case RQLI_REPLY_ARRAY:
        break;
    }
    RQLI_MUST(a->count == b->count && a->count <= ELEMENTS_MAX && depth < DEPTH_MAX);
    for (size_t i = 0; i < a->count; i++) {
        check_same(&a->items[i], &b->items[i], depth + 1);
    }
}

static void end(struct side *side)
{
    rqli_decoder_fini(&side->decoder);
    rqli_arena_reset(&side->arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct side fresh;
    static struct side whole;
    static struct side pieces;

    if (size == 0) {
        return 0;
    }
    whole = fresh;
    pieces = fresh;
    RQLI_MUST(rqli_decoder_init(&whole.decoder) && rqli_decoder_init(&pieces.decoder));
    feed(&whole, data + 1, size - 1);
    feed_in_pieces(&pieces, data + 1, size - 1, data[0]);
    RQLI_MUST(whole.n_replies == pieces.n_replies && whole.is_broken == pieces.is_broken);
    for (size_t i = 0; i < whole.n_replies; i++) {
        check_same(&whole.replies[i], &pieces.replies[i], 0);
    }
    end(&whole);
    end(&pieces);
    return 0;
}
