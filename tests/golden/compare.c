#include "golden.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>

bool compare_fail(struct comparison *self, const char *path, const char *format, ...)
{
    int used = snprintf(self->why, sizeof self->why, "%s: ", path);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(self->why + used, sizeof self->why - (size_t)used, format, args);
    va_end(args);
    return false;
}

bool compare_differs(struct comparison *self, const char *path, const cJSON *recorded,
                     const cJSON *replayed)
{
    char *was = cJSON_PrintUnformatted(recorded);
    char *is = cJSON_PrintUnformatted(replayed);

    (void)compare_fail(self, path, "recorded %.900s, replayed %.900s", was ? was : "nothing",
                       is ? is : "nothing");
    cJSON_free(was);
    cJSON_free(is);
    return false;
}

static bool compare_time(struct comparison *self, double recorded, double replayed)
{
    return names_match_time(&self->world->names, recorded, replayed, self->now_s);
}

bool compare_text(struct comparison *self, const char *recorded, const char *replayed)
{
    double was;
    double is;

    if (strcmp(recorded, "*") == 0) {
        return true; /* by differences.json */
    }
    if (names_is_id(recorded)) {
        return names_match_id(&self->world->names, recorded, replayed);
    }
    if (names_time_of(recorded, self->at_s, &was)) {
        return names_time_of(replayed, self->now_s, &is) && compare_time(self, was, is);
    }
    return strcmp(recorded, replayed) == 0;
}

static bool compare_number(struct comparison *self, const char *name, double recorded,
                           double replayed)
{
    if (strstr(name, "_time")) {
        return replayed >= 0; /* how long it took, in ms */
    }
    if (strcmp(name, "rem_ttl") == 0) {
        return replayed > 0 && fabs(replayed - recorded) < (double)(1000 * wait_slowness());
    }
    if (names_is_time(recorded, self->at_s)) {
        return compare_time(self, recorded, replayed);
    }
    return recorded == replayed;
}

static bool compare_members(struct comparison *self, const char *path, const cJSON *recorded,
                            const cJSON *replayed)
{
    const cJSON *was;
    const cJSON *is = replayed->child;
    char inner[GOLDEN_TEXT_SIZE / 4];

    if (cJSON_GetArraySize(recorded) != cJSON_GetArraySize(replayed)) {
        return compare_differs(self, path, recorded, replayed);
    }
    cJSON_ArrayForEach(was, recorded)
    {
        if (cJSON_IsObject(recorded)) {
            is = cJSON_GetObjectItemCaseSensitive(replayed, was->string);
        }
        (void)snprintf(inner, sizeof inner, "%.400s/%.80s", path, was->string ? was->string : "");
        if (!compare_value(self, inner, was, is)) {
            return false;
        }
        is = is->next;
    }
    return true;
}

bool compare_value(struct comparison *self, const char *path, const cJSON *recorded,
                   const cJSON *replayed)
{
    const char *name = strrchr(path, '/');
    bool is_same = false;

    if (cJSON_IsString(recorded) && strcmp(recorded->valuestring, "*") == 0) {
        return true; /* by differences.json */
    }
    if (!replayed || (recorded->type & 0xff) != (replayed->type & 0xff)) {
        return compare_differs(self, path, recorded, replayed);
    }
    if (cJSON_IsObject(recorded) || cJSON_IsArray(recorded)) {
        return compare_members(self, path, recorded, replayed);
    }
    if (cJSON_IsString(recorded)) {
        is_same = compare_text(self, recorded->valuestring, replayed->valuestring);
    } else if (cJSON_IsNumber(recorded)) {
        is_same = compare_number(self, name ? name + 1 : path, recorded->valuedouble,
                                 replayed->valuedouble);
    } else {
        is_same = true; /* of the same type: null, true, false */
    }
    return is_same || compare_differs(self, path, recorded, replayed);
}

/* Blanks the digits behind every rem_ttl. */
static void forget_ttl(char text[GOLDEN_TEXT_SIZE])
{
    static const char mark[] = "\"rem_ttl\"=>";
    char *at = text;

    while ((at = strstr(at, mark)) != NULL) {
        char *digits = at + sizeof mark - 1;
        size_t count = strspn(digits, "0123456789");

        (void)memmove(digits, digits + count, strlen(digits + count) + 1);
        at = digits;
    }
}

/* Words are compared where they are the gem's own; others are Ruby's or the server's. */
static bool compare_error(struct comparison *self, const cJSON *recorded, const cJSON *replayed)
{
    const cJSON *was = cJSON_GetObjectItem(recorded, "message");
    const cJSON *is = cJSON_GetObjectItem(replayed, "message");
    char expected[GOLDEN_TEXT_SIZE];
    char got[GOLDEN_TEXT_SIZE];

    if (!compare_value(self, "error/class", cJSON_GetObjectItem(recorded, "class"),
                       cJSON_GetObjectItem(replayed, "class"))) {
        return false;
    }
    if (!was || !is) {
        return true;
    }
    names_translate(&self->world->names, was->valuestring, expected);
    (void)snprintf(got, sizeof got, "%s", is->valuestring);
    forget_ttl(expected);
    forget_ttl(got);
    return strcmp(expected, got) == 0 ||
           compare_fail(self, "error/message", "expected %.900s, got %.900s", expected, got);
}

static bool compare_nested(struct comparison *self, const cJSON *recorded, const cJSON *replayed)
{
    int n = cJSON_GetArraySize(recorded);

    if (n != cJSON_GetArraySize(replayed)) {
        return compare_differs(self, "nested", recorded, replayed);
    }
    for (int i = 0; i < n; i++) {
        if (!compare_outcome(self, cJSON_GetArrayItem(recorded, i),
                             cJSON_GetArrayItem(replayed, i))) {
            return false;
        }
    }
    return true;
}

bool compare_outcome(struct comparison *self, const cJSON *recorded, const cJSON *replayed)
{
    const cJSON *was = cJSON_GetObjectItem(recorded, "error");
    const cJSON *is = cJSON_GetObjectItem(replayed, "error");

    if (!is != !was) {
        return compare_differs(self, "outcome", was ? was : cJSON_GetObjectItem(recorded, "result"),
                               replayed);
    }
    if (was && !compare_error(self, was, is)) {
        return false;
    }
    if (!was && !compare_value(self, "result", cJSON_GetObjectItem(recorded, "result"),
                               cJSON_GetObjectItem(replayed, "result"))) {
        return false;
    }
    return compare_nested(self, cJSON_GetObjectItem(recorded, "nested"),
                          cJSON_GetObjectItem(replayed, "nested"));
}
