/* Options as text: set by name or from the environment, and the table as users see it. */

#include "base/error.h"
#include "base/secret.h"
#include "base/text.h"
#include "options/options.h"

#include <rql/lock.h>
#include <stdlib.h>

/* Longest value or name that a message repeats. */
enum { REPEAT_MAX = 40 };

/* Returns text that a message may repeat. Text from outside is only repeated if it cannot harm a
 * terminal or fill the message: the value itself, or a word that says why it is not repeated. */
static const char *repeatable(const char *value)
{
    size_t length = strnlen(value, REPEAT_MAX + 1);

    if (length == 0 || length > REPEAT_MAX) {
        return length == 0 ? "empty" : "too long";
    }
    for (size_t i = 0; i < length; i++) {
        if (value[i] < 0x20 || value[i] > 0x7E) {
            return "unreadable";
        }
    }
    return value;
}

/* Parses a word: its index in the list is its value. */
static bool parse_word(const char *const *words, const char *value, int64_t *out)
{
    for (int i = 0; words[i]; i++) {
        if (strcmp(words[i], value) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

/* A sign is refused: -1ms is not "forever". */
static bool parse_duration(const struct rqli_option *option, const char *value, int64_t *out)
{
    return strcmp(option->shown.unit, "ms") == 0 && *value != '-' &&
           rql_parse_duration(value, out, NULL) == RQL_OK;
}

/* Parses a value: a plain number is in the option's own unit; with a unit it is a duration. A word
 * of a list needs no range check. On false, *out may be anything. */
static bool parse(const struct rqli_option *option, const char *value, int64_t *out)
{
    if (option->words) {
        return parse_word(option->words, value, out);
    }
    if (option->forever && strcmp(value, "forever") == 0) {
        *out = RQL_FOREVER;
        return true;
    }
    return (rqli_parse_int(rqli_slice_of(value), out) || parse_duration(option, value, out)) &&
           rqli_option_accepts(option, *out);
}

static void *field_of(const struct rqli_option *option, enum rqli_option_struct which,
                      void *options)
{
    return (char *)options + option->in[which].offset;
}

/* Sets a field. name is the name that the user wrote: of the option, or of the variable. */
static rql_status assign(const struct rqli_option *option, void *field, const char *name,
                         const char *value, rql_error *error)
{
    int64_t number;

    /* A text is borrowed: the option is the pointer that was passed. */
    if (option->kind == RQLI_OPTION_TEXT) {
        rql_status status = rqli_option_check(option, &value, name, error);

        if (!status) {
            memcpy(field, &value, sizeof value);
        }
        return status;
    }
    if (!parse(option, value, &number)) {
        return rqli_fail(error, RQL_E_INVALID, "%s is %s; it must be %s", name, repeatable(value),
                         option->shown.range);
    }
    rqli_option_store(option, field, number);
    return RQL_OK;
}

/* Stops at the first variable that is wrong; the caller passes a copy, and discards it then. An
 * empty variable counts as not set, because a unit or a compose file leaves one behind, unless
 * empty is a value of its option. */
static rql_status assign_from_env(rql_options *options, rql_error *error)
{
    const struct rqli_option *option;
    rql_status status = RQL_OK;

    for (size_t i = 0; !status && (option = rqli_option_at(i)); i++) {
        /* The contract rules out changes during the call. NOLINTNEXTLINE(concurrency-mt-unsafe) */
        const char *value = getenv(option->shown.env);

        if (value && (*value != '\0' || option->may_be_empty)) {
            void *field = field_of(option, RQLI_OF_CLIENT, options);

            status = assign(option, field, option->shown.env, value, error);
        }
    }
    return status;
}

rql_status rql_options_from_env(rql_options *options, rql_error *error)
{
    rql_options changed;
    rql_status status = rqli_options_check_set_up(RQLI_OF_CLIENT, options, error);
    size_t known;

    if (status) {
        return status;
    }
    /* The shorter struct of an older program takes the variables of its own fields. Fields beyond
     * it in the copy are set and never read. */
    known = options->size < sizeof changed ? options->size : sizeof changed;
    memcpy(&changed, options, known);
    status = assign_from_env(&changed, error);
    if (!status) {
        memcpy(options, &changed, known);
    }
    return status;
}

/* io-timeout-ms is the same as io_timeout_ms. */
static bool same_name(const char *field, const char *name)
{
    for (; *field != '\0' && *name != '\0'; field++, name++) {
        if (*field != *name && !(*field == '_' && *name == '-')) {
            return false;
        }
    }
    return *field == *name;
}

/* Finds an option by its name in this struct. If two rows have one field, the first is meant. */
static const struct rqli_option *find(enum rqli_option_struct which, const char *name)
{
    const struct rqli_option *option;

    for (size_t i = 0; (option = rqli_option_row(i)); i++) {
        if (option->in[which].name && same_name(option->in[which].name, name)) {
            return option;
        }
    }
    return NULL;
}

static rql_status set(enum rqli_option_struct which, void *options, const char *name,
                      const char *value, rql_error *error)
{
    const struct rqli_option *option;
    rql_status status = rqli_options_check_set_up(which, options, error);
    size_t size;

    if (status) {
        return status;
    }
    if (!name || !value) {
        return rqli_fail(error, RQL_E_INVALID, "options: name or value is NULL");
    }
    memcpy(&size, options, sizeof size);
    option = find(which, name);
    /* The struct of an older program has no room for newer options. */
    if (!option || option->in[which].offset + rqli_option_width(option) > size) {
        return rqli_fail(error, RQL_E_INVALID, "options: no such option: %s", repeatable(name));
    }
    return assign(option, field_of(option, which, options), option->in[which].name, value, error);
}

rql_status rql_options_set(rql_options *options, const char *name, const char *value,
                           rql_error *error)
{
    return set(RQLI_OF_CLIENT, options, name, value, error);
}

rql_status rql_lock_options_set(rql_lock_options *options, const char *name, const char *value,
                                rql_error *error)
{
    return set(RQLI_OF_LOCK, options, name, value, error);
}

/* Finds an option that a URL may set: only those of the server's TLS. Names are written as in the
 * table. */
static const struct rqli_option *find_of_url(const char *name)
{
    const struct rqli_option *option = find(RQLI_OF_CLIENT, name);

    return option && strncmp(name, "tls_", 4) == 0 && strcmp(name, option->shown.name) == 0 ? option
                                                                                            : NULL;
}

/* The message of the table is not used, because it would repeat the value. */
rql_status rqli_options_set_of_url(rql_options *options, const char *query, rql_error *error)
{
    while (query && *query != '\0') {
        const struct rqli_option *option = find_of_url(query);

        if (!option) {
            return rqli_fail(error, RQL_E_INVALID,
                             "url: unknown query key; rediss:// knows tls_verify, tls_ca_file, "
                             "tls_cert_file, tls_key_file and tls_server_name");
        }
        query += strlen(query) + 1;
        if (assign(option, field_of(option, RQLI_OF_CLIENT, options), option->shown.name, query,
                   NULL)) {
            return rqli_fail(error, RQL_E_INVALID, "url: %s must be %s", option->shown.name,
                             option->shown.range);
        }
        query += strlen(query) + 1;
    }
    return RQL_OK;
}

/* Moves each text to `next`, which has room for it; NULL: only measures. */
static size_t move_texts(rql_options *options, char *next)
{
    const struct rqli_option *option;
    size_t length = 0;

    for (size_t i = 0; (option = rqli_option_at(i)); i++) {
        void *field = field_of(option, RQLI_OF_CLIENT, options);
        const char *text = NULL;

        if (option->kind == RQLI_OPTION_TEXT) {
            memcpy(&text, field, sizeof text);
        }
        if (text && next) {
            text = memcpy(next + length, text, strlen(text) + 1);
            memcpy(field, &text, sizeof text);
        }
        length += text ? strlen(text) + 1 : 0;
    }
    return length;
}

char *rqli_options_keep_texts(rql_options *options)
{
    char *texts = rqli_secret_new(move_texts(options, NULL));

    if (texts) {
        (void)move_texts(options, texts);
    }
    return texts;
}

const rql_option_row *rql_option_row_at(size_t index)
{
    const struct rqli_option *option = rqli_option_at(index);

    return option ? &option->shown : NULL;
}
