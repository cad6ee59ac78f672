#include "child.h"
#include "messages.h"
#include "scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The command's environment. RQL_URL is the one that this program uses, login included: an rql or a
 * worker inside the command has to find the same server, and would lock on another one without a
 * word. Other users cannot read it: unlike a command line, an environment is its owner's. */

enum { OWN_TEXTS = 3 };

/* Room for the texts that differ from this program's own environment, behind the array. */
struct block {
    char **items;
    size_t count;
    char *text;
    size_t left;
};

static bool is_variable(const char *entry, const char *name)
{
    const size_t length = strlen(name);

    return strncmp(entry, name, length) == 0 && entry[length] == '=';
}

static void add_text(struct block *self, const char *name, const char *value)
{
    const int length = snprintf(self->text, self->left, "%s=%s", name, value);

    if (length < 0 || (size_t)length >= self->left) {
        cli_die_nomem();
    }
    self->items[self->count++] = self->text;
    self->text += length + 1;
    self->left -= (size_t)length + 1;
}

static bool is_own(const char *entry)
{
    return is_variable(entry, "RQL_LOCK") || is_variable(entry, "RQL_TOKEN") ||
           is_variable(entry, "RQL_URL");
}

char **cli_child_environment(const char *names, const char *tokens, const char *url)
{
    struct block block = {.left = sizeof "RQL_LOCK=" + sizeof "RQL_TOKEN=" + sizeof "RQL_URL=" +
                                  strlen(names) + strlen(tokens) + strlen(url)};
    size_t n_items = OWN_TEXTS + 1;
    char **entry;

    for (entry = environ; *entry; entry++) {
        n_items++;
    }
    block.items = cli_must(malloc(n_items * sizeof *block.items + block.left));
    block.text = (char *)(block.items + n_items);
    for (entry = environ; *entry; entry++) {
        if (!is_own(*entry)) {
            block.items[block.count++] = *entry;
        }
    }
    add_text(&block, "RQL_LOCK", names);
    add_text(&block, "RQL_TOKEN", tokens);
    add_text(&block, "RQL_URL", url);
    block.items[block.count] = NULL;
    return block.items;
}
