#ifndef TAPE_H
#define TAPE_H

/* Records what a client tells: the names of lines and events in the order that they came, from
 * whatever thread, and the last event of each kind. The same line several times on end is one: how
 * often the server is asked while waiting is up to the clock. */

#include "fixture.h"

enum {
    TAPE_MAX = 64,
    TAPE_NAME_SIZE = 80,
    TAPE_EVENTS = RQL_EVENT_SWARM_ZOMBIES_FLUSHED + 1,
    TAPE_TEXT_SIZE = 160
};

struct tape_event {
    rql_event event; /* its texts are those below */
    char lock_key[TAPE_TEXT_SIZE];
    char acq_id[TAPE_TEXT_SIZE];
    char hst_id[TAPE_TEXT_SIZE];
    char lock_keys[TAPE_TEXT_SIZE]; /* with blanks between them */
    pthread_t thread;
    int count;
};

struct tape {
    pthread_mutex_t mutex;
    char names[TAPE_MAX][TAPE_NAME_SIZE];
    size_t n_names;
    size_t n_checked;
    struct tape_event events[TAPE_EVENTS];
};

static inline void tape_init(struct tape *self)
{
    *self = (struct tape){.n_names = 0};
    (void)pthread_mutex_init(&self->mutex, NULL);
}

/* Under the mutex. */
static inline void tape_add(struct tape *self, const char *kind, const char *name)
{
    char entry[TAPE_NAME_SIZE];

    (void)snprintf(entry, sizeof entry, "%s%s", kind, name);
    if (self->n_names > 0 && strcmp(self->names[self->n_names - 1], entry) == 0) {
        return;
    }
    if (self->n_names == TAPE_MAX) {
        abort(); /* not of cmocka's thread perhaps: nothing to jump to */
    }
    memcpy(self->names[self->n_names++], entry, sizeof entry);
}

static inline void tape_log(const rql_log_record *record, void *user_data)
{
    struct tape *self = user_data;

    (void)pthread_mutex_lock(&self->mutex);
    tape_add(self, "", record->name);
    (void)pthread_mutex_unlock(&self->mutex);
}

static inline const char *tape_copy(char *out, const char *text)
{
    (void)snprintf(out, TAPE_TEXT_SIZE, "%s", text ? text : "");
    return text ? out : NULL;
}

static inline void tape_event(const rql_event *event, void *user_data)
{
    struct tape *self = user_data;
    struct tape_event *kept = &self->events[event->kind];

    (void)pthread_mutex_lock(&self->mutex);
    tape_add(self, "! ", strchr(event->name, '.') + 1);
    kept->event = *event;
    kept->event.lock_key = tape_copy(kept->lock_key, event->lock_key);
    kept->event.acq_id = tape_copy(kept->acq_id, event->acq_id);
    kept->event.hst_id = tape_copy(kept->hst_id, event->hst_id);
    kept->lock_keys[0] = '\0';
    for (size_t i = 0; i < event->n_lock_keys; i++) {
        size_t length = strlen(kept->lock_keys);

        (void)snprintf(kept->lock_keys + length, TAPE_TEXT_SIZE - length, "%s ",
                       event->lock_keys[i]);
    }
    kept->thread = pthread_self();
    kept->count++;
    (void)pthread_mutex_unlock(&self->mutex);
}

/* A client that is recorded, with sampling off. */
static inline rql_client *tape_client(struct tape *self)
{
    rql_options options = client_options();

    options.logger = tape_log;
    options.logger_data = self;
    options.instrumenter = tape_event;
    options.instrumenter_data = self;
    return new_client_with(&options);
}

/* What comes next: lines as they are, events after "! ". */
static inline void tape_check(struct tape *self, const char *expected)
{
    (void)pthread_mutex_lock(&self->mutex);
    if (self->n_checked == self->n_names) {
        fail_msg("%s did not come", expected);
    }
    assert_string_equal(self->names[self->n_checked], expected);
    self->n_checked++;
    (void)pthread_mutex_unlock(&self->mutex);
}

/* What has come so far is of no interest. */
static inline void tape_skip(struct tape *self)
{
    (void)pthread_mutex_lock(&self->mutex);
    self->n_names = 0;
    self->n_checked = 0;
    (void)pthread_mutex_unlock(&self->mutex);
}

static inline void tape_check_end(struct tape *self)
{
    (void)pthread_mutex_lock(&self->mutex);
    if (self->n_checked < self->n_names) {
        fail_msg("%s came too", self->names[self->n_checked]);
    }
    (void)pthread_mutex_unlock(&self->mutex);
}

struct tape_wish {
    struct tape *tape;
    rql_event_kind kind;
};

static inline bool tape_has(void *data)
{
    struct tape_wish *wish = data;
    bool has;

    (void)pthread_mutex_lock(&wish->tape->mutex);
    has = wish->tape->events[wish->kind].count > 0;
    (void)pthread_mutex_unlock(&wish->tape->mutex);
    return has;
}

static inline void tape_await(struct tape *self, rql_event_kind kind)
{
    struct tape_wish wish = {self, kind};

    assert_true(wait_until(tape_has, &wish, AWAIT_MS));
}

#endif
