#ifndef CLI_OUT_H
#define CLI_OUT_H

/* The sink for results. A command names each field once, with its heading and
 * its key; the sink writes the form that was asked for: a table for people, JSON or OpenMetrics for
 * machines.
 *
 * Names and metadata come from strangers: control bytes never reach a terminal, and JSON is always
 * valid UTF-8. */

#include <rql/rql.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct cJSON;

enum out_form { OUT_TABLE, OUT_JSON, OUT_OPENMETRICS };

enum { OUT_COLUMNS_MAX = 8, OUT_DEPTH_MAX = 5 };

struct out {
    enum out_form form;
    FILE *to;                    /* stdout, if nobody says otherwise */
    const char *const *headings; /* of the columns; NULL: there are none */
    bool has_row;                /* fields go into the last row */
    size_t n_columns;
    size_t n_cells;
    size_t capacity;
    char **cells; /* row by row; NULL: nothing was said */
    size_t depth;
    struct cJSON *open[OUT_DEPTH_MAX]; /* the root, and what is open inside of it */
    struct cJSON *root;
};

/* What a number is. JSON has it as it is; all but OUT_INT are null when they are negative. */
enum out_kind {
    OUT_INT,
    OUT_COUNT,
    OUT_MS, /* a duration; the table says "12.3s" */
};

/* One field a line. `key` and `heading` of all fields: NULL leaves the field out of that form. */
struct out out_fields(enum out_form form);

/* Instead: a table with these columns, in this order; a field with another heading is not in it.
 * The array ends in NULL. */
void out_columns(struct out *self, const char *const *headings);

/* An object or an array of JSON, under a key; or, without one, in an array or as the whole: such an
 * object is a row of the table. If nothing begins, JSON says null. */
void out_begin(struct out *self, const char *key);
void out_begin_list(struct out *self, const char *key);
void out_end(struct out *self);

void out_text(struct out *self, const char *heading, const char *key, const char *text);
/* A time of the server's clock, in microseconds since 1970. JSON has it as it is, the table how
 * long ago that was when the server's clock showed server_us. */
void out_age(struct out *self, const char *heading, const char *key, int64_t time_us,
             int64_t server_us);

void out_number(struct out *self, const char *heading, const char *key, enum out_kind kind,
                int64_t value);
/* JSON alone has it; null: it is negative. */
void out_real(struct out *self, const char *key, double value);
void out_bool(struct out *self, const char *key, bool value);

/* A text of an array; a line. All that is said is items, then. */
void out_item(struct out *self, const char *text);

/* An array of texts; other forms have none. */
void out_list(struct out *self, const char *key, const rql_text_list *list);

/* Two cells that are no field: label and text, as they are. */
void out_pair(struct out *self, const char *label, const char *text);

/* A family of OpenMetrics, a gauge or a counter, and behind it its samples, which may have a label.
 * Other forms have none. */
void out_family(struct out *self, const char *name, const char *type, const char *help);
void out_sample(struct out *self, const char *name, const char *label, const char *text,
                double value);

/* A field that is a family of OpenMetrics, too. */
void out_gauge(struct out *self, const char *label, const char *name, const char *help,
               int64_t value);

/* A sentence instead of, or after, a table; other forms have none. */
void out_line(struct out *self, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints what there is, and frees it; once. */
void out_print(struct out *self);

#endif
