#include "wire/command.h"

#include "base/must.h"
#include "base/random.h"

#include <stdlib.h>

/* ---- commands ---- */

/* No command of this library comes near the upper bound, which keeps a wrong length from using up
 * all memory. */
enum {
    FIRST_CAPACITY = 512,
    MAX_CAPACITY = 64 << 20,
    HEADER_SIZE = 1 + 20 + 2, /* '$' or '*', a number, CR LF */
    END_SIZE = 2,
};

void rqli_command_reset(struct rqli_command *self)
{
    self->length = 0;
    self->n_commands = 0;
    self->failed = false;
    self->texts = 0;
}

void rqli_command_fini(struct rqli_command *self)
{
    free(self->data);
    *self = (struct rqli_command){0};
}

/* Doubles the buffer, so that a growing stream is copied only a few times. It never shrinks. */
static bool grow(struct rqli_command *self, size_t needed)
{
    size_t capacity = self->capacity > 0 ? self->capacity : FIRST_CAPACITY;
    char *data;

    while (capacity < needed) {
        capacity *= 2;
    }
    data = realloc(self->data, capacity);
    if (!data) {
        return false;
    }
    self->data = data;
    self->capacity = capacity;
    return true;
}

bool rqli_command_reserve(struct rqli_command *self, size_t bytes)
{
    return self->capacity >= bytes || grow(self, bytes);
}

/* Makes room for more bytes. Returns false from the first failure on, until the reset. */
static inline bool reserve(struct rqli_command *self, size_t more)
{
    if (self->failed) {
        return false;
    }
    if (more <= self->capacity - self->length) {
        return true;
    }
    self->failed = more > MAX_CAPACITY - self->length || !grow(self, self->length + more);
    return !self->failed;
}

/* Writes HEADER_SIZE bytes at most, and returns their end. Nearly all counts have two digits. */
static inline char *put_header(char *at, char mark, size_t count)
{
    *at++ = mark;
    if (count < 100) {
        *at = (char)('0' + count / 10);
        at += count >= 10;
        *at++ = (char)('0' + count % 10);
    } else {
        at += rqli_format_int(at, (int64_t)count);
    }
    *at++ = '\r';
    *at++ = '\n';
    return at;
}

/* Writes a word; the caller has reserved the room. An empty word may have no data, and memcpy()
 * must not get NULL. */
static inline void put_word(struct rqli_command *self, const char *word, size_t length)
{
    char *at = put_header(self->data + self->length, '$', length);

    if (length > 0) {
        memcpy(at, word, length);
        at += length;
    }
    *at++ = '\r';
    *at++ = '\n';
    self->length = (size_t)(at - self->data);
}

/* Writes "*<argc>"; then comes "$<length>" for each word, and its bytes. CR LF follows each of
 * these. */
void rqli_command_begin(struct rqli_command *self, size_t argc)
{
    self->n_commands++;
    if (reserve(self, HEADER_SIZE)) {
        char *end = put_header(self->data + self->length, '*', argc);

        self->length = (size_t)(end - self->data);
    }
}

void rqli_command_slice(struct rqli_command *self, struct rqli_slice word)
{
    /* Checked separately, because the sum below must not wrap. */
    if (word.length > MAX_CAPACITY) {
        self->failed = true;
        return;
    }
    if (reserve(self, HEADER_SIZE + word.length + END_SIZE)) {
        put_word(self, word.data, word.length);
    }
}

void rqli_command_text(struct rqli_command *self, const char *word)
{
    rqli_command_slice(self, rqli_slice_of(word));
}

void rqli_command_int(struct rqli_command *self, int64_t word)
{
    char digits[20];
    size_t length = rqli_format_int(digits, word);

    if (reserve(self, HEADER_SIZE + sizeof digits + END_SIZE)) {
        put_word(self, digits, length);
    }
}

