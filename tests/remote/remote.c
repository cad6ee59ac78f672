#include "remote.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

void say(cJSON *line)
{
    char *text = cJSON_PrintUnformatted(line);

    if (text) {
        (void)pthread_mutex_lock(&output);
        (void)puts(text);
        (void)fflush(stdout);
        (void)pthread_mutex_unlock(&output);
    }
    free(text);
    cJSON_Delete(line);
}

static int64_t clock_us(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

void note_begin(cJSON *words)
{
    (void)cJSON_AddNumberToObject(words, "begun_us", (double)clock_us());
}

void answer_with(cJSON *reply, cJSON *words, rql_status status, const rql_error *error)
{
    const struct number numbers[] = {
        {"id", number_or(words, "id", 0)},
        {"status", status},
        {"took_us", clock_us() - number_or(words, "begun_us", 0)},
    };

    add_numbers(reply, numbers, sizeof numbers / sizeof numbers[0]);
    if (error && (status != RQL_OK || error->status != RQL_OK)) { /* RQL_OK leaves it unchanged */
        (void)cJSON_AddStringToObject(reply, "error", error->message);
        (void)cJSON_AddNumberToObject(reply, "error_status", error->status);
    }
    say(reply);
    cJSON_Delete(words);
}

void answer(cJSON *words, rql_status status, const rql_error *error)
{
    answer_with(cJSON_CreateObject(), words, status, error);
}

bool make_call(const struct call_row *rows, size_t count, struct actor *actor, cJSON *words)
{
    rql_client *client = actor ? actor_client(actor) : NULL;
    struct call call = {.actor = actor, .client = client, .words = words};

    for (size_t i = 0; i < count; i++) {
        if (strcmp(text_in(words, "do"), rows[i].name) == 0) {
            rql_status status;

            call.reply = cJSON_CreateObject();
            status = rows[i].run(&call);
            answer_with(call.reply, words, status, &call.error);
            return true;
        }
    }
    return false;
}

void add_text(cJSON *to, const char *name, const char *text)
{
    (void)cJSON_AddItemToObject(to, name, text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

void add_numbers(cJSON *to, const struct number *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        (void)cJSON_AddNumberToObject(to, numbers[i].name, (double)numbers[i].value);
    }
}

cJSON *texts_of(const rql_text_list *list)
{
    cJSON *texts = cJSON_CreateArray();

    for (size_t i = 0; list && i < list->count; i++) {
        (void)cJSON_AddItemToArray(texts, cJSON_CreateString(list->item[i]));
    }
    return texts;
}

void wrong(const cJSON *words, const char *what)
{
    char *text = cJSON_PrintUnformatted(words);

    (void)fprintf(stderr, "remote: %s: %s\n", what, text ? text : "no JSON");
    free(text);
    exit(2);
}

static void perform(cJSON *words)
{
    struct actor *actor =
        cJSON_HasObjectItem(words, "as") ? find_object(AN_ACTOR, words, "as") : NULL;
    bool is_known = true;

    if (!actor) {
        note_begin(words);
        is_known = perform_here(words);
    } else if (actor_loop(actor)) {
        note_begin(words);
        is_known = perform_on_loop(actor, words);
    } else {
        actor_give(actor, words);
    }
    if (!is_known) {
        wrong(words, "no such call");
    }
}

static bool read_line(char **line, size_t *size)
{
    bool has_line;

    exempt_thread(true);
    has_line = getline(line, size, stdin) > 0;
    exempt_thread(false);
    return has_line;
}

/* The end of the input is the end of the test. What is left then is a mistake of the test if all
 * went well, for the sanitizers look for leaks; so that is said. */
int main(void)
{
    char *line = NULL;
    size_t size = 0;

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    prepare_scarcity();
    while (read_line(&line, &size)) {
        cJSON *words = cJSON_Parse(line);

        if (!words) {
            wrong(NULL, line);
        }
        perform(words);
    }
    free(line);
    free_past_holds();
    if (count_objects() > 0) {
        (void)fprintf(stderr, "remote: %d objects are left\n", count_objects());
        _Exit(3); /* threads may wait, and nobody will end them */
    }
    return 0;
}
