#ifndef CLI_OUT_H
#define CLI_OUT_H

/* The sink for results. A command names each field once, with its heading and its key; the sink
 * writes the requested form: a table for people, JSON or OpenMetrics for machines.
 *
 * Names and metadata come from other programs: control bytes never reach a terminal, and JSON is
 * always valid UTF-8. */

#include <rql/admin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct cJSON;

enum out_form { OUT_TABLE, OUT_JSON, OUT_OPENMETRICS };

enum { OUT_COLUMNS_MAX = 10, OUT_DEPTH_MAX = 13 };

struct out {
    enum out_form form;
    FILE *to;                    /* stdout by default */
    const char *const *headings; /* of the columns; NULL: there are none */
    bool has_row;                /* fields are added to the last row */
    bool wraps;                  /* the last column has lines of cli_help_width() */
    bool is_line;                /* JSON is printed on one line */
    bool is_printed;             /* by out_print() */
    size_t n_columns;
    size_t n_cells;
    size_t capacity;
    char **cells; /* row by row; NULL: there are none yet */
    size_t depth;
    struct cJSON *open[OUT_DEPTH_MAX]; /* the root, and the open items inside it */
    struct cJSON *root;
};

/* The kind of a number. JSON has it unchanged; all kinds but OUT_INT are null when negative. */
enum out_kind {
    OUT_INT,
    OUT_COUNT,
    OUT_MS, /* a duration; the table says "12.3s" */
};

/* Returns whether NO_COLOR (no-color.org) is set and not empty: nothing is coloured, bold or
 * faint. */
bool out_is_plain(void);

/* Returns a sink with one field per line. For the `key` and `heading` of all fields, NULL leaves
 * the field out of that form. */
struct out out_fields(enum out_form form);

/* Makes it a table with these columns, in this order; a field with another heading is not in it.
 * The array ends in NULL. */
void out_columns(struct out *self, const char *const *headings);

/* Begins or ends an object or an array of JSON. It is under a key; or, without one, in an array or
 * the whole: such an object is a row of the table. If nothing begins, JSON has null. */
void out_begin(struct out *self, const char *key);
void out_begin_list(struct out *self, const char *key);
void out_end(struct out *self);

void out_text(struct out *self, const char *heading, const char *key, const char *text);
/* Prints a time of the server's clock, in microseconds since 1970. JSON has it unchanged; the table
 * shows its age when the server's clock was server_us. */
void out_age(struct out *self, const char *heading, const char *key, int64_t time_us,
             int64_t server_us);

void out_number(struct out *self, const char *heading, const char *key, enum out_kind kind,
                int64_t value);
/* Prints a number in JSON only; null if it is negative. */
void out_real(struct out *self, const char *key, double value);
void out_bool(struct out *self, const char *key, bool value);

/* Prints a text of an array; a line. The sink then has only items. */
void out_item(struct out *self, const char *text);

/* Prints an array of texts in JSON; other forms have none. */
void out_list(struct out *self, const char *key, const rql_text_list *list);

/* Prints these rising numbers: an array in JSON, and "0-2,5" in a table. heading: NULL: only in
 * JSON. */
void out_numbers(struct out *self, const char *heading, const char *key, const int *numbers,
                 size_t count);

/* Prints two cells that are no field: label and text, unchanged. */
void out_pair(struct out *self, const char *label, const char *text);

/* Writes a family of OpenMetrics, a gauge or a counter, and after it its samples, which may have a
 * label. Other forms have none. */
void out_family(struct out *self, const char *name, const char *type, const char *help);
void out_sample(struct out *self, const char *name, const char *label, const char *text,
                double value);

/* Prints a field that is also a family of OpenMetrics. */
void out_gauge(struct out *self, const char *label, const char *name, const char *help,
               int64_t value);

/* Prints a sentence instead of, or after, a table; other forms have none. */
void out_line(struct out *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints everything and frees it. Must be called once. */
void out_print(struct out *self);

#endif