/* Counts the words first, because the count stands in front of them. */
void rqli_command_words(struct rqli_command *self, ...)
{
    va_list words;
    size_t count = 0;
    const char *word;

    va_start(words, self);
    while (va_arg(words, const char *)) {
        count++;
    }
    va_end(words);
    rqli_command_begin(self, count);
    va_start(words, self);
    while ((word = va_arg(words, const char *))) {
        rqli_command_text(self, word);
    }
    va_end(words);
}

/* Leaves the failure to the caller: other callers have put their commands into the same buffer, and
 * those can still be sent. */
bool rqli_command_append(struct rqli_command *self, const struct rqli_command *other)
{
    if (self->failed || other->failed) {
        return false;
    }
    if (!reserve(self, other->length)) {
        self->failed = false; /* the bytes in the buffer are still whole */
        return false;
    }
    if (other->length > 0) {
        memcpy(self->data + self->length, other->data, other->length);
        self->length += other->length;
    }
    return true;
}

/* ---- calls ---- */

/* Numbers of keys that a script declares, except for its lock alone: those of an arrival, the
 * swarm's, those of a lock, those with its shares; or each of the last two with two of the
 * swarm's. */
enum {
    ARRIVAL_KEYS = 2,
    SWARM_KEYS = 3,
    LOCK_KEYS = 5,
    SHARES_KEYS = 6,
    FLUSH_KEYS = 7,
    FLUSH_SHARES_KEYS = 8
};

/* Sign and digits of a number; three letters, and six numbers with a blank in front of each; two
 * numbers with a blank between them, and a letter. */
enum {
    NUMBER_BYTES = 20,
    ACQUIRE_BYTES = 3 + 6 * (1 + NUMBER_BYTES),
    SHARE_BYTES = 2 * NUMBER_BYTES + 2
};

/* `args` and `numbers` are large and stay uninitialised: n_args and used say how much of them is
 * valid. `out` and is_plain are set by rqli_call_begin(), if there is an operation. */
void rqli_call_init(struct rqli_call *self, enum rqli_script_id script,
                    const struct rqli_keys *keys)
{
    rqli_call_init_of_set(self, script, keys->set);
    self->keys = keys;
}

void rqli_call_init_of_set(struct rqli_call *self, enum rqli_script_id script,
                           const struct rqli_key_set *set)
{
    self->brings_text = false;
    self->script = script;
    self->set = set;
    self->keys = NULL;
    self->series = NULL;
    self->n_series = 0;
    self->n_args = 0;
    self->used = 0;
}

void rqli_call_init_words(struct rqli_call *self, const struct rqli_key_set *set, va_list words)
{
    const char *word;

    rqli_call_init_of_set(self, RQLI_SCRIPT_COUNT, set);
    for (word = va_arg(words, const char *); word; word = va_arg(words, const char *)) {
        rqli_call_text(self, word);
    }
}

const char *rqli_call_name(const struct rqli_call *self)
{
    return self->script == RQLI_SCRIPT_COUNT ? self->args[0].data : rqli_scripts[self->script].name;
}

const char *rqli_call_subject(const struct rqli_call *self)
{
    if (self->script == RQLI_SCRIPT_COUNT) {
        return self->n_args > 1 ? self->args[1].data : "server";
    }
    return self->keys ? self->keys->lock.data : self->set->hosts.data;
}

void rqli_call_init_series(struct rqli_call *self, enum rqli_script_id script,
                           const struct rqli_keys *const *keys, size_t count)
{
    RQLI_MUST(count > 0);
    rqli_call_init(self, script, keys[0]);
    self->series = keys;
    self->n_series = count;
}

/* Adds a word. The table of scripts has the required number, which rqli_call_write() checks. */
void rqli_call_slice(struct rqli_call *self, struct rqli_slice bytes)
{
    RQLI_MUST(self->n_args < RQLI_CALL_ARGS_MAX);
    self->args[self->n_args++] = bytes;
}

void rqli_call_text(struct rqli_call *self, const char *text)
{
    rqli_call_slice(self, rqli_slice_of(text));
}

