#ifndef CLI_FORMAT_H
#define CLI_FORMAT_H

/* Formats text from other programs, and durations. */

#include <locale.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* Size of a formatted duration with its terminator. */
enum { CLI_DURATION_SIZE = 32 };

/* Returns a malloc'd copy. Bytes that a terminal would act upon, or that are not UTF-8, become \n,
 * \x1b, \u202e. */
char *cli_text_for_terminal(const char *text);

/* Returns a malloc'd copy. Bytes that are not UTF-8 become U+FFFD. */
char *cli_text_for_json(const char *text);

/* Compares two elements of an array of texts, for qsort(). */
int cli_compare_texts(const void *a, const void *b);

/* Compares two int64_t, for qsort(). */
int cli_compare_numbers(const void *a, const void *b);

/* Returns the name of the lock that a key belongs to. A key that is neither a lock nor a queue is
 * its own name. */
const char *cli_name_of_key(const char *key);

/* Returns whether the glob, if there is one, matches the name of a lock. It works as in the shell,
 * but '/' is an ordinary character. */
bool cli_glob_matches(const char *glob, const char *name);

/* Returns false if a "[" has no "]", or nothing follows a "\". */
bool cli_glob_is_valid(const char *glob);

/* Returns a locale with UTF-8, independent of the environment; NULL if the system has none. */
locale_t cli_utf8(void);

/* Returns the number of columns that a text takes on a terminal. */
size_t cli_text_width(const char *text);

/* Returns how many columns a line of help may have: those of the terminal, if that is the output,
 * and 80 at most. */
size_t cli_help_width(void);

/* Returns the end of the first paragraph of help: of the lines that are indented, as examples are,
 * or of those that are not. */
const char *cli_paragraph_end(const char *text);

/* Prints these words of help in lines of cli_help_width(). The first begins at column `indent`,
 * where the cursor is, and the others are indented by as much. */
void cli_print_words(FILE *to, const char *text, size_t length, size_t indent);

/* Formats "850ms", "12.3s", "5m03s", "2h05m" or "3d04h"; a negative duration is "-". */
const char *cli_format_duration(int64_t value_ms, char out[CLI_DURATION_SIZE]);

/* Returns microseconds or milliseconds on a clock that continues during suspend, as the library's
 * deadlines do. */
int64_t cli_now_us(void);
int64_t cli_now_ms(void);

/* Returns microseconds since 1970 on the clock of this host, which may jump: for people to read,
 * and to compare with another clock. */
int64_t cli_wall_us(void);

/* Returns the time of that clock in `ms` milliseconds, INT64_MAX at most. */
int64_t cli_after_ms(int64_t ms);

/* Returns a duration as nanosleep() takes it. Where time_t has 32 bits, it is 68 years at most. */
struct timespec cli_timespec(int64_t ms);

/* Returns the milliseconds from one time of the server's clock to another, both in microseconds
 * since 1970; -1 if one of them is not known. */
int64_t cli_age_ms(int64_t time_us, int64_t server_us);

#endif
