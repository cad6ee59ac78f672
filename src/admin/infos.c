#include "admin/infos.h"

#include "base/result.h"

#include <stdlib.h>

enum { FIRST_ITEMS = 64 };

/* What each list begins with. */
struct list {
    size_t count;
    void **item;
};

void rqli_infos_add(struct rqli_infos *self, void *info)
{
    /* The array is full at each power of two. */
    const bool is_full = self->count >= FIRST_ITEMS && (self->count & (self->count - 1)) == 0;
    void **item = self->item;

    if (info && (self->count == 0 || is_full)) {
        item = reallocarray(item, self->count == 0 ? FIRST_ITEMS : 2 * self->count, sizeof *item);
        self->item = item ? item : self->item;
    }
    if (!info || !item) {
        (void)rql_free(info);
        self->failed = true;
        return;
    }
    self->item[self->count++] = info;
}

void *rqli_infos_give(struct rqli_infos *self, size_t list_size, rqli_infos_fn *order,
                      rqli_infos_fn *same)
{
    struct list *list =
        self->failed ? NULL : rqli_result_new(list_size + self->count * sizeof(void *));

    if (list && self->count > 0) {
        list->item = (void **)(void *)((char *)list + list_size);
        qsort(self->item, self->count, sizeof(void *), order);
    }
    for (size_t i = 0; list && i < self->count; i++) {
        void *info = self->item[i];

        if (list->count > 0 && same(&list->item[list->count - 1], &info) == 0) {
            (void)rql_free(info);
        } else {
            list->item[list->count++] = info;
            rqli_result_adopt(list, info);
        }
    }
    if (list) {
        self->count = 0;
    }
    rqli_infos_fini_p(self);
    return list;
}

void rqli_infos_fini_p(struct rqli_infos *self)
{
    for (size_t i = 0; i < self->count; i++) {
        (void)rql_free(self->item[i]);
    }
    free(self->item);
    *self = (struct rqli_infos){0};
}
