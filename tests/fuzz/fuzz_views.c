/* Builds reply trees from bytes and shows them to everything that decodes replies for inspection.
 */

#include "admin/info.h"
#include "base/must.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NODES = 512, MAX_DEPTH = 3, MAX_ITEMS = 40, N_ROOTS = 4 };

struct input {
    const uint8_t *data;
    size_t size;
};

/* Nodes of one tree; texts are allocated one by one so that a sanitizer sees each end. */
struct forest {
    struct rqli_reply nodes[MAX_NODES];
    size_t n_nodes;
    char *texts[MAX_NODES];
    size_t n_texts;
};

static const char *const words[] = {
    "acq_id",
    "hst_id",
    "ts",
    "ini_ttl",
    "spc_cnt",
    "l_spc_ts",
    "spc_ext_ttl",
    "l_spc_ext_ts",
    "l_spc_ext_ini_ttl",
    "rql_token",
    "rql_nonce",
    "lock_key",
    "1795254268.4681001",
    "1.7952542684681e+9",
    "-1e-5",
    "inf",
    "5000",
    "08",
    "99999999999999999999",
    "rql:lock:a",
    "rql:lock:b",
    "0",
    "",
    "rql:hst:1/2/3/4 5000 nonce",
    (RQLI_SHARED_ACQUIRER),
    "rql_h:rql:acq:1",
    "rql_h:rql:acq:2",
    "00112233445566778899aabbccddeeff 2:0,3 8 1 5000 c rql:hst:1/2 \x92\xa1x\xa1y",
    "00112233445566778899aabbccddeeff 1 4096 2 5000 - rql:hst:3/4 \x93\xd9\x09",
    "rql_share",
    "2 8s",
    ("rql:hst:1/2/ 5000 0a 0 h 1 \x92\xa9rql_share\xa4"
     "2 8s"),
};

static const char *const errors[] = {"WRONGTYPE Operation", "NOPERM no", "ERR what", ""};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t next(struct input *input)
{
    uint8_t byte = 0;

    if (input->size > 0) {
        byte = *input->data++;
        input->size--;
    }
    return byte;
}

static struct rqli_slice keep(struct forest *forest, const void *bytes, size_t length)
{
    char *text = calloc(1, length + 1);

    if (!text || forest->n_texts == MAX_NODES) {
        free(text);
        return (struct rqli_slice){"", 0};
    }
    if (length > 0) {
        memcpy(text, bytes, length);
    }
    forest->texts[forest->n_texts++] = text;
    return (struct rqli_slice){text, length};
}

static struct rqli_slice keep_word(struct forest *forest, const char *word)
{
    return keep(forest, word, strlen(word));
}

static struct rqli_slice raw_text(struct input *input, struct forest *forest)
{
    size_t length = next(input);
    struct rqli_slice text;

    length = length < input->size ? length : input->size;
    text = keep(forest, input->data, length);
    input->data += length;
    input->size -= length;
    return text;
}

static void grow(struct input *input, struct forest *forest, struct rqli_reply *node, int depth)
{
    size_t first = forest->n_nodes;
    size_t count;

    *node = (struct rqli_reply){.type = RQLI_REPLY_NIL};
    switch (next(input) % 8) {
    case 0:
        return;
    case 1:
        node->type = RQLI_REPLY_INTEGER;
        node->integer = next(input) - 128;
        return;
    case 2:
        node->type = RQLI_REPLY_TEXT;
        node->text = raw_text(input, forest);
        return;
    case 3:
    case 4:
        node->type = RQLI_REPLY_TEXT;
        node->text = keep_word(forest, words[next(input) % (sizeof words / sizeof words[0])]);
        return;
    case 5:
        node->type = RQLI_REPLY_ERROR;
        node->text = keep_word(forest, errors[next(input) % (sizeof errors / sizeof errors[0])]);
        return;
    default:
        break;
    }
    count = next(input) % MAX_ITEMS;
    if (depth == MAX_DEPTH || count > MAX_NODES - forest->n_nodes) {
        return;
    }
    node->type = RQLI_REPLY_ARRAY;
    node->count = count;
    node->items = &forest->nodes[first];
    forest->n_nodes += count;
    for (size_t i = 0; i < count; i++) {
        grow(input, forest, &forest->nodes[first + i], depth + 1);
    }
}

/* Every text must be there up to its end. */
static size_t read_all(const char *text)
{
    return text ? strlen(text) : 0;
}

