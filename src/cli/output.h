#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

/* What the program writes: results on stdout (aligned tables or JSON), messages on stderr (one line
 * each). Names and metadata come from strangers: control bytes never reach a terminal and JSON is
 * always valid UTF-8. */

#include <cJSON.h>
#include <rql/rql.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One line on stderr: "rql: " and the text, made safe. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for what has to go on meanwhile, signals and the watch over a lock: it is left out where
 * whoever reads stderr has stopped to, and the pipe is full. */
void cli_tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A line on stderr does not block. */
bool cli_is_heard(void);

/* Says what went wrong; answers the exit code. */
int cli_fault(const rql_error *error);

/* The system's words for errno. Static or in `buffer`. */
const char *cli_errno_text(int number, char *buffer, size_t size);

/* Out of memory: says so and ends the program. What it runs dies with it. */
_Noreturn void cli_die_nomem(void);

/* What an allocation gave, unless that was nothing. */
void *cli_must(void *memory);

enum { CLI_COLUMNS_MAX = 8 };

/* A table: a heading row, then cells row by row. Zero it but for `n_columns`. */
struct cli_table {
    size_t n_columns;
    size_t n_cells;
    size_t capacity;
    char **cells;
};

void cli_table_add(struct cli_table *self, const char *text);     /* copied, made safe; NULL: "-" */
void cli_table_add_raw(struct cli_table *self, const char *text); /* copied as it is: for JSON */
void cli_table_add_int(struct cli_table *self, int64_t value);
void cli_table_add_duration(struct cli_table *self, int64_t value_ms);
void cli_table_add_pair(struct cli_table *self, const char *label, const char *text);
void cli_table_print(const struct cli_table *self, bool has_heading);
void cli_table_fini_p(struct cli_table *self);

#define CLI_AUTO_TABLE __attribute__((cleanup(cli_table_fini_p)))

/* JSON. Items go to their parent at once; the root is freed by cli_json_print(). */
cJSON *cli_json_object(void);
cJSON *cli_json_array(void);
void cli_json_add(cJSON *object, const char *key, cJSON *item);
void cli_json_add_text(cJSON *object, const char *key, const char *text); /* NULL: null */
void cli_json_add_int(cJSON *object, const char *key, int64_t value);
void cli_json_add_count(cJSON *object, const char *key, int64_t value); /* negative: null */
void cli_json_add_bool(cJSON *object, const char *key, bool value);
void cli_json_append(cJSON *array, cJSON *item);
cJSON *cli_json_text(const char *text);
void cli_json_print(cJSON *root);

#endif
