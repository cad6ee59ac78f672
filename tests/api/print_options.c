/* Prints the library's options table as Markdown, for the options page of the manual. */

#include <rql/rql.h>

#include <stdio.h>
#include <string.h>

/* A bar would end the cell, and an at sign begins a command of Doxygen. */
static void print_cell(const char *text)
{
    (void)fputs("| ", stdout);
    for (; *text; text++) {
        (void)fputs(strchr("|@", *text) ? "\\" : "", stdout);
        (void)putchar(*text);
    }
    (void)putchar(' ');
}

static void print_code(const char *text)
{
    if (*text) {
        (void)printf("| `%s` ", text);
    } else {
        (void)fputs("| ", stdout);
    }
}

static void print_row(const rql_option_row *row)
{
    print_code(row->name);
    print_code(row->env);
    print_cell(row->unit);
    print_cell(row->range);
    print_code(row->default_value);
    print_cell(row->help);
    (void)puts("|");
}

int main(void)
{
    const rql_option_row *row;
    size_t i;

    (void)puts("| Option | Environment | Unit | Range | Default | Meaning |");
    (void)puts("|---|---|---|---|---|---|");
    for (i = 0, row = rql_option_row_at(0); row; row = rql_option_row_at(++i)) {
        print_row(row);
    }
    return 0;
}