static size_t show_lock(const struct rqli_reply *replies)
{
    const struct rqli_slice key = rqli_slice_of("rql:lock:fuzz");
    rql_lock_info *info = NULL;
    size_t length;

    if (rqli_lock_info_read(replies, key, "fuzz", &info, NULL)) {
        RQLI_MUST(!info);
        return 0;
    }
    length = read_all(info->key) + read_all(info->acquirer_id) + read_all(info->host_id);
    RQLI_MUST(strcmp(info->name, "fuzz") == 0);
    for (size_t i = 0; i < info->n_meta; i++) {
        length += strlen(info->meta[i].name) + strlen(info->meta[i].value);
    }
    (void)rql_free(info);
    return length;
}

static size_t show_holders(const struct rqli_reply *replies)
{
    rql_holder_list *list = NULL;
    size_t length = 0;

    if (rqli_holders_read(replies, rqli_slice_of("rql:lock:fuzz"), "fuzz", &list, NULL)) {
        RQLI_MUST(!list);
        return 0;
    }
    for (size_t i = 0; i < list->count; i++) {
        const rql_holder_info *info = list->item[i];

        length += read_all(info->acquirer_id) + read_all(info->host_id);
        for (size_t k = 0; k < info->n_slots; k++) {
            RQLI_MUST(info->slots[k] >= 0 && info->slots[k] < info->share_limit);
        }
        for (size_t k = 0; k < info->n_meta; k++) {
            length += strlen(info->meta[k].name) + strlen(info->meta[k].value);
        }
    }
    (void)rql_free(list);
    return length;
}

static size_t show_queue(const struct rqli_reply *replies)
{
    struct rqli_command command = {0};
    struct rqli_queue_reading reading;
    rql_queue_info *info = NULL;
    size_t length = 0;
    rql_status status = RQL_OK;

    rqli_queue_reading_init(&reading, rqli_slice_of("rql:lock_queue:fuzz"), MAX_ITEMS);
    for (size_t i = 0; !status && i < 2; i++) {
        rqli_queue_reading_ask(&reading, &command);
        status = rqli_queue_reading_take(&reading, &replies[i], "fuzz", NULL);
    }
    if (!status && rqli_queue_reading_ask_hosts(&reading, &command, MAX_ITEMS) > 0) {
        status = rqli_queue_reading_take_hosts(&reading, &replies[2], "fuzz", NULL);
    }
    if (!status && !rqli_queue_reading_finish(&reading, &info, NULL)) {
        for (size_t i = 0; i < info->n_requests; i++) {
            length +=
                read_all(info->requests[i]->acquirer_id) + read_all(info->requests[i]->host_id);
        }
        (void)rql_free(info);
    }
    rqli_command_fini(&command);
    rqli_queue_reading_fini(&reading);
    return length;
}

static void drop_nothing(const struct rqli_batch *batch)
{
    (void)batch;
}

/* Keys, or the fields of a hash. */
static size_t show_walk(const struct rqli_reply *replies, const char *hash)
{
    struct rqli_command command = {0};
    struct rqli_walk walk;
    rql_text_list *list = NULL;
    size_t length = 0;
    rql_status status = RQL_OK;

    rqli_walk_init(&walk, "rql:lock:", hash);
    for (size_t i = 0; !status && i + (hash != NULL) < N_ROOTS; i += hash ? 2 : 1) {
        const struct rqli_batch batch = {.reply = &replies[i], .drop = drop_nothing};

        rqli_walk_ask(&walk, &command, 10);
        status = rqli_walk_take(&walk, &batch, NULL);
    }
    if (!rqli_list_give(&walk.found, &list, NULL)) {
        for (size_t i = 0; i < list->count; i++) {
            length += strlen(list->item[i]);
        }
        (void)rql_free(list);
    }
    rqli_command_fini(&command);
    rqli_walk_fini_p(&walk);
    return length;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = {data, size};
    struct forest forest = {.n_nodes = N_ROOTS};
    uint8_t kind = next(&input);
    size_t shown;

    for (size_t i = 0; i < N_ROOTS; i++) {
        grow(&input, &forest, &forest.nodes[i], 0);
    }
    switch (kind % 4) {
    case 0:
        shown = show_lock(forest.nodes) + show_holders(forest.nodes);
        break;
    case 1:
        shown = show_queue(forest.nodes);
        break;
    case 2:
        shown = show_walk(forest.nodes, NULL);
        break;
    default:
        shown = show_walk(forest.nodes, "rql:swarm:hsts");
        break;
    }
    RQLI_MUST(shown < SIZE_MAX);
    for (size_t i = 0; i < forest.n_texts; i++) {
        free(forest.texts[i]);
    }
    return 0;
}