/* Keeps the digits in the call, because it is written later. */
void rqli_call_int(struct rqli_call *self, int64_t number)
{
    char *at = self->numbers + self->used;
    size_t length;

    RQLI_MUST(self->used + NUMBER_BYTES <= sizeof self->numbers);
    length = rqli_format_int(at, number);
    self->used += length;
    rqli_call_slice(self, (struct rqli_slice){at, length});
}

void rqli_call_random(struct rqli_call *self)
{
    rqli_call_int(self, rqli_random_below(65536));
}

static char *put_number(char *at, int64_t number)
{
    *at++ = ' ';
    return at + rqli_format_int(at, number);
}

void rqli_call_share(struct rqli_call *self, const struct rqli_share *share)
{
    char *begin = self->numbers + self->used;
    char *at = begin;

    RQLI_MUST(self->used + SHARE_BYTES <= sizeof self->numbers);
    at += rqli_format_int(at, share->units);
    at = put_number(at, share->limit);
    if (share->has_slots) {
        *at++ = 's';
    }
    self->used += (size_t)(at - begin);
    rqli_call_slice(self, (struct rqli_slice){begin, (size_t)(at - begin)});
}

/* Adds one argument of several words, such as "qw- -1 0 -1 4711" (lua/README.md 10), which the
 * script splits up only if it must. */
void rqli_call_acquire_args(struct rqli_call *self, const struct rqli_acquire_args *args)
{
    char *begin = self->numbers + self->used;
    char *at = begin;
    static const char marks[] = "f-+";
    /* Two more words, which nearly no request has. One that fails fast never waits. */
    bool has_more = !args->fail_fast && (args->max_waiters >= 0 || args->head_start_ms > 0);

    RQLI_MUST(self->used + ACQUIRE_BYTES <= sizeof self->numbers);
    *at++ = args->access;
    *at++ = args->conflict;
    *at++ = marks[args->fail_fast ? 0 : 1 + has_more];
    at = put_number(at, args->wait_ms);
    at = put_number(at, args->score_us);
    at = put_number(at, args->queue_ttl_ms);
    at = put_number(at, (int64_t)args->random);
    if (has_more) {
        at = put_number(at, args->max_waiters);
        at = put_number(at, args->head_start_ms);
    }
    self->used += (size_t)(at - begin);
    rqli_call_slice(self, (struct rqli_slice){begin, (size_t)(at - begin)});
}

/* Releases a grant that never existed: no lock has the nonce "-". If the lock is held, the script
 * leaves it alone and serves no waiter. */
void rqli_serve_write(const struct rqli_keys *keys, struct rqli_call *call)
{
    rqli_call_init(call, RQLI_SCRIPT_RELEASE, keys);
    rqli_call_text(call, "-");
    rqli_call_random(call);
}

/* Writes keys in the order of KEYS in the scripts, as do the functions below. */
static void write_lock_keys(const struct rqli_keys *keys, struct rqli_command *command)
{
    rqli_command_slice(command, keys->lock);
    rqli_command_slice(command, keys->queue);
    rqli_command_slice(command, keys->requests);
}

/* Writes the key of the shares. No handle has it, because only sharers need it. */
static void write_shares_key(const struct rqli_keys *keys, struct rqli_command *command)
{
    const struct rqli_slice parts[] = {keys->set->prefix, rqli_slice_of(RQLI_OF_SHARES),
                                       rqli_name_in(keys->lock, RQLI_KEY_LOCK)};
    size_t length = parts[0].length + parts[1].length + parts[2].length;

    if (reserve(command, HEADER_SIZE + length + END_SIZE)) {
        char *at = put_header(command->data + command->length, '$', length);

        for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
            memcpy(at, parts[i].data, parts[i].length);
            at += parts[i].length;
        }
        *at++ = '\r';
        *at++ = '\n';
        command->length = (size_t)(at - command->data);
    }
}

static void write_swarm_keys(const struct rqli_key_set *set, struct rqli_command *command)
{
    rqli_command_slice(command, set->hosts);
    rqli_command_slice(command, set->suspects);
}

