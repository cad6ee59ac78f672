/* The first byte picks what reads the rest: a client's struct, a call's struct, or set by name. */

#include "base/must.h"
#include "options/options.h"

#include <rql/lock.h>
#include <string.h>

enum { TAIL_SIZE = 64, TEXT_SIZE = 256, N_PAIRS = RQL_META_MAX_PAIRS + 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was accepted must be accepted again. */
static void check_read(const rql_options *given)
{
    rql_options read;
    rql_options again;

    if (rqli_options_read(RQLI_OF_CLIENT, &read, NULL, given, NULL) == RQL_OK) {
        RQLI_MUST(read.size == sizeof read);
        RQLI_MUST(rqli_options_read(RQLI_OF_CLIENT, &again, NULL, &read, NULL) == RQL_OK);
        RQLI_MUST(memcmp(&again, &read, sizeof read) == 0);
    }
}

static void read_options(const uint8_t *data, size_t size)
{
    struct {
        rql_options options;
        unsigned char tail[TAIL_SIZE];
    } given = {0};

    size = size < sizeof given ? size : sizeof given;
    memcpy(&given, data, size);
    given.options.size = size;
    given.options.url = size % 3 ? "local:" : NULL;
    check_read(&given.options);
}

/* Names and values are the texts of the input, each up to its NUL. */
static size_t read_pairs(rql_meta *pairs, const char *text, const char *end)
{
    size_t n_texts = 0;

    for (; text < end && n_texts < 2 * N_PAIRS; text += strlen(text) + 1, n_texts++) {
        const char **place = n_texts % 2 ? &pairs[n_texts / 2].value : &pairs[n_texts / 2].name;

        *place = text;
    }
    return (n_texts + 1) / 2;
}

static void read_call(const uint8_t *data, size_t size)
{
    struct {
        rql_lock_options options;
        unsigned char tail[TAIL_SIZE];
    } given = {0};

    rql_lock_options read;
    rql_meta pairs[N_PAIRS] = {0};
    char text[TEXT_SIZE + 1] = {0};
    size_t text_size = size < TEXT_SIZE ? size : TEXT_SIZE;
    rql_lock_options defaults;

    memcpy(text, data, text_size);
    rqli_options_fill(RQLI_OF_LOCK, &defaults, NULL);
    size = size < sizeof given ? size : sizeof given;
    memcpy(&given, data, size);
    given.options.size = size;
    given.options.meta = pairs;
    given.options.n_meta = read_pairs(pairs, text, text + text_size);
    (void)rqli_lock_options_read(&read, &defaults, &given.options, NULL);

    /* And once more with nothing but the pairs to complain about. */
    given.options = defaults;
    given.options.meta = pairs;
    given.options.n_meta = read_pairs(pairs, text, text + text_size);
    if (rqli_lock_options_read(&read, &defaults, &given.options, NULL) == RQL_OK) {
        RQLI_MUST(read.n_meta <= RQL_META_MAX_PAIRS);
    }
}

static void set_of_client(const char *name, const char *value)
{
    rql_options options;
    rql_options before;

    rql_options_init(&options);
    before = options;
    if (rql_options_set(&options, name, value, NULL) != RQL_OK) {
        RQLI_MUST(memcmp(&options, &before, sizeof options) == 0);
        return;
    }
    RQLI_MUST(rqli_options_read(RQLI_OF_CLIENT, &before, NULL, &options, NULL) == RQL_OK);
}

static void set_of_lock(const char *name, const char *value)
{
    rql_lock_options options;
    rql_lock_options before;

    rql_lock_options_init(NULL, &options);
    before = options;
    if (rql_lock_options_set(&options, name, value, NULL) != RQL_OK) {
        RQLI_MUST(memcmp(&options, &before, sizeof options) == 0);
        return;
    }
    RQLI_MUST(rqli_options_read(RQLI_OF_LOCK, &before, NULL, &options, NULL) == RQL_OK);
}

static void set_by_name(const uint8_t *data, size_t size)
{
    char text[TEXT_SIZE + 2] = {0};
    const char *value;

    memcpy(text, data, size < TEXT_SIZE ? size : TEXT_SIZE);
    value = text + strlen(text) + 1;
    set_of_client(text, value);
    set_of_lock(text, value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    switch (data[0] % 3) {
    case 0:
        read_options(data + 1, size - 1);
        break;
    case 1:
        read_call(data + 1, size - 1);
        break;
    default:
        set_by_name(data + 1, size - 1);
        break;
    }
    return 0;
}
