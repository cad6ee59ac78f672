/* The input is the name of an option and its value, as a user writes them: NUL separates the two.
 */

#include "base/must.h"
#include "options/options.h"

#include <rql/lock.h>
#include <string.h>

enum { TEXT_SIZE = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A refusal changes nothing, and what was accepted is accepted again as a whole. */
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_SIZE + 2] = {0};
    const char *value;

    memcpy(text, data, size < TEXT_SIZE ? size : TEXT_SIZE);
    value = text + strlen(text) + 1;
    set_of_client(text, value);
    set_of_lock(text, value);
    return 0;
}
