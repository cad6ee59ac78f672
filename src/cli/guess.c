#include "guess.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_MAX = 64 };

void cli_guess_init(struct cli_guess *self, const char *word, size_t length)
{
    *self = (struct cli_guess){.word = word, .length = length, .distance = LENGTH_MAX};
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool is_same(char a, char b)
{
    return a == b || (a == '-' && b == '_') || (a == '_' && b == '-');
}

/* Rows of the table of distances between the beginnings of two words. */
struct rows {
    size_t *before; /* the last: a swap looks two rows back */
    size_t *last;
    size_t *row;
};

static bool is_swap(const char *a, size_t i, const char *b, size_t j)
{
    return i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) && is_same(a[i - 2], b[j - 1]);
}

static void fill_row(const struct rows *rows, const char *a, size_t i, const char *b,
                     size_t b_length)
{
    size_t *row = rows->row;

    row[0] = i;
    for (size_t j = 1; j <= b_length; j++) {
        row[j] = least(rows->last[j - 1] + !is_same(a[i - 1], b[j - 1]),
                       least(rows->last[j], row[j - 1]) + 1);
        if (is_swap(a, i, b, j)) {
            row[j] = least(row[j], rows->before[j - 2] + 1);
        }
    }
}

/* Letters to add, drop, change or swap with their neighbour to come from one word to the other. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t memory[3][LENGTH_MAX + 1];
    struct rows rows = {memory[0], memory[1], memory[2]};

    for (size_t j = 0; j <= b_length; j++) {
        rows.before[j] = j;
        rows.last[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        fill_row(&rows, a, i, b, b_length);
        rows = (struct rows){rows.last, rows.row, rows.before};
    }
    return rows.last[b_length];
}

void cli_guess_propose(struct cli_guess *self, const char *word)
{
    const size_t length = strlen(word);
    size_t found;

    if (self->length > LENGTH_MAX || length > LENGTH_MAX) {
        return;
    }
    found = distance(self->word, self->length, word, length);
    if (found < self->distance) {
        self->distance = found;
        self->best = word;
    }
}

const char *cli_guess_text(const struct cli_guess *self, const char *prefix, bool is_dashed,
                           char out[CLI_GUESS_SIZE])
{
    const size_t most = 1 + self->length / 4;
    char *at;
    int start;

    out[0] = '\0';
    if (!self->best || self->distance > most || self->distance >= self->length) {
        return out;
    }
    start = snprintf(out, CLI_GUESS_SIZE, " (did you mean %s", prefix);
    (void)snprintf(out + start, CLI_GUESS_SIZE - (size_t)start, "%s?)", self->best);
    for (at = out + start; is_dashed && *at; at++) {
        if (*at == '_') {
            *at = '-';
        }
    }
    return out;
}