/* Declares all keys that the script uses, because a cluster and some ACLs require that. Their
 * number determines which they are, except that a series has 5, 8, 11 and so on. */
static void write_keys(const struct rqli_call *self, struct rqli_command *command, size_t n_keys)
{
    if (n_keys == SWARM_KEYS) {
        write_swarm_keys(self->set, command);
        rqli_command_slice(command, self->set->flusher);
        return;
    }
    if (n_keys == ARRIVAL_KEYS) {
        rqli_command_slice(command, self->set->fence);
        rqli_command_slice(command, self->set->era);
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
    rqli_command_slice(command, self->set->live);
    rqli_command_slice(command, self->set->fence);
    if (!self->series && (n_keys == SHARES_KEYS || n_keys == FLUSH_SHARES_KEYS)) {
        write_shares_key(self->keys, command);
    }
    if (!self->series && (n_keys == FLUSH_KEYS || n_keys == FLUSH_SHARES_KEYS)) {
        write_swarm_keys(self->set, command);
    }
}

void rqli_script_text(const struct rqli_script *self, char *out)
{
    for (size_t i = 0; i < self->n_pieces; i++) {
        const struct rqli_slice *piece = &rqli_script_pieces[self->pieces[i]];

        memcpy(out, piece->data, piece->length);
        out += piece->length;
    }
}

/* Writes the text of a script as one word. */
static void write_text(const struct rqli_script *script, struct rqli_command *command)
{
    if (reserve(command, HEADER_SIZE + script->length + END_SIZE)) {
        char *at = put_header(command->data + command->length, '$', script->length);

        rqli_script_text(script, at);
        at += script->length;
        *at++ = '\r';
        *at++ = '\n';
        command->length = (size_t)(at - command->data);
    }
}

/* Writes EVALSHA sha1 numkeys key ... arg ..., or the same with EVAL and the text.
 *
 * While a slot of a cluster is being moved, a script runs there as long as all keys that it names
 * are still there, and is aborted midway by a key that it has deleted itself. One more key, which
 * never exists, has all scripts refused before they begin, at both ends, until the slot has
 * moved. */
static void write_script(const struct rqli_call *self, struct rqli_command *command, uint64_t known)
{
    const struct rqli_script *script = &rqli_scripts[self->script];
    /* Each further lock of a series adds its three keys; the keys after those come once. */
    size_t n_more = self->series ? self->n_series - 1 : 0;
    size_t n_keys = script->n_keys + n_more * script->n_repeated;
    bool has_none = self->set->none.length > 0;
    uint64_t bit = rqli_script_bit(self->script);

    /* A script and a call that do not fit together are a bug of ours. */
    RQLI_MUST(script->n_keys >= 1 && script->n_keys <= FLUSH_SHARES_KEYS &&
              script->n_keys != LOCK_KEYS - 1);
    RQLI_MUST((script->n_repeated == 3) == (self->series != NULL));
    RQLI_MUST(self->n_args == script->n_args ||
              (script->takes_more && self->n_args > script->n_args));
    rqli_command_begin(command, 3 + n_keys + has_none + self->n_args);
    if (((known | command->texts) & bit) != 0 && !self->brings_text) {
        rqli_command_text(command, "EVALSHA");
        rqli_command_slice(command, (struct rqli_slice){script->sha1, 40});
    } else {
        rqli_command_text(command, "EVAL");
        write_text(script, command);
        command->texts |= bit;
    }
    rqli_command_int(command, (int64_t)(n_keys + has_none));
    write_keys(self, command, n_keys);
    if (has_none) {
        rqli_command_slice(command, self->set->none);
    }
}

void rqli_call_write(const struct rqli_call *self, struct rqli_command *command, uint64_t known)
{
    if (self->script == RQLI_SCRIPT_COUNT) {
        rqli_command_begin(command, self->n_args);
    } else {
        write_script(self, command, known);
    }
    for (size_t i = 0; i < self->n_args; i++) {
        rqli_command_slice(command, self->args[i]);
    }
}
