#include "child.h"
#include "output.h"
#include "scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The command's environment. A password in RQL_URL is a secret that most commands have no need of;
 * the rest of the URL stays, so that an rql inside the command asks the same server or fails, and
 * never locks on another one without a word. */

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

/* Where a login ends: a password may hold any byte, so at the last '@'. The path of a socket may
 * hold one too, but stands behind a '/'. */
static char *find_login_end(char *url, char *login)
{
    char *at = strncmp(url, "unix:", 5) == 0 ? memrchr(login, '@', strcspn(login, "/?")) : NULL;

    return at ? at : strrchr(login, '@');
}

/* Cuts "user:password@" out of "scheme://user:password@rest". */
static void cut_login(char *url)
{
    char *login = strstr(url, "://");
    char *at;

    if (!login || login[3] == '/') {
        return;
    }
    login += 3;
    at = find_login_end(url, login);
    if (at && memchr(login, ':', (size_t)(at - login))) {
        (void)memmove(login, at + 1, strlen(at + 1) + 1);
    }
}

static void add_inherited(struct block *self, char **environment)
{
    for (; *environment; environment++) {
        if (is_variable(*environment, "RQL_URL")) {
            add_text(self, "RQL_URL", *environment + sizeof "RQL_URL");
            cut_login(self->items[self->count - 1] + sizeof "RQL_URL");
        } else if (!is_variable(*environment, "RQL_LOCK") &&
                   !is_variable(*environment, "RQL_TOKEN")) {
            self->items[self->count++] = *environment;
        }
    }
}

/* What the own texts can take at most. */
static size_t measure(char **environment, size_t *n_out)
{
    size_t size = sizeof "RQL_LOCK=" + sizeof "RQL_TOKEN=";

    for (*n_out = 0; environment[*n_out]; *n_out += 1) {
        if (is_variable(environment[*n_out], "RQL_URL")) {
            size += strlen(environment[*n_out]) + 1;
        }
    }
    return size;
}

char **cli_child_environment(const char *names, const char *tokens)
{
    struct block block = {.items = NULL};
    size_t n_items = 0;

    block.left = measure(environ, &n_items) + strlen(names) + strlen(tokens);
    n_items += OWN_TEXTS;
    block.items = cli_must(malloc(n_items * sizeof *block.items + block.left));
    block.text = (char *)(block.items + n_items);
    add_inherited(&block, environ);
    add_text(&block, "RQL_LOCK", names);
    add_text(&block, "RQL_TOKEN", tokens);
    block.items[block.count] = NULL;
    return block.items;
}
