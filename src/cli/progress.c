#include "progress.h"

#include "format.h"
#include "messages.h"
#include "names.h"
#include "signals.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* PAUSE_TIMES: the pause after reading the queue, as a multiple of the time that reading took: long
 * queues are expensive to read. */
enum { EVERY_MS = 1000, PAUSE_TIMES = 10, LINE_SIZE = 1024, HOLDER_SIZE = 512 };

struct cli_progress {
    struct cli_args args; /* a copy, because the thread may outlive the original */
    char identity[RQL_ID_SIZE];
    rql_client *client;
    struct cli_names names;
    char holder[RQL_ID_SIZE]; /* the holder whose name was looked up last */
    int64_t first_place;      /* 0: none yet */
    int64_t first_ms;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool is_over;   /* the line is no longer needed */
    bool has_ended; /* the thread has ended; the last of both sides frees this */
};

/* ---- the line ---- */

/* Returns the place of this program's only request; 0 if it is in no queue. */
static int64_t place_in(const struct cli_progress *self, const rql_queue_info *queue)
{
    for (size_t i = 0; queue && i < queue->n_requests; i++) {
        const char *slash = strrchr(queue->requests[i]->acquirer_id, '/');

        if (slash && strcmp(slash + 1, self->identity) == 0) {
            return queue->requests[i]->position;
        }
    }
    return 0;
}

/* Estimates the wait from the speed of the queue since the first look; -1 if it has not moved. A
 * waiter that was put in front of this one starts the estimate again. */
static int64_t expected_ms(struct cli_progress *self, int64_t place)
{
    const int64_t now_ms = cli_now_ms();
    const int64_t moved = self->first_place - place;

    if (self->first_place == 0 || moved < 0) {
        self->first_place = place;
        self->first_ms = now_ms;
        return -1;
    }
    return moved > 0 ? place * (now_ms - self->first_ms) / moved : -1;
}

/* Describes the holder. Names are read again when the holder has changed and is not known. */
static void describe_holder(struct cli_progress *self, const rql_lock_info *info,
                            char out[HOLDER_SIZE])
{
    struct cli_session session = {.args = &self->args, .client = self->client};
    char name[CLI_NAME_SIZE];
    char held[CLI_DURATION_SIZE];

    if (!info || !info->acquirer_id) {
        (void)snprintf(out, HOLDER_SIZE, "held by no client");
        return;
    }
    if (info->is_kept) {
        (void)snprintf(out, HOLDER_SIZE, "kept after its release");
        return;
    }
    if (cli_is_of_several(info)) {
        (void)snprintf(out, HOLDER_SIZE, "shared by %lld", (long long)info->n_holders);
        return;
    }
    if (strcmp(self->holder, info->acquirer_id) != 0 &&
        !rql_clients_find(self->names.clients, info->acquirer_id)) {
        cli_names_free_p(&self->names);
        cli_names_read(&self->names, &session);
    }
    (void)snprintf(self->holder, sizeof self->holder, "%s", info->acquirer_id);
    (void)snprintf(out, HOLDER_SIZE, "held by %s for %s", cli_lock_holder(&self->names, info, name),
                   cli_format_duration(cli_age_ms(info->acquired_at_us, info->server_us), held));
}

/* Reads the queue and writes the line. Returns false if the server did not answer, or the request
 * is not in the queue yet. */
static bool look(struct cli_progress *self, char line[LINE_SIZE])
{
    CLI_AUTO(rql_free) rql_lock_info *info = NULL;
    CLI_AUTO(rql_free) rql_queue_info *queue = NULL;
    char holder[HOLDER_SIZE];
    char duration[CLI_DURATION_SIZE];
    int64_t place;
    int64_t wait_ms;

    if (rql_lock_inspect(self->client, self->args.name, &info, NULL) < 0 ||
        rql_queue_inspect(self->client, self->args.name, &queue, NULL) < 0) {
        return false;
    }
    place = place_in(self, queue);
    if (place == 0) {
        return false;
    }
    wait_ms = expected_ms(self, place);
    describe_holder(self, info, holder);
    (void)snprintf(line, LINE_SIZE, "%s: place %lld of %zu; %s; expected wait %s", self->args.name,
                   (long long)place, queue->n_requests, holder,
                   wait_ms >= 0 ? cli_format_duration(wait_ms, duration) : "?");
    return true;
}

