#include "admin/texts.h"

#include "base/error.h"
#include "wire/pack.h"

#include <stdlib.h>

void rqli_texts_fini(struct rqli_texts *self)
{
    for (size_t i = 0; i < self->count; i++) {
        free(self->item[i]);
    }
    free(self->item);
    *self = (struct rqli_texts){0};
}

void rqli_texts_add(struct rqli_texts *self, const char *text)
{
    if (self->count == self->capacity) {
        size_t capacity = self->capacity > 0 ? 2 * self->capacity : 16;
        char **item = realloc(self->item, capacity * sizeof *item);

        if (!item) {
            self->failed = true;
            return;
        }
        self->item = item;
        self->capacity = capacity;
    }
    self->item[self->count] = strdup(text);
    if (self->item[self->count]) {
        self->count++;
    } else {
        self->failed = true;
    }
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void rqli_texts_sort(struct rqli_texts *self)
{
    size_t kept = 0;

    if (self->count == 0) {
        return;
    }
    qsort(self->item, self->count, sizeof *self->item, compare);
    for (size_t i = 1; i < self->count; i++) {
        if (strcmp(self->item[i], self->item[kept]) == 0) {
            free(self->item[i]);
        } else {
            self->item[++kept] = self->item[i];
        }
    }
    self->count = kept + 1;
}

bool rqli_texts_has(const struct rqli_texts *self, const char *text)
{
    return self->count > 0 &&
           bsearch(&text, self->item, self->count, sizeof *self->item, compare) != NULL;
}

static rql_status lay_out(const struct rqli_texts *self, rql_text_list **out, rql_error *error)
{
    size_t size = sizeof **out + self->count * sizeof(char *);
    rql_text_list *list;
    char *cursor;

    for (size_t i = 0; i < self->count; i++) {
        size += strlen(self->item[i]) + 1;
    }
    list = self->failed ? NULL : malloc(size);
    if (!list) {
        return rqli_fail_nomem(error);
    }
    list->count = self->count;
    list->item = (const char **)(list + 1);
    cursor = (char *)(list->item + list->count);
    for (size_t i = 0; i < self->count; i++) {
        list->item[i] = rqli_pack(&cursor, rqli_slice_of(self->item[i]));
    }
    *out = list;
    return RQL_OK;
}

rql_status rqli_texts_give(struct rqli_texts *self, rql_text_list **out, rql_error *error)
{
    rql_status status = lay_out(self, out, error);

    rqli_texts_fini(self);
    return status;
}
