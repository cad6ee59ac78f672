#include "wire/line.h"

/* The words are in the reply. Nothing is left behind the last one. */
static struct rqli_slice next_word(struct rqli_slice *rest)
{
    const char *blank = memchr(rest->data, ' ', rest->length);
    size_t length = blank ? (size_t)(blank - rest->data) : rest->length;
    struct rqli_slice word = {rest->data, length};

    rest->data += length;
    rest->length -= length;
    if (blank) {
        rest->data++;
        rest->length--;
    }
    return word;
}

static void read_text(struct rqli_line *self, struct rqli_slice text)
{
    while (text.length > 0 && self->count < RQLI_LINE_NUMBERS) {
        struct rqli_slice rest = text;

        if (!rqli_parse_int(next_word(&rest), &self->numbers[self->count])) {
            break;
        }
        self->count++;
        text = rest;
    }
    self->word = text;
}

static void read_list(struct rqli_line *self, const struct rqli_reply *list)
{
    size_t i = 0;

    while (i < list->count && i < RQLI_LINE_NUMBERS && list->items[i].type == RQLI_REPLY_INTEGER) {
        self->numbers[i] = list->items[i].integer;
        i++;
    }
    self->count = i;
    if (i < list->count && list->items[i].type == RQLI_REPLY_TEXT) {
        self->word = list->items[i].text;
    }
}

struct rqli_line rqli_line_read(const struct rqli_reply *reply)
{
    struct rqli_line self = {.count = 0};

    if (reply->type == RQLI_REPLY_TEXT) {
        read_text(&self, reply->text);
    } else if (reply->type == RQLI_REPLY_ARRAY) {
        read_list(&self, reply);
    }
    return self;
}
