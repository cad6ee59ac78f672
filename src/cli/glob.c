#include "format.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

/* Returns the last character of the item at this place within "[...]": a single character, "\]" or
 * "[:alpha:]". Returns NULL if a "[:" has no end. */
static const char *find_item_end(const char *at)
{
    if (*at == '[' && at[1] != '\0' && strchr(":.=", at[1])) {
        const char close[] = {at[1], ']', '\0'};
        const char *end = strstr(at + 2, close);

        return end ? end + 1 : NULL;
    }
    return *at == '\\' && at[1] != '\0' ? at + 1 : at;
}

/* Returns the end of "[...]", or NULL if it has none. A "]" at its beginning is an ordinary
 * character. */
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

/* All names are read from the server and matched here, because the patterns of Redis differ from
 * those of the shell, which users know. '?' matches a character of UTF-8, or one byte of a text
 * that is not UTF-8, which musl matches only in a locale of bytes. FNM_PATHNAME is not set: in
 * names of locks a '/' is an ordinary character. */
bool cli_glob_matches(const char *glob, const char *name)
{
    const locale_t utf8 = cli_utf8();
    const locale_t before = utf8 ? uselocale(utf8) : NULL;
    const bool matches = !glob || fnmatch(glob, name, 0) == 0;
    const bool is_utf8 = matches || mbstowcs(NULL, name, 0) != (size_t)-1;

    if (utf8) {
        (void)uselocale(before);
    }
    return matches || (!is_utf8 && fnmatch(glob, name, 0) == 0);
}
