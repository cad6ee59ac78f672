#include "net/login/client_name.h"

#include "base/clock.h"
#include "base/must.h"
#include "base/text.h"

#include <errno.h>
#include <inttypes.h>
#include <rql/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORD_SIZE = 64, USER_SIZE = 33, LINE_SIZE = 1024 };

/* Replaces quotes, backslashes and control bytes, so that a reader of the entry needs to know no
 * escapes and a terminal does not act on them. A long text is cut between characters. */
static void copy_plain(char *out, size_t size, const char *text)
{
    size_t length = 0;

    for (; *text && length + 1 < size; text++) {
        const unsigned char byte = (unsigned char)*text;
        const bool is_plain = byte >= 0x20 && byte != 0x7F && byte != '"' && byte != '\\';

        out[length++] = (char)(is_plain ? byte : '_');
    }
    while (length > 0 && rqli_continues_character(*text)) {
        text--;
        length--;
    }
    out[length] = '\0';
}

/* Copies a word of a connection's name: CLIENT SETNAME takes no blanks, and the colon is our
 * separator. */
static void copy_word(char *out, size_t size, const char *text)
{
    copy_plain(out, size, text);
    for (; *out; out++) {
        if (*out <= ' ' || *out > '~' || *out == ':') {
            *out = '_';
        }
    }
}

/* Finds the user's name in the passwd file of this machine, because getpwuid() may ask the
 * network. A line that is too long ends the search. */
