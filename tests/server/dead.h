#ifndef DEAD_H
#define DEAD_H

/* Requests behind which nobody stands any more: copies of one that a killed process has left, so
 * that they are as the library writes them. */

#include "fixture.h"

enum dead_kind {
    DEAD_SILENT, /* nothing was heard of them for long */
    DEAD_FRESH,  /* killed a moment ago: they still count as alive, and nobody hears them */
};

struct crowd {
    const char *text;
    int count;
    enum dead_kind kind;
    bool is_of_one; /* process; else each has its own */
};

/* Of the killed process: what it was called, and its record. */
static struct {
    char acquirer[TEXT_SIZE];
    char record[TEXT_SIZE];
} pattern;

static inline void wait_for_ever_in_child(const char *name)
{
    rql_client *own = new_client();
    rql_lock_options options = patient(own);
    rql_lock *lock = NULL;

    options.timeout_ms = RQL_FOREVER;
    (void)!rql_lock_acquire(own, name, &options, &lock, NULL);
}

static inline void wait_for_pattern(void)
{
    wait_for_ever_in_child("pattern");
}

static inline void learn_pattern(void)
{
    redisReply *reply;
    pid_t child;

    ask("HSET rql:lock:pattern acq_id a hst_id h ts 1.0 ini_ttl 60000");
    child = start_child(wait_for_pattern);
    await_int(1, "ZCARD rql:lock_queue:pattern");
    kill_child(child);
    reply = ask_reply("ZRANGE rql:lock_queue:pattern 0 0");
    (void)snprintf(pattern.acquirer, sizeof pattern.acquirer, "%s", reply->element[0]->str);
    freeReplyObject(reply);
    (void)ask_text(pattern.record, "HGET rql:req:pattern %s", pattern.acquirer);
    assert_string_not_equal(pattern.record, "");
    ask("FLUSHALL");
}

/* In the queue of the lock, in front of all who come from now on. */
static inline void plant_dead(const char *name, const struct crowd *crowd)
{
    static const char copy[] =
        "local queue, requests = 'rql:lock_queue:' .. ARGV[1], 'rql:req:' .. ARGV[1] "
        "local record, old_identity, old_nonce = ARGV[6], string.sub(ARGV[5], -32), '' "
        "for digits in string.gmatch(record, '%x+') do "
        "if #digits == 32 and digits ~= old_identity then old_nonce = digits end end "
        "local time = redis.call('TIME') "
        "local now = time[1] * 1000000 + time[2] "
        "for i = 1, ARGV[2] do "
        "local nonce = string.format('dead%028x', i) "
        "local identity = ARGV[3] == '1' and string.format('dead%028x', 0) or nonce "
        "local acquirer = 'rql:acq:90002/' .. i .. '/1/1/' .. identity "
        "local new = string.gsub(record, old_identity, identity) "
        "new = string.gsub(new, old_nonce, nonce) "
        "redis.call('ZADD', queue, string.format('%.6f', (now + i) / 1000000 - 10), acquirer) "
        "redis.call('HSET', requests, acquirer, new) "
        "if ARGV[4] == '1' then "
        "redis.call('ZADD', 'rql:live', string.format('%.0f', now), identity) end end";
    redisReply *reply =
        redisCommand(raw, "EVAL %s 0 %s %d %d %d %s %s", copy, name, crowd->count, crowd->is_of_one,
                     crowd->kind == DEAD_FRESH, pattern.acquirer, pattern.record);

    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR) {
        fail_msg("%s", reply->str);
    }
    freeReplyObject(reply);
    assert_true(ask_int("ZCARD rql:lock_queue:%s", name) >= crowd->count);
}

static inline int start_server_with_pattern(void **state)
{
    int result = start_server(state);

    if (result == 0) {
        learn_pattern();
    }
    return result;
}

#endif
