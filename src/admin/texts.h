#ifndef RQLI_TEXTS_H
#define RQLI_TEXTS_H

/* Texts of unknown number, laid out at the end in the one allocation of a list. Zero is empty. */

#include <rql/client.h>
#include <stdbool.h>

struct rqli_texts {
    char **item;
    size_t count;
    size_t capacity;
    bool failed; /* out of memory: some are missing */
};

void rqli_texts_fini(struct rqli_texts *self);

static inline void rqli_texts_fini_p(struct rqli_texts *self)
{
    rqli_texts_fini(self);
}

void rqli_texts_add(struct rqli_texts *self, const char *text); /* copied */

/* Sorts, and keeps each once. */
void rqli_texts_sort(struct rqli_texts *self);
bool rqli_texts_has(const struct rqli_texts *self, const char *text); /* sorted ones */

/* The texts end here, whatever becomes of the list. */
rql_status rqli_texts_give(struct rqli_texts *self, rql_text_list **out, rql_error *error);

#endif
