#ifndef JSON_H
#define JSON_H

/* Is a text one JSON value in valid UTF-8, and nothing else? */

#include <cJSON.h>
#include <locale.h>
#include <stdlib.h>

static inline bool is_json(const char *text)
{
    cJSON *value = cJSON_ParseWithOpts(text, NULL, true);
    bool is_good = value && setlocale(LC_CTYPE, "C.UTF-8") && mbstowcs(NULL, text, 0) != (size_t)-1;

    for (const char *at = text; *at; at++) { /* cJSON takes control bytes as they are */
        is_good = is_good && (unsigned char)*at >= ' ';
    }
    cJSON_Delete(value);
    return is_good;
}

#endif
