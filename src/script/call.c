#include "script/call.h"

#include "base/must.h"

#include <stdio.h>

void rqli_call_init(struct rqli_call *self, enum rqli_script_id script,
                    const struct rqli_keys *keys)
{
    self->script = script;
    self->keys = keys;
    self->n_args = 0;
    self->used = 0;
}

static void add(struct rqli_call *self, struct rqli_slice word)
{
    RQLI_MUST(self->n_args < RQLI_CALL_ARGS_MAX);
    self->args[self->n_args++] = word;
}

void rqli_call_text(struct rqli_call *self, const char *text)
{
    add(self, rqli_slice_of(text));
}

void rqli_call_int(struct rqli_call *self, int64_t number)
{
    char *at = self->numbers + self->used;
    size_t length;

    RQLI_MUST(self->used + 20 <= sizeof self->numbers);
    length = rqli_format_int(at, number);
    self->used += length;
    add(self, (struct rqli_slice){at, length});
}

static char *put_number(char *at, int64_t number)
{
    *at++ = ' ';
    return at + rqli_format_int(at, number);
}

void rqli_call_ask(struct rqli_call *self, const struct rqli_ask *ask)
{
    char *begin = self->numbers + self->used;
    char *at = begin;

    RQLI_MUST(self->used + 3 + 4 * 21 <= sizeof self->numbers);
    *at++ = ask->access;
    *at++ = ask->conflict;
    *at++ = ask->fail_fast ? 'f' : '-';
    at = put_number(at, ask->wait_ms);
    at = put_number(at, ask->queue_ttl_ms);
    at = put_number(at, ask->score_us);
    at = put_number(at, (int64_t)ask->chance);
    self->used += (size_t)(at - begin);
    add(self, (struct rqli_slice){begin, (size_t)(at - begin)});
}

static void write_keys(const struct rqli_call *self, struct rqli_command *command, size_t n_keys)
{
    rqli_command_slice(command, self->keys->lock);
    if (n_keys > 1) {
        RQLI_MUST(n_keys == 5);
        rqli_command_slice(command, self->keys->queue);
        rqli_command_slice(command, self->keys->requests);
        rqli_command_text(command, RQLI_KEY_LIVE);
        rqli_command_text(command, RQLI_KEY_FENCE);
    }
}

void rqli_call_write(const struct rqli_call *self, struct rqli_command *command, bool with_text)
{
    const struct rqli_script *script = &rqli_scripts[self->script];
    size_t i;

    RQLI_MUST(self->n_args == script->n_args ||
              (script->takes_more && self->n_args > script->n_args));
    rqli_command_begin(command, 3 + script->n_keys + self->n_args);
    if (with_text) {
        rqli_command_text(command, "EVAL");
        rqli_command_slice(command, (struct rqli_slice){script->text, script->length});
    } else {
        rqli_command_text(command, "EVALSHA");
        rqli_command_slice(command, (struct rqli_slice){script->sha1, 40});
    }
    rqli_command_int(command, (int64_t)script->n_keys);
    write_keys(self, command, script->n_keys);
    for (i = 0; i < self->n_args; i++) {
        rqli_command_slice(command, self->args[i]);
    }
}
