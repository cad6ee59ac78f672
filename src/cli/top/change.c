#include "change.h"

#include "format.h"
#include "messages.h"
#include "sheet.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MOST = 100 /* columns of a name in a question */ };

__attribute__((format(printf, 1, 2))) static char *format(const char *text, ...)
{
    char *out = NULL;
    va_list arguments;

    va_start(arguments, text);
    if (vasprintf(&out, text, arguments) < 0) {
        cli_die_nomem();
    }
    va_end(arguments);
    return out;
}

static struct top_change *new_change(enum top_change_kind kind, const char *name,
                                     const char *acquirer_id)
{
    struct top_change *self = cli_must(calloc(1, sizeof *self));

    self->kind = kind;
    self->name = cli_must(strdup(name));
    self->acquirer_id = cli_must(strdup(acquirer_id ? acquirer_id : ""));
    return self;
}

/* Returns the word as a shell reads it. */
static char *quote(const char *word)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out;

    if (*word != '\0' &&
        strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                     "_-./:@%+,=") == strlen(word)) {
        return cli_must(strdup(word));
    }
    out = cli_must(open_memstream(&text, &size));
    (void)fputc('\'', out);
    for (; *word != '\0'; word++) {
        (void)(*word == '\'' ? fputs("'\\''", out) : fputc(*word, out));
    }
    (void)fputc('\'', out);
    return cli_must(fclose(out) == 0 ? text : NULL);
}

/* Writes the name of a lock for a question, which has to leave room for the answers. */
static const char *write_name(char out[TOP_LINE_SIZE], const char *name)
{
    const size_t width = top_shown_width(name);

    out[0] = '\0';
    top_put(out, name, width < NAME_MOST ? width : NAME_MOST);
    return out;
}

struct top_change *top_change_end_grant(const struct top_look *look, const struct top_row *row,
                                        const rql_holder_info *holder)
{
    struct top_change *self = new_change(TOP_END_GRANT, row->name, holder->acquirer_id);
    CLI_AUTO(cli_free) char *word = quote(row->name);
    char lock[TOP_LINE_SIZE];
    char name[CLI_NAME_SIZE];
    char held[CLI_DURATION_SIZE];

    self->token = holder->token;
    self->question =
        format("unlock %s? %s has held it for %s and %lld wait%s. It is not told before its next "
               "renewal.",
               write_name(lock, row->name), cli_holder_name(&look->names, holder, name),
               cli_format_duration(cli_age_ms(holder->acquired_at_us, look->server_us), held),
               (long long)row->waiting, row->waiting == 1 ? "s" : "");
    self->progress = format("%s: being unlocked ...", row->name);
    if (top_shown_width(row->name) <= NAME_MOST) {
        self->command =
            format("rql unlock --force --token %lld -- %s", (long long)holder->token, word);
    }
    return self;
}

struct top_change *top_change_remove_request(const struct top_look *look, const struct top_row *row,
                                             const rql_request_info *request)
{
    struct top_change *self = new_change(TOP_REMOVE_REQUEST, row->name, request->acquirer_id);
    char lock[TOP_LINE_SIZE];
    char name[CLI_NAME_SIZE];
    char waited[CLI_DURATION_SIZE];

    self->question =
        format("remove the request of %s for %s? It has waited for %s. If its program is alive, it "
               "takes its place again.",
               cli_request_name(&look->names, request, name), write_name(lock, row->name),
               cli_format_duration(cli_age_ms(request->score_us, look->server_us), waited));
    self->progress = format("%s: the request is being removed ...", row->name);
    return self;
}

void top_change_make(struct top_change *self, rql_client *client)
{
    const bool is_grant = self->kind == TOP_END_GRANT;
    rql_error error = {.status = RQL_OK};
    const rql_status status =
        is_grant ? rql_lock_end_grant(client, self->name, self->token, &error)
                 : rql_request_remove(client, self->name, self->acquirer_id, &error);

    self->status = status;
    if (status < 0) {
        self->result = format("%s", error.message);
    } else if (is_grant) {
        self->result = status == RQL_OK ? format("%s: that grant was ended", self->name)
                                        : format("%s: that grant had ended already; nothing was "
                                                 "changed",
                                                 self->name);
    } else {
        self->result = status == RQL_OK ? format("%s: the request was removed", self->name)
                                        : format("%s: the request had gone already", self->name);
    }
}

void top_change_say_unanswered(const struct top_change *self, bool is_begun)
{
    const bool is_grant = self->kind == TOP_END_GRANT;

    if (is_begun) {
        cli_say_nowait("%s: no answer: it is not known whether %s", self->name,
                       is_grant ? "it was unlocked" : "the request was removed");
    } else {
        cli_say_nowait("%s: no answer: %s", self->name,
                       is_grant ? "not unlocked" : "the request was not removed");
    }
}

void top_change_free(struct top_change *self)
{
    if (self) {
        free(self->name);
        free(self->acquirer_id);
        free(self->question);
        free(self->command);
        free(self->progress);
        free(self->result);
        free(self);
    }
}

/* Sends what a change sends, in a form that does nothing: the server looks at rights before
 * arguments. */
bool top_may_change(struct cli_session *session)
{
    static const char *const scripts[] = {"EVALSHA", "0000000000000000000000000000000000000000",
                                          "1", "rql:lock:rql-top"};
    static const char *const writes[] = {"HDEL", "rql:lock:rql-top", "-"};
    const rql_command commands[] = {{.argc = 4, .argv = scripts}, {.argc = 3, .argv = writes}};
    bool may = !session->args->read_only;

    for (size_t i = 0; may && i < sizeof commands / sizeof commands[0]; i++) {
        CLI_AUTO(rql_free) rql_reply *reply = NULL;

        may = rql_client_command(session->client, 0, &commands[i], &reply, NULL) == RQL_OK &&
              !(rql_reply_get_type(reply) == RQL_REPLY_ERROR &&
                strstr(rql_reply_text(reply, NULL), "NOPERM"));
    }
    return may;
}
