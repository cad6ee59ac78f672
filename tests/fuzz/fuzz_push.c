/* What comes over the subscriber connection. The first byte picks: the payload of a message on the
 * client's channel, or all bytes of the server. */

#include "base/must.h"
#include "net/sock/decode.h"
#include "wire/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GRANT_SIZE = 128 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct rqli_pushed read_payload(const char *payload, size_t length)
{
    const struct rqli_reply items[] = {
        {.type = RQLI_REPLY_TEXT, .text = rqli_slice_of("message")},
        {.type = RQLI_REPLY_TEXT, .text = rqli_slice_of("rql:wake:me")},
        {.type = RQLI_REPLY_TEXT, .text = {payload, length}},
    };
    const struct rqli_reply reply = {.type = RQLI_REPLY_ARRAY, .count = 3, .items = items};

    return rqli_push_read(&reply);
}

/* What was taken as a grant is one again when it is written down. */
static void check_grant(const struct rqli_pushed *pushed)
{
    const struct rqli_push *push = &pushed->push;
    struct rqli_pushed again;
    char text[GRANT_SIZE];
    int length;

    RQLI_MUST(push->token > 0 && push->server_us > 0 && push->server_us <= RQLI_SERVER_US_MAX);
    RQLI_MUST(push->lease_ms > 0 && push->lease_ms <= RQL_TTL_MAX_MS);
    if (strlen(pushed->nonce) < RQLI_HEX_SIZE - 1) {
        return; /* with a NUL inside: nobody waits for it */
    }
    length = snprintf(text, sizeof text, "%s %lld %lld %lld", pushed->nonce, (long long)push->token,
                      (long long)push->server_us, (long long)push->lease_ms);
    again = read_payload(text, (size_t)length);
    RQLI_MUST(again.kind == RQLI_PUSHED_GRANT && strcmp(again.nonce, pushed->nonce) == 0);
    RQLI_MUST(again.push.token == push->token && again.push.server_us == push->server_us);
    RQLI_MUST(again.push.lease_ms == push->lease_ms);
}

/* So is a wake hint. */
static void check_look(const struct rqli_pushed *pushed)
{
    struct rqli_pushed again;
    char text[GRANT_SIZE];
    int length;

    RQLI_MUST(pushed->push.token == 0 && pushed->lock_key.length == 0);
    if (strlen(pushed->nonce) < RQLI_HEX_SIZE - 1) {
        return;
    }
    length = snprintf(text, sizeof text, "%s look", pushed->nonce);
    again = read_payload(text, (size_t)length);
    RQLI_MUST(again.kind == RQLI_PUSHED_HINT && strcmp(again.nonce, pushed->nonce) == 0);
}

static void check(const struct rqli_pushed *pushed)
{
    size_t sum = 0;

    if (pushed->kind == RQLI_PUSHED_GRANT) {
        check_grant(pushed);
        return;
    }
    if (pushed->kind == RQLI_PUSHED_HINT) {
        check_look(pushed);
        return;
    }
    RQLI_MUST(pushed->nonce[0] == '\0');
    RQLI_MUST(pushed->kind != RQLI_PUSHED_END || pushed->set);
    RQLI_MUST(!pushed->set || rqli_key_set_index(pushed->set) < RQLI_PARTITIONS);
    RQLI_MUST(pushed->kind == RQLI_PUSHED_CHANGE || pushed->lock_key.length == 0);
    for (size_t i = 0; i < pushed->lock_key.length; i++) {
        sum += (unsigned char)pushed->lock_key.data[i]; /* must be there */
    }
    RQLI_MUST(sum < SIZE_MAX);
}

static void read_replies(const char *bytes, size_t size)
{
    struct rqli_arena arena = {0};
    struct rqli_decoder decoder;
    struct rqli_reply reply = {0};

    RQLI_MUST(rqli_decoder_init(&decoder));
    RQLI_MUST(rqli_decoder_feed(&decoder, bytes, size));
    while (rqli_decoder_next(&decoder, &arena, &reply) == 1) {
        const struct rqli_pushed pushed = rqli_push_read(&reply);

        check(&pushed);
        rqli_arena_reset(&arena);
        reply = (struct rqli_reply){0};
    }
    rqli_decoder_fini(&decoder);
    rqli_arena_reset(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy;

    if (size == 0) {
        return 0;
    }
    copy = malloc(size); /* its end is where a sanitizer sees it */
    RQLI_MUST(copy != NULL);
    memcpy(copy, data + 1, size - 1);
    if (data[0] % 2 == 0) {
        const struct rqli_pushed pushed = read_payload(copy, size - 1);

        check(&pushed);
    } else {
        read_replies(copy, size - 1);
    }
    free(copy);
    return 0;
}
