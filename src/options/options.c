#include "options/options.h"

#include "base/error.h"
#include "options/meta.h"
#include "options/table.h"

#include <string.h>

static void fill_defaults(rql_options *out)
{
    const struct rqli_option *option;

    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    for (size_t i = 0; (option = rqli_option_at(i)); i++) {
        char *field = (char *)out + option->offset;

        if (option->kind == RQLI_OPTION_TEXT) {
            memcpy(field, &option->shown.default_value, rqli_option_width(option));
        } else {
            rqli_option_store(option, field, option->fallback);
        }
    }
}

void rql_options_init_sized(rql_options *options, size_t size)
{
    rql_options defaults;

    fill_defaults(&defaults);
    rqli_options_hand_out(options, size, &defaults, sizeof defaults);
}

/* A newer program may hand us a longer struct: fine while the part we do not know is zero. */
static bool tail_is_zero(const void *given, size_t size, size_t known)
{
    const unsigned char *bytes = given;

    for (size_t i = known; i < size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return true;
}

rql_status rqli_options_lay_over(void *out, size_t known, const void *given, size_t least,
                                 rql_error *error)
{
    rql_status status;
    size_t size;

    memcpy(&size, given, sizeof size);
    status = rqli_option_check_size(size, least, error);
    if (status) {
        return status;
    }
    if (!tail_is_zero(given, size, known)) {
        return rqli_fail(error, RQL_E_INVALID, "options: has fields this library does not know");
    }
    memcpy(out, given, size < known ? size : known);
    memcpy(out, &known, sizeof known);
    return RQL_OK;
}

void rqli_options_hand_out(void *out, size_t size, const void *ours, size_t known)
{
    memset(out, 0, size);
    memcpy(out, ours, size < known ? size : known);
    memcpy(out, &size, sizeof size);
}

static rql_status check_fields(const rql_options *options, rql_error *error)
{
    const struct rqli_option *option;
    rql_status status = RQL_OK;

    for (size_t i = 0; !status && (option = rqli_option_at(i)); i++) {
        const char *field = (const char *)options + option->offset;

        status = rqli_option_check(option, field, option->shown.name, error);
    }
    return status;
}

rql_status rqli_options_read(rql_options *out, const rql_options *given, rql_error *error)
{
    rql_status status = RQL_OK;
    rql_options read;

    fill_defaults(&read);
    if (given) {
        status = rqli_options_lay_over(&read, sizeof read, given, RQLI_OPTIONS_LEAST, error);
    }
    if (!status) {
        status = check_fields(&read, error);
    }
    if (!status) {
        status = rqli_listeners_check(read.logger, read.instrumenter, error);
    }
    if (!status) {
        *out = read;
    }
    return status;
}

void rqli_lock_options_fill(rql_lock_options *out, const rql_options *client)
{
    const struct rqli_option *option;
    rql_options defaults;

    if (!client) {
        fill_defaults(&defaults);
        client = &defaults;
    }
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    for (size_t i = 0; (option = rqli_option_at(i)); i++) {
        if (option->call_name) {
            rqli_option_store(option, (char *)out + option->call_offset,
                              rqli_option_load(option, (const char *)client + option->offset));
        }
    }
    for (size_t i = 0; (option = rqli_call_option_at(i)); i++) {
        rqli_option_store(option, (char *)out + option->call_offset, option->fallback);
    }
    out->logger = client->logger;
    out->logger_data = client->logger_data;
    out->instrumenter = client->instrumenter;
    out->instrumenter_data = client->instrumenter_data;
}

static rql_status check_call_field(const struct rqli_option *option,
                                   const rql_lock_options *options, rql_error *error)
{
    const char *field = (const char *)options + option->call_offset;

    return option->call_name ? rqli_option_check(option, field, option->call_name, error) : RQL_OK;
}

static rql_status check_call_fields(const rql_lock_options *options, rql_error *error)
{
    const struct rqli_option *option;
    rql_status status = RQL_OK;

    for (size_t i = 0; !status && (option = rqli_option_at(i)); i++) {
        status = check_call_field(option, options, error);
    }
    for (size_t i = 0; !status && (option = rqli_call_option_at(i)); i++) {
        status = check_call_field(option, options, error);
    }
    return status ? status : rqli_meta_check(options->meta, options->n_meta, error);
}

rql_status rqli_lock_options_read(rql_lock_options *out, const rql_lock_options *defaults,
                                  const rql_lock_options *given, rql_error *error)
{
    rql_lock_options read = *defaults;
    rql_status status = RQL_OK;

    if (given) {
        status = rqli_options_lay_over(&read, sizeof read, given, RQLI_LOCK_OPTIONS_LEAST, error);
    }
    if (given && !status) {
        status = check_call_fields(&read, error);
    }
    if (given && !status) {
        status = rqli_listeners_check(read.logger, read.instrumenter, error);
    }
    if (!status) {
        *out = read;
    }
    return status;
}
