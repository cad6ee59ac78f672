#ifndef CLI_FORMAT_H
#define CLI_FORMAT_H

/* Text that strangers wrote, and durations. */

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Size of a formatted duration with its terminator. */
enum { CLI_DURATION_SIZE = 32 };

/* malloc'd. Bytes that a terminal would act upon, or that are no UTF-8, become \n, \x1b, \u202e. */
char *cli_text_for_terminal(const char *text);

/* malloc'd. Bytes that are no UTF-8 become U+FFFD. */
char *cli_text_for_json(const char *text);

/* For qsort(), of an array of texts. */
int cli_compare_texts(const void *a, const void *b);

/* Of the lock that a key is about. A key that is neither a lock nor a queue is its own name. */
const char *cli_name_of_key(const char *key);

/* Does the glob, if there is one, match the name of a lock? It is as in the shell, but '/' is a
 * letter. */
bool cli_glob_matches(const char *glob, const char *name);

/* False: a "[" has no "]", or nothing follows a "\". */
bool cli_glob_is_valid(const char *glob);

/* Characters of UTF-8, whatever the environment says; NULL where the system does not have them. */
locale_t cli_utf8(void);

/* Columns that text takes on a terminal. */
size_t cli_text_width(const char *text);

/* "850ms", "12.3s", "5m03s", "2h05m", "3d04h"; negative: "-". */
const char *cli_format_duration(int64_t value_ms, char out[CLI_DURATION_SIZE]);

/* Microseconds and milliseconds on a clock that runs through suspend, as the library's deadlines
 * do. */
int64_t cli_now_us(void);
int64_t cli_now_ms(void);

/* That clock in so many milliseconds, INT64_MAX at most. */
int64_t cli_after_ms(int64_t ms);

/* Milliseconds from one time of the server's clock to another, in microseconds since 1970; -1: one
 * of them is not known. */
int64_t cli_age_ms(int64_t time_us, int64_t server_us);

#endif
