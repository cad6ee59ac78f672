/* Bytes of a server in answer to CLUSTER SLOTS, or to a call: the map, or the way. */

#include "base/must.h"
#include "net/login/slots.h"
#include "net/sock/decode.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct rqli_address asked = {"127.0.0.1", 7000};

static void check_address(const struct rqli_address *address)
{
    RQLI_MUST(address->host[0] && memchr(address->host, '\0', sizeof address->host));
    RQLI_MUST(address->port >= 1 && address->port <= RQLI_PORT_MAX);
}

/* Each master is another, and has a partition; what was not read is as it was. */
static void check_map(const struct rqli_reply *reply)
{
    static struct rqli_slots map;
    bool is_used[RQLI_PARTITIONS] = {false};

    map.n_masters = SIZE_MAX;
    if (!rqli_slots_read(&map, reply, &asked)) {
        RQLI_MUST(map.n_masters == SIZE_MAX);
        return;
    }
    RQLI_MUST(map.n_masters <= RQLI_PARTITIONS);
    for (size_t p = 0; p < RQLI_PARTITIONS; p++) {
        RQLI_MUST(map.owners[p] >= RQLI_SLOT_IS_FREE && map.owners[p] < (int)map.n_masters);
        if (map.owners[p] >= 0) {
            is_used[map.owners[p]] = true;
        }
    }
    for (size_t i = 0; i < map.n_masters; i++) {
        RQLI_MUST(is_used[i]);
        check_address(&map.masters[i]);
        for (size_t k = 0; k < i; k++) {
            RQLI_MUST(!rqli_address_is(&map.masters[i], &map.masters[k]));
        }
    }
}

static void check_way(const struct rqli_reply *reply)
{
    struct rqli_address target = {.port = 0};
    enum rqli_way way = rqli_way_of(reply, &asked, &target);

    if (way == RQLI_WAY_MOVED) {
        check_address(&target);
    } else {
        RQLI_MUST(target.port == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rqli_decoder decoder = {0};
    struct rqli_arena arena = {0};
    struct rqli_reply reply = {0};

    RQLI_MUST(rqli_decoder_init(&decoder));
    RQLI_MUST(rqli_decoder_feed(&decoder, (const char *)data, size));
    if (rqli_decoder_next(&decoder, &arena, &reply) == 1) {
        check_map(&reply);
        if (reply.type == RQLI_REPLY_ERROR) {
            check_way(&reply);
        }
    }
    rqli_decoder_fini(&decoder);
    rqli_arena_reset(&arena);
    return 0;
}
