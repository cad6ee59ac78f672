#include "output.h"
#include "scope.h"
#include "text.h"

#include <stdio.h>

/* cJSON keeps numbers as double and prints large ones with an exponent (F-91): integers go in as
 * raw text. It passes invalid UTF-8 through: texts are made valid first. */

enum { NUMBER_SIZE = 24 };

cJSON *cli_json_object(void)
{
    return cli_must(cJSON_CreateObject());
}

cJSON *cli_json_array(void)
{
    return cli_must(cJSON_CreateArray());
}

cJSON *cli_json_text(const char *text)
{
    CLI_AUTO(cli_free) char *valid = NULL;

    if (!text) {
        return cli_must(cJSON_CreateNull());
    }
    valid = cli_text_for_json(text);
    return cli_must(cJSON_CreateString(valid));
}

static cJSON *integer(int64_t value)
{
    char text[NUMBER_SIZE];

    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    return cli_must(cJSON_CreateRaw(text));
}

void cli_json_add(cJSON *object, const char *key, cJSON *item)
{
    CLI_AUTO(cli_free) char *valid = cli_text_for_json(key);

    if (!cJSON_AddItemToObject(object, valid, item)) {
        cli_die_nomem();
    }
}

void cli_json_add_text(cJSON *object, const char *key, const char *text)
{
    cli_json_add(object, key, cli_json_text(text));
}

void cli_json_add_int(cJSON *object, const char *key, int64_t value)
{
    cli_json_add(object, key, integer(value));
}

void cli_json_add_count(cJSON *object, const char *key, int64_t value)
{
    cli_json_add(object, key, value >= 0 ? integer(value) : cli_must(cJSON_CreateNull()));
}

void cli_json_add_bool(cJSON *object, const char *key, bool value)
{
    cli_json_add(object, key, cli_must(cJSON_CreateBool(value)));
}

void cli_json_append(cJSON *array, cJSON *item)
{
    if (!cJSON_AddItemToArray(array, item)) {
        cli_die_nomem();
    }
}

void cli_json_print(cJSON *root)
{
    char *text = cli_must(cJSON_Print(root));

    cJSON_Delete(root);
    (void)puts(text);
    cJSON_free(text);
}
