#include "base/text.h"

#include <rql/observe.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Log records as lines. The text is the gem's, down to its irregularities, so that one pattern
 * finds the lines of both in the logs of a mixed fleet. JSON is for machines: names as in the text,
 * numbers as numbers, a time without limit as null.
 */

/* ---- text ---- */

static bool is_line(const rql_log_record *record, const char *name)
{
    return strcmp(record->name, name) == 0;
}

/* Keeps one line one line: each control byte becomes a question mark. UTF-8 has none of them. */
static void write_safe(struct rqli_writer *writer, const char *text)
{
    while (*text) {
        size_t length = 0;

        while ((unsigned char)text[length] >= 0x20 && text[length] != 0x7F) {
            length++;
        }
        rqli_write_bytes(writer, text, length);
        if (text[length] != '\0') {
            rqli_write_text(writer, "?");
            length++;
        }
        text += length;
    }
}

/* Writes the text in quotes. The gem forgets one closing quote, in this line only: that of its last
 * field. */
static void write_quoted(struct rqli_writer *writer, const rql_log_record *record,
                         const rql_log_field *field)
{
    bool is_left_open = is_line(record, "fail_fast_or_limits_reached_or_deadlock__dequeue") &&
                        field == &record->fields[record->n_fields - 1];

    rqli_write_text(writer, "'");
    write_safe(writer, field->text ? field->text : "");
    if (!is_left_open) {
        rqli_write_text(writer, "'");
    }
}

/* Returns whether Ruby's String#inspect puts a backslash in front of this byte. */
static bool is_escaped(const char *at)
{
    return *at == '"' || *at == '\\' || (*at == '#' && at[1] != '\0' && strchr("{$@", at[1]));
}

/* Works byte by byte: no byte of a multi-byte character is one that is escaped. */
static void write_inspected(struct rqli_writer *writer, const char *text)
{
    for (; *text; text++) {
        const char one[] = {*text, '\0'};

        rqli_write_text(writer, is_escaped(text) ? "\\" : "");
        write_safe(writer, one);
    }
}

/* Writes the list as Ruby's Array#inspect does, in quotes. */
static void write_list(struct rqli_writer *writer, const rql_log_field *field)
{
    rqli_write_text(writer, "'[");
    for (size_t i = 0; i < field->n_items; i++) {
        rqli_write_text(writer, i > 0 ? ", \"" : "\"");
        write_inspected(writer, field->items[i]);
        rqli_write_text(writer, "\"");
    }
    rqli_write_text(writer, "]'");
}

/* Rounds milliseconds up to hundredths, as the gem does; our numbers are microseconds. A text that
 * is NULL is empty. */
static void write_text_value(struct rqli_writer *writer, const rql_log_record *record,
                             const rql_log_field *field)
{
    switch (field->kind) {
    case RQL_LOG_QUOTED:
        write_quoted(writer, record, field);
        break;
    case RQL_LOG_RAW:
        write_safe(writer, field->text ? field->text : "");
        break;
    case RQL_LOG_INTEGER:
        rqli_write_int(writer, field->number);
        break;
    case RQL_LOG_SECONDS:
        rqli_write_seconds(writer, field->number, "forever");
        break;
    case RQL_LOG_MS:
        rqli_write_decimal(writer, (field->number + 9) / 10, 2);
        rqli_write_text(writer, " (ms)");
        break;
    case RQL_LOG_TIME:
        rqli_write_text(writer, "'");
        rqli_write_decimal(writer, field->number, 6);
        rqli_write_text(writer, "'");
        break;
    case RQL_LOG_LIST:
        write_list(writer, field);
        break;
    }
}

/* The gem has no blank after the list of start_lock_series_obtaining. */
static bool joins_previous(const rql_log_record *record, size_t at)
{
    return at > 0 && record->fields[at - 1].kind == RQL_LOG_LIST &&
           is_line(record, "start_lock_series_obtaining");
}

size_t rql_log_text(const rql_log_record *record, char *buffer, size_t size)
{
    struct rqli_writer writer;

    rqli_writer_init(&writer, buffer, size);
    rqli_write_text(&writer, "[redis_queued_locks.");
    rqli_write_text(&writer, record->name);
    rqli_write_text(&writer, "]");
    for (size_t i = 0; i < record->n_fields; i++) {
        rqli_write_text(&writer, joins_previous(record, i) ? "" : " ");
        write_safe(&writer, record->fields[i].name);
        rqli_write_text(&writer, " => ");
        write_text_value(&writer, record, &record->fields[i]);
    }
    return rqli_writer_end(&writer);
}

/* ---- JSON ---- */

/* Fields that differ only by quotes in the text are equal here. Units are those of the text. */
static void write_json_value(struct rqli_writer *writer, const rql_log_field *field)
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
        rqli_write_text(writer, "[");
        for (size_t i = 0; i < field->n_items; i++) {
            rqli_write_text(writer, i > 0 ? "," : "");
            rqli_write_json(writer, field->items[i]);
        }
        rqli_write_text(writer, "]");
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
        write_json_value(&writer, &record->fields[i]);
    }
    rqli_write_text(&writer, "}");
    return rqli_writer_end(&writer);
}

/* ---- lines in a FILE of the caller ---- */

/* Nearly every line fits; the line of a series with many long names does not. */
enum { LINE_SIZE = 1024 };

/* Writes the line feed in place of the terminator, in one write, so that lines do not mix. */
static void write_line(size_t (*format)(const rql_log_record *record, char *buffer, size_t size),
                       const rql_log_record *record, FILE *file)
{
    char line[LINE_SIZE];
    char *text = line;
    size_t length = format(record, line, sizeof line);

    /* The length is that of the whole line, whether or not it was written. */
    if (length >= sizeof line) {
        text = malloc(length + 1);
        if (text) {
            (void)format(record, text, length + 1);
        } else {
            text = line; /* cut */
            length = sizeof line - 1;
        }
    }
    text[length] = '\n';
    (void)fwrite(text, 1, length + 1, file);
    if (text != line) {
        free(text);
    }
}

void rql_log_to_file(const rql_log_record *record, void *file)
{
    write_line(rql_log_text, record, file);
}

void rql_log_json_to_file(const rql_log_record *record, void *file)
{
    write_line(rql_log_json, record, file);
}
