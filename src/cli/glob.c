#include "format.h"

#include <fnmatch.h>
#include <string.h>

/* The last character of what stands at this place within "[...]": one character, "\]" or
 * "[:alpha:]". NULL: the latter has no end. */
static const char *find_item_end(const char *at)
{
    if (*at == '[' && at[1] != '\0' && strchr(":.=", at[1])) {
        const char close[] = {at[1], ']', '\0'};
        const char *end = strstr(at + 2, close);

        return end ? end + 1 : NULL;
    }
    return *at == '\\' && at[1] != '\0' ? at + 1 : at;
}

/* The end of "[...]", or NULL if it has none. A "]" at its beginning is a letter. */
static const char *find_bracket_end(const char *glob)
{
    const char *at = glob + 1;

    at += *at == '!' || *at == '^';
    at += *at == ']';
    while (*at != ']' && *at != '\0') {
        at = find_item_end(at);
        if (!at) {
            return NULL;
        }
        at++;
    }
    return *at == ']' ? at : NULL;
}

bool cli_glob_is_valid(const char *glob)
{
    for (const char *at = glob; *at != '\0'; at++) {
        if (*at == '[') {
            at = find_bracket_end(at);
        } else if (*at == '\\') {
            at = at[1] != '\0' ? at + 1 : NULL;
        }
        if (!at) {
            return false;
        }
    }
    return true;
}

/* All names come from the server and are matched here: the patterns of Redis differ from those of
 * the shell, which users know. '?' is a character of UTF-8, and one byte of what is no UTF-8 (the C
 * library tries bytes as well where characters do not match). No FNM_PATHNAME: in names of locks a
 * '/' is a letter. */
bool cli_glob_matches(const char *glob, const char *name)
{
    const locale_t utf8 = cli_utf8();
    const locale_t before = utf8 ? uselocale(utf8) : NULL;
    const bool matches = !glob || fnmatch(glob, name, 0) == 0;

    if (utf8) {
        (void)uselocale(before);
    }
    return matches;
}
