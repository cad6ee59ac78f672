#include "remote.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The lines that a thread is given wait in a queue. */
struct item {
    struct item *next;
    cJSON *words;
};

struct actor {
    rql_client *client;
    rql_loop *loop;
    pthread_t thread;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct item *first; /* these under the mutex */
    struct item **last;
    bool is_ending;
};

static cJSON *take_words(struct actor *self)
{
    struct item *item;
    cJSON *words = NULL;

    (void)pthread_mutex_lock(&self->mutex);
    while (!self->first && !self->is_ending) {
        (void)pthread_cond_wait(&self->changed, &self->mutex);
    }
    item = self->first;
    if (item) {
        words = item->words;
        self->first = item->next;
        if (!self->first) {
            self->last = &self->first;
        }
    }
    (void)pthread_mutex_unlock(&self->mutex);
    free(item);
    return words;
}

bool actor_work(struct actor *self, int *value_out)
{
    cJSON *words = take_words(self);

    while (words) {
        note_begin(words);
        if (strcmp(text_in(words, "do"), "leave") == 0) {
            *value_out = (int)number_or(words, "value", 0);
            answer(words, RQL_OK, NULL);
            return true;
        }
        if (!perform_on_thread(self, words)) {
            wrong(words, "no such call of a thread");
        }
        words = take_words(self);
    }
    return false;
}

static void *work(void *data)
{
    int value;

    if (actor_work(data, &value)) {
        wrong(NULL, "there is no block to leave");
    }
    return NULL;
}

struct actor *actor_new(rql_client *client, rql_loop *loop)
{
    struct actor *self = own_memory(sizeof *self);

    self->client = client;
    self->loop = loop;
    self->last = &self->first;
    (void)pthread_mutex_init(&self->mutex, NULL);
    (void)pthread_cond_init(&self->changed, NULL);
    exempt_thread(true);
    if (!loop && pthread_create(&self->thread, NULL, work, self) != 0) {
        wrong(NULL, "no thread");
    }
    exempt_thread(false);
    return self;
}

rql_client *actor_client(const struct actor *self)
{
    return self->client;
}

rql_loop *actor_loop(const struct actor *self)
{
    return self->loop;
}

void actor_give(struct actor *self, cJSON *words)
{
    struct item *item = own_memory(sizeof *item);

    item->words = words;
    (void)pthread_mutex_lock(&self->mutex);
    *self->last = item;
    self->last = &item->next;
    (void)pthread_cond_signal(&self->changed);
    (void)pthread_mutex_unlock(&self->mutex);
}

rql_status actor_end(struct actor *self, rql_error *error)
{
    rql_status status = RQL_OK;

    if (self->loop) {
        status = rql_loop_close(self->loop, NULL, NULL, error);
    } else {
        (void)pthread_mutex_lock(&self->mutex);
        self->is_ending = true;
        (void)pthread_cond_signal(&self->changed);
        (void)pthread_mutex_unlock(&self->mutex);
        (void)pthread_join(self->thread, NULL);
    }
    (void)pthread_cond_destroy(&self->changed);
    (void)pthread_mutex_destroy(&self->mutex);
    free(self);
    return status;
}
