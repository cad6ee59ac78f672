#include "wire/push.h"

#include "wire/answer.h"
#include "wire/keys.h"

#include <stdio.h>

#define CHANGES "__redis__:invalidate"

enum { CHANNEL_SIZE = 64 };

static bool is_text(const struct rqli_reply *reply, const char *text)
{
    return reply->type == RQLI_REPLY_TEXT && reply->text.length == strlen(text) &&
           memcmp(reply->text.data, text, reply->text.length) == 0;
}

/* Cuts the first word off; false: there is none. */
static bool next_word(struct rqli_slice *rest, struct rqli_slice *word)
{
    const char *space = memchr(rest->data, ' ', rest->length);

    if (!space) {
        return false;
    }
    *word = (struct rqli_slice){rest->data, (size_t)(space - rest->data)};
    rest->length -= word->length + 1;
    rest->data = space + 1;
    return true;
}

/* Anybody may publish: what serve_queue.lua would not have written must not become a lease. */
static bool is_plausible(const struct rqli_push *push)
{
    return push->token > 0 && push->server_us > 0 && push->server_us <= RQLI_SERVER_US_MAX &&
           push->lease_ms > 0 && push->lease_ms <= RQL_TTL_MAX_MS;
}

static bool is_nonce(struct rqli_slice word)
{
    return word.length == RQLI_HEX_SIZE - 1;
}

/* "<nonce> <token> <server us> <lease ms>", made by serve_queue.lua. */
static void read_grant(struct rqli_pushed *pushed, struct rqli_slice rest)
{
    struct rqli_slice nonce;
    struct rqli_slice token;
    struct rqli_slice server;

    if (next_word(&rest, &nonce) && next_word(&rest, &token) && next_word(&rest, &server) &&
        is_nonce(nonce) && rqli_parse_int(token, &pushed->push.token) &&
        rqli_parse_int(server, &pushed->push.server_us) &&
        rqli_parse_int(rest, &pushed->push.lease_ms) && is_plausible(&pushed->push)) {
        memcpy(pushed->nonce, nonce.data, nonce.length);
        pushed->kind = RQLI_PUSHED_GRANT;
    }
}

/* "<nonce> look", made by serve_queue.lua and sweep_queue.lua. False: it is something else. */
static bool read_nudge(struct rqli_pushed *pushed, struct rqli_slice rest)
{
    static const char look[] = "look";
    struct rqli_slice nonce;

    if (!next_word(&rest, &nonce) || !is_nonce(nonce) || rest.length != sizeof look - 1 ||
        memcmp(rest.data, look, rest.length) != 0) {
        return false;
    }
    memcpy(pushed->nonce, nonce.data, nonce.length);
    pushed->kind = RQLI_PUSHED_HINT;
    return true;
}

static void read_message(struct rqli_pushed *pushed, const struct rqli_reply *channel,
                         const struct rqli_reply *payload)
{
    if (!is_text(channel, CHANGES)) {
        if (payload->type == RQLI_REPLY_TEXT && !read_nudge(pushed, payload->text)) {
            read_grant(pushed, payload->text);
        }
        return;
    }
    pushed->kind = RQLI_PUSHED_CHANGE;
    if (payload->type == RQLI_REPLY_ARRAY && payload->count == 1) {
        pushed->lock_key = payload->items[0].text;
    }
}

struct rqli_pushed rqli_push_read(const struct rqli_reply *reply)
{
    struct rqli_pushed pushed = {.kind = RQLI_PUSHED_NOTHING};

    if (reply->type == RQLI_REPLY_ARRAY && reply->count == 3) {
        if (is_text(&reply->items[0], "message")) {
            read_message(&pushed, &reply->items[1], &reply->items[2]);
        } else if (is_text(&reply->items[0], "subscribe")) {
            pushed.kind = RQLI_PUSHED_CONFIRMATION;
        }
    }
    return pushed;
}

static const char *channel_of(char *out, size_t size, const char *identity)
{
    (void)snprintf(out, size, RQLI_CHANNEL "%s", identity);
    return out;
}

void rqli_push_ping(struct rqli_command *command, const char *identity)
{
    char channel[CHANNEL_SIZE];

    rqli_command_words(command, "PUBLISH", channel_of(channel, sizeof channel, identity), "hello",
                       NULL);
}

void rqli_push_subscribe(struct rqli_command *command, const char *identity)
{
    char channel[CHANNEL_SIZE];

    rqli_command_words(command, "SUBSCRIBE", channel_of(channel, sizeof channel, identity), NULL);
    rqli_command_words(command, "SUBSCRIBE", CHANGES, NULL);
}
