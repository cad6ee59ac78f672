#include "base/text.h"

#include <rql/observe.h>

/*
 * Writes a log record for machines: names as in the text, numbers as numbers, a time without limit
 * as null.
 */

static void write_list(struct rqli_writer *writer, const rql_log_field *field)
{
    rqli_write_text(writer, "[");
    for (size_t i = 0; i < field->n_items; i++) {
        rqli_write_text(writer, i > 0 ? "," : "");
        rqli_write_json(writer, field->items[i]);
    }
    rqli_write_text(writer, "]");
}

/* Fields that differ only by quotes in the text are equal here. Units are those of the text. */
static void write_value(struct rqli_writer *writer, const rql_log_field *field)
{
    switch (field->kind) {
    case RQL_LOG_QUOTED:
    case RQL_LOG_RAW:
        rqli_write_json(writer, field->text);
        break;
    case RQL_LOG_INTEGER:
        rqli_write_int(writer, field->number);
        break;
    case RQL_LOG_SECONDS:
        rqli_write_seconds(writer, field->number, "null");
        break;
    case RQL_LOG_MS:
        /* From microseconds to hundredths of a millisecond, rounded up as in the text. */
        rqli_write_decimal(writer, (field->number + 9) / 10, 2);
        break;
    case RQL_LOG_TIME:
        rqli_write_decimal(writer, field->number, 6);
        break;
    case RQL_LOG_LIST:
        write_list(writer, field);
        break;
    }
}

size_t rql_log_json(const rql_log_record *record, char *buffer, size_t size)
{
    struct rqli_writer writer;

    rqli_writer_init(&writer, buffer, size);
    rqli_write_text(&writer, "{\"name\":");
    rqli_write_json(&writer, record->name);
    for (size_t i = 0; i < record->n_fields; i++) {
        rqli_write_text(&writer, ",");
        rqli_write_json(&writer, record->fields[i].name);
        rqli_write_text(&writer, ":");
        write_value(&writer, &record->fields[i]);
    }
    rqli_write_text(&writer, "}");
    return rqli_writer_end(&writer);
}