static bool find_account(uid_t uid, char out[USER_SIZE])
{
    FILE *file = fopen("/etc/passwd", "re");
    char line[LINE_SIZE];
    bool is_found = false;

    while (file && !is_found && fgets(line, sizeof line, file) &&
           (strchr(line, '\n') || feof(file))) {
        char *rest = line;
        const char *name = strsep(&rest, ":");
        const char *number;
        int64_t id;

        (void)strsep(&rest, ":"); /* the password */
        number = strsep(&rest, ":");
        is_found = number && *name && rqli_parse_int(rqli_slice_of(number), &id) && id == uid;
        if (is_found) {
            copy_plain(out, USER_SIZE, name);
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return is_found;
}

/* Services, cron jobs and containers often have neither variable; then the account or the uid is
 * used. */
static void find_user(char out[USER_SIZE])
{
    const char *name = secure_getenv("USER");

    if (!name || !*name) {
        name = secure_getenv("LOGNAME");
    }
    if (name && *name) {
        copy_plain(out, USER_SIZE, name);
    } else if (!find_account(geteuid(), out)) {
        (void)snprintf(out, USER_SIZE, "uid %u", (unsigned)geteuid());
    }
}

void rqli_client_name_init(struct rqli_client_name *self, const struct rqli_key_set *set,
                           const char *identity, const char *label)
{
    char said[WORD_SIZE] = "";
    char host[WORD_SIZE];
    char word[WORD_SIZE];
    char program[WORD_SIZE];
    char user[USER_SIZE];
    char of_label[WORD_SIZE];

    (void)gethostname(said, sizeof said - 1);
    copy_plain(host, sizeof host, said);
    copy_word(word, sizeof word, said);
    copy_plain(program, sizeof program, program_invocation_short_name);
    copy_plain(of_label, sizeof of_label, label);
    find_user(user);
    self->of_commands = 'c';
    atomic_store_explicit(&self->due_us, INT64_MAX, memory_order_relaxed); /* until a login */
    self->identity = identity;
    self->keys = (struct rqli_keys){.set = set, .lock = set->clients};
    (void)snprintf(self->place, sizeof self->place, "%s:%d", word, (int)getpid());
    (void)snprintf(self->entry, sizeof self->entry,
                   ",\"host\":\"%s\",\"pid\":%d,\"program\":\"%s\",\"user\":\"%s\","
                   "\"version\":\"%s\",\"label\":\"%s\"}",
                   host, (int)getpid(), program, user, RQL_VERSION, of_label);
}

void rqli_client_name_add(struct rqli_client_name *self, const char *fields)
{
    const size_t length = strlen(self->entry) - 1; /* without the brace */

    RQLI_MUST(length + strlen(fields) + 2 <= sizeof self->entry);
    (void)snprintf(self->entry + length, sizeof self->entry - length, "%s}", fields);
}

/* Returns the part of the entry after this mark, or an empty text. */
static struct rqli_slice field_of(struct rqli_slice entry, const char *mark)
{
    const char *at = memmem(entry.data, entry.length, mark, strlen(mark));
    struct rqli_slice rest = {"", 0};

    if (at) {
        at += strlen(mark);
        rest = (struct rqli_slice){at, entry.length - (size_t)(at - entry.data)};
    }
    return rest;
}

int64_t rqli_client_entry_number(struct rqli_slice entry, const char *mark)
{
    const struct rqli_slice rest = field_of(entry, mark);
    int64_t value;

    return rqli_parse_int((struct rqli_slice){rest.data, rqli_slice_before(rest, ",}")}, &value)
               ? value
               : -1;
}

struct rqli_slice rqli_client_entry_text(struct rqli_slice entry, const char *mark)
{
    struct rqli_slice rest = field_of(entry, mark);

    if (!rqli_slice_skip(&rest, "\"")) {
        return (struct rqli_slice){"", 0};
    }
    return (struct rqli_slice){rest.data, rqli_slice_before(rest, "\"")};
}

bool rqli_client_entry_write(struct rqli_writer *out, struct rqli_slice entry)
{
    const struct rqli_slice host = rqli_client_entry_text(entry, "\"host\":");
    const struct rqli_slice program = rqli_client_entry_text(entry, "\"program\":");
    const int64_t pid = rqli_client_entry_number(entry, "\"pid\":");

    if (host.length == 0 || program.length == 0 || pid < 0) {
        return false;
    }
    rqli_write_format(out, "%.*s %.*s[%" PRId64 "]", (int)host.length, host.data,
                      (int)program.length, program.data, pid);
    return true;
}

void rqli_client_name_of_connection(const struct rqli_client_name *self, bool is_for_commands,
                                    char out[RQLI_CLIENT_NAME_SIZE])
{
    (void)snprintf(out, RQLI_CLIENT_NAME_SIZE, "rql:%.80s:%c", self->place,
                   is_for_commands ? self->of_commands : 's');
}

bool rqli_client_name_is_due(struct rqli_client_name *self, int64_t now_us)
{
    int64_t due_us = atomic_load_explicit(&self->due_us, memory_order_relaxed);

    return now_us >= due_us &&
           atomic_compare_exchange_strong(&self->due_us, &due_us,
                                          rqli_after_ms(now_us, RQLI_CLIENT_NAME_MS));
}

void rqli_client_name_on_login(struct rqli_client_name *self, int64_t now_us)
{
    atomic_store_explicit(&self->due_us, rqli_after_ms(now_us, RQLI_CLIENT_NAME_MS),
                          memory_order_relaxed);
}

bool rqli_client_name_is_said(struct rqli_client_name *self)
{
    return self->keys.set &&
           (self->keys.set != &rqli_key_sets[RQLI_WHOLE] ||
            atomic_load_explicit(&self->due_us, memory_order_relaxed) != INT64_MAX);
}

void rqli_client_name_write_end(const struct rqli_client_name *self, struct rqli_command *command)
{
    rqli_command_words(command, "HDEL", self->keys.lock.data, self->identity, NULL);
}

void rqli_client_name_on_refused(struct rqli_client_name *self)
{
    atomic_store_explicit(&self->due_us, INT64_MAX, memory_order_relaxed);
}

void rqli_client_name_on_lost(struct rqli_client_name *self)
{
    atomic_store_explicit(&self->due_us, 0, memory_order_relaxed);
}

void rqli_client_name_call(const struct rqli_client_name *self, struct rqli_call *call)
{
    rqli_call_init(call, RQLI_SCRIPT_NAME_CLIENT, &self->keys);
    rqli_call_text(call, self->identity);
    rqli_call_text(call, "{\"at_us\":");
    rqli_call_text(call, ",\"since_us\":");
    rqli_call_text(call, self->entry);
    call->brings_text = true;
}

void rqli_client_name_write(const struct rqli_client_name *self, struct rqli_command *command)
{
    struct rqli_call call;

    rqli_client_name_call(self, &call);
    rqli_call_write(&call, command, 0);
}
