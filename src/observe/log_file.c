/* Ready-made functions that write log lines to a FILE of the caller. */

#include <rql/observe.h>
#include <stdio.h>
#include <stdlib.h>

/* Nearly every line fits; the line of a series with many long names does not. */
enum { LINE_SIZE = 1024 };

typedef size_t format_fn(const rql_log_record *record, char *buffer, size_t size);

/* Writes the line feed in place of the terminator, in one write, so that lines do not mix. */
static void write_line(format_fn *format, const rql_log_record *record, FILE *file)
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
