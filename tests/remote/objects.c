#include "remote.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    struct entry *next;
    enum kind kind;
    char name[NAME_SIZE];
    void *object;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries; /* under the mutex */

/* Under the mutex: where the pointer to it is kept, or the pointer at the end. */
static struct entry **place_of(enum kind kind, const char *name)
{
    struct entry **at = &entries;

    while (*at && ((*at)->kind != kind || strcmp((*at)->name, name) != 0)) {
        at = &(*at)->next;
    }
    return at;
}

void add_object(enum kind kind, const cJSON *words, const char *member, void *object)
{
    const char *name = text_in(words, member);
    struct entry *entry = own_memory(sizeof *entry);
    bool is_new;

    if (strlen(name) >= NAME_SIZE) {
        wrong(words, "a long name");
    }
    entry->kind = kind;
    entry->object = object;
    (void)snprintf(entry->name, sizeof entry->name, "%s", name);
    (void)pthread_mutex_lock(&mutex);
    is_new = *place_of(kind, name) == NULL;
    entry->next = entries;
    entries = entry;
    (void)pthread_mutex_unlock(&mutex);
    if (!is_new) {
        wrong(words, "there is one of that name");
    }
}

static void *look_up(enum kind kind, const cJSON *words, const char *member, bool takes)
{
    const char *name = text_in(words, member);
    struct entry **place;
    struct entry *entry;
    void *object = NULL;

    (void)pthread_mutex_lock(&mutex);
    place = place_of(kind, name);
    entry = *place;
    if (entry) {
        object = entry->object;
    }
    if (entry && takes) {
        *place = entry->next;
        free(entry);
    }
    (void)pthread_mutex_unlock(&mutex);
    if (!object) {
        wrong(words, "there is none of that name");
    }
    return object;
}

void *find_object(enum kind kind, const cJSON *words, const char *member)
{
    return look_up(kind, words, member, false);
}

void *take_object(enum kind kind, const cJSON *words, const char *member)
{
    return look_up(kind, words, member, true);
}

int count_objects(void)
{
    int count = 0;

    (void)pthread_mutex_lock(&mutex);
    for (const struct entry *at = entries; at; at = at->next) {
        count++;
    }
    (void)pthread_mutex_unlock(&mutex);
    return count;
}
