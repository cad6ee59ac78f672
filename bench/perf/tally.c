#include "perf/tally.h"

#include <stdlib.h>
#include <string.h>

/* The server also counts what scripts call. So only commands are added up that clients send and
 * scripts do not call. SET is both: the plain lock's own, and how a grant counts its token. */
static bool is_sent_by_clients(const char *name, size_t length, bool plain_lock)
{
    static const char *const names[] = {
        "auth", "client|",    "eval",    "evalsha", "fcall",     "hello",
        "ping", "psubscribe", "script|", "select",  "subscribe", "unsubscribe",
    };
    size_t i;

    for (i = 0; i < sizeof names / sizeof names[0]; i++) {
        size_t wanted = strlen(names[i]);
        bool family = names[i][wanted - 1] == '|';

        if (strncmp(name, names[i], wanted) == 0 && (family || wanted == length)) {
            return true;
        }
    }
    return plain_lock && length == 3 && strncmp(name, "set", length) == 0;
}

/* Lines are "cmdstat_<name>:calls=<n>,...". */
static int64_t add_up(const char *text, bool plain_lock)
{
    static const char start[] = "cmdstat_";
    static const char calls[] = ":calls=";
    int64_t total = 0;
    const char *name = strstr(text, start);
    const char *end;

    while (name) {
        name += sizeof start - 1;
        end = strstr(name, calls);
        if (end && is_sent_by_clients(name, (size_t)(end - name), plain_lock)) {
            total += strtoll(end + sizeof calls - 1, NULL, 10);
        }
        name = strstr(name, start);
    }
    return total;
}

int64_t tally_commands(redisContext *context, bool plain_lock)
{
    redisReply *reply = redisCommand(context, "INFO commandstats");
    int64_t total = -1;

    if (reply && reply->type == REDIS_REPLY_STRING) {
        total = add_up(reply->str, plain_lock);
    }
    if (reply) {
        freeReplyObject(reply);
    }
    return total;
}