/* ---- the thread ---- */

/* Waits until the time or the wait is over. Caller holds self->mutex. Returns true if the wait is
 * over. */
static bool wait_over(struct cli_progress *self, int64_t ms)
{
    const struct timespec time = cli_timespec(ms);
    struct timespec end;

    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_nsec += time.tv_nsec;
    end.tv_sec += time.tv_sec + end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    while (!self->is_over && pthread_cond_timedwait(&self->changed, &self->mutex, &end) == 0) {
    }
    return self->is_over;
}

/* Returns whether this program is in the foreground. In the background the terminal belongs to
 * another group. */
static bool has_terminal(void)
{
    return tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static void show_until_over(struct cli_progress *self)
{
    char line[LINE_SIZE];
    int64_t begun_ms;
    int64_t pause_ms;
    bool is_known;

    do {
        (void)pthread_mutex_unlock(&self->mutex);
        begun_ms = cli_now_ms();
        is_known = look(self, line);
        pause_ms = is_known ? PAUSE_TIMES * (cli_now_ms() - begun_ms) : EVERY_MS;
        (void)pthread_mutex_lock(&self->mutex);
        if (!self->is_over && has_terminal()) {
            cli_rewrite_line(is_known ? line : NULL);
        }
    } while (!wait_over(self, pause_ms > EVERY_MS ? pause_ms : EVERY_MS));
}

static void drop(struct cli_progress *self)
{
    (void)pthread_cond_destroy(&self->changed);
    (void)pthread_mutex_destroy(&self->mutex);
    free(self);
}

static void *run(void *argument)
{
    struct cli_progress *self = argument;
    bool is_last;

    (void)pthread_mutex_lock(&self->mutex);
    if (rql_client_new(&self->args.options, &self->client, NULL) == RQL_OK) {
        show_until_over(self);
    }
    (void)pthread_mutex_unlock(&self->mutex);
    cli_names_free_p(&self->names);
    self->client = rql_client_free(self->client);
    (void)pthread_mutex_lock(&self->mutex);
    self->has_ended = true;
    is_last = self->is_over;
    (void)pthread_mutex_unlock(&self->mutex);
    if (is_last) {
        drop(self);
    }
    return NULL;
}

/* Starts the thread, which is not joined. */
static bool start_thread(struct cli_progress *self)
{
    pthread_t thread;

    return cli_start_thread(&thread, run, self) && pthread_detach(thread) == 0;
}

struct cli_progress *cli_progress_start(const struct cli_session *session)
{
    const char *terminal = secure_getenv("TERM");
    pthread_condattr_t attributes;
    struct cli_progress *self;

    if (!isatty(STDERR_FILENO) || !terminal || strcmp(terminal, "dumb") == 0) {
        return NULL;
    }
    self = cli_must(calloc(1, sizeof *self));
    self->args = *session->args;
    self->args.options.client_names = false;
    self->args.options.auto_swarm = false;
    self->args.options.logger = NULL;
    (void)snprintf(self->identity, sizeof self->identity, "%s",
                   rql_client_identity(session->client));
    (void)pthread_mutex_init(&self->mutex, NULL);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&self->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    if (!start_thread(self)) {
        drop(self);
        return NULL;
    }
    return self;
}

void cli_progress_end(struct cli_progress *self)
{
    bool is_last;

    if (!self) {
        return;
    }
    (void)pthread_mutex_lock(&self->mutex);
    self->is_over = true;
    is_last = self->has_ended;
    cli_rewrite_line(NULL);
    (void)pthread_cond_signal(&self->changed);
    (void)pthread_mutex_unlock(&self->mutex);
    if (is_last) {
        drop(self);
    }
}
