#include "wire/call.h"

#include "base/must.h"
#include "base/random.h"

/* What a script declares: its lock alone, the swarm's keys, those of a lock, or the last two. */
enum { SWARM_KEYS = 3, LOCK_KEYS = 5, FLUSH_KEYS = 7 };

enum { NUMBER_BYTES = 20, ASK_BYTES = 3 + 4 * (1 + NUMBER_BYTES) };

void rqli_call_init(struct rqli_call *self, enum rqli_script_id script,
                    const struct rqli_keys *keys)
{
    self->script = script;
    self->keys = keys;
    self->series = NULL;
    self->n_series = 0;
    self->n_args = 0;
    self->used = 0;
    self->pushes_first = false;
}

void rqli_call_init_series(struct rqli_call *self, enum rqli_script_id script,
                           const struct rqli_keys *const *keys, size_t count)
{
    RQLI_MUST(count > 0);
    rqli_call_init(self, script, keys[0]);
    self->series = keys;
    self->n_series = count;
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

void rqli_call_slice(struct rqli_call *self, struct rqli_slice bytes)
{
    add(self, bytes);
}

void rqli_call_int(struct rqli_call *self, int64_t number)
{
    char *at = self->numbers + self->used;
    size_t length;

    RQLI_MUST(self->used + NUMBER_BYTES <= sizeof self->numbers);
    length = rqli_format_int(at, number);
    self->used += length;
    add(self, (struct rqli_slice){at, length});
}

void rqli_call_chance(struct rqli_call *self)
{
    rqli_call_int(self, rqli_random_below(65536));
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

    RQLI_MUST(self->used + ASK_BYTES <= sizeof self->numbers);
    *at++ = ask->access;
    *at++ = ask->conflict;
    *at++ = ask->fail_fast ? 'f' : '-';
    at = put_number(at, ask->wait_ms);
    at = put_number(at, ask->score_us);
    at = put_number(at, ask->queue_ttl_ms);
    at = put_number(at, (int64_t)ask->chance);
    self->used += (size_t)(at - begin);
    add(self, (struct rqli_slice){begin, (size_t)(at - begin)});
}

static void write_lock_keys(const struct rqli_keys *keys, struct rqli_command *command)
{
    rqli_command_slice(command, keys->lock);
    rqli_command_slice(command, keys->queue);
    rqli_command_slice(command, keys->requests);
}

static void write_swarm_keys(struct rqli_command *command)
{
    rqli_command_text(command, RQLI_KEY_HOSTS);
    rqli_command_text(command, RQLI_KEY_SUSPECTS);
}

static void write_keys(const struct rqli_call *self, struct rqli_command *command, size_t n_keys)
{
    if (n_keys == SWARM_KEYS) {
        write_swarm_keys(command);
        rqli_command_text(command, RQLI_KEY_FLUSHER);
        return;
    }
    if (n_keys == 1) {
        rqli_command_slice(command, self->keys->lock);
        return;
    }
    if (self->series) {
        for (size_t i = 0; i < self->n_series; i++) {
            write_lock_keys(self->series[i], command);
        }
    } else {
        write_lock_keys(self->keys, command);
    }
    rqli_command_text(command, RQLI_KEY_LIVE);
    rqli_command_text(command, RQLI_KEY_FENCE);
    if (n_keys == FLUSH_KEYS) {
        write_swarm_keys(command);
    }
}

static size_t count_keys(const struct rqli_call *self, const struct rqli_script *script)
{
    size_t n_more = self->series ? self->n_series - 1 : 0;

    RQLI_MUST(script->n_keys == 1 || script->n_keys == SWARM_KEYS || script->n_keys == LOCK_KEYS ||
              script->n_keys == FLUSH_KEYS);
    RQLI_MUST((script->n_repeated == 3) == (self->series != NULL));
    return script->n_keys + n_more * script->n_repeated;
}

void rqli_call_write(const struct rqli_call *self, struct rqli_command *command, bool with_text)
{
    const struct rqli_script *script = &rqli_scripts[self->script];
    size_t n_keys = count_keys(self, script);
    size_t i;

    RQLI_MUST(self->n_args == script->n_args ||
              (script->takes_more && self->n_args > script->n_args));
    rqli_command_begin(command, 3 + n_keys + self->n_args);
    if (with_text) {
        rqli_command_text(command, "EVAL");
        rqli_command_slice(command, (struct rqli_slice){script->text, script->length});
    } else {
        rqli_command_text(command, "EVALSHA");
        rqli_command_slice(command, (struct rqli_slice){script->sha1, 40});
    }
    rqli_command_int(command, (int64_t)n_keys);
    write_keys(self, command, n_keys);
    for (i = 0; i < self->n_args; i++) {
        rqli_command_slice(command, self->args[i]);
    }
}
