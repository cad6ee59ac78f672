#ifndef UNIT_H
#define UNIT_H

/* What the unit tests share: how a test is written down, tables, and checks of many numbers. */

#include "check.h"

#include <stdbool.h>
#include <string.h>

/* A function that runs by itself, in the order of the file; main() is in unit.c. The first two are
 * run before and after each test of the file. */
#define BEFORE_EACH(name) UNIT_FUNCTION(name, unit_before)
#define AFTER_EACH(name) UNIT_FUNCTION(name, unit_after)
#define TEST(name) UNIT_FUNCTION(name, unit_add)

#define UNIT_FUNCTION(name, add)                                                                   \
    static void name(void);                                                                        \
    __attribute__((constructor)) static void add_##name(void)                                      \
    {                                                                                              \
        add(#name, name);                                                                          \
    }                                                                                              \
    static void name(void)

typedef void unit_fn(void);

void unit_before(const char *name, unit_fn *body);
void unit_after(const char *name, unit_fn *body);
void unit_add(const char *name, unit_fn *body);

/* Walks a table; each row is said first, by its name, a text of it or its number: the last one said
 * is the one that fails. */
#define EACH_ROW(row, rows) EACH_BY (row, rows, row->name)
#define EACH_BY(row, rows, text)                                                                   \
    for (const __typeof__((rows)[0]) *row = (rows);                                                \
         row < (rows) + N_ROWS(rows) && unit_say(row - (rows), text); row++)
#define EACH(row, rows) EACH_BY (row, rows, NULL)

bool unit_say(ptrdiff_t number, const char *text);

/* A table of short texts is one text, "5s=5000|0x|1 h": takes and says the next of them, and its
 * number; false: that was all. */
enum { PART_SIZE = 320 };

bool next_part(const char **rest, char part[PART_SIZE], int64_t *number);

/* CHECK_ALL(EQ(answer.token, 7), EQ(...)): the first pair that is not equal is named. */
#define EQ(found, expected)                                                                        \
    {                                                                                              \
#found, (int64_t)(found), (int64_t)(expected)                                              \
    }
#define CHECK_ALL(...)                                                                             \
    unit_check((const struct unit_pair[]){__VA_ARGS__, {NULL, 0, 0}}, __FILE__, __LINE__)

struct unit_pair {
    const char *what;
    int64_t found;
    int64_t expected;
};

void unit_check(const struct unit_pair *pairs, const char *file, int line);

/* For RQLI_MUST: does this end the process? Asked of a child, which says nothing on its way. */
bool aborts(void (*act)(const void *data), const void *data);

/* Chance that can be had again: another seed each time, said, and had again by RQL_TEST_SEED. It is
 * never 0. */
uint32_t chance_seed(void);
uint32_t chance_below(uint32_t *seed, uint32_t bound);

#endif
