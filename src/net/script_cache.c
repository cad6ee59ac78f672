#include "net/script_cache.h"

void rqli_script_cache_ask(struct rqli_command *command, int number)
{
    int from = number * RQLI_SCRIPT_CACHE_EACH;
    int left = RQLI_SCRIPT_COUNT - from;
    int count = left < RQLI_SCRIPT_CACHE_EACH ? left : RQLI_SCRIPT_CACHE_EACH;

    rqli_command_begin(command, 2 + count);
    rqli_command_text(command, "SCRIPT");
    rqli_command_text(command, "EXISTS");
    for (int i = from; i < from + count; i++) {
        rqli_command_slice(command, (struct rqli_slice){rqli_scripts[i].sha1, 40});
    }
}

uint64_t rqli_script_cache_read(const struct rqli_reply *reply, int number)
{
    size_t count = reply->type == RQLI_REPLY_ARRAY ? reply->count : 0;
    uint64_t known = 0;

    for (size_t i = 0; i < count && i < RQLI_SCRIPT_CACHE_EACH; i++) {
        known |= (uint64_t)(reply->items[i].integer == 1) << i;
    }
    return known << RQLI_SCRIPT_CACHE_EACH * number;
}
