#include "admin/ended.h"

#include "admin/info.h"
#include "base/clock.h"
#include "lock/history_others.h"

#include <string.h>

rql_holder_list *rqli_ended_read(rql_client *client, const struct rqli_keys *keys)
{
    const struct rqli_reader reader = {
        .client = client, .where = keys->lock.data, .set = keys->set};
    rql_holder_list *holders = NULL;

    if (client->history) {
        (void)!rqli_read_holders(&reader, keys->lock, &holders);
    }
    return holders;
}

/* Returns how long a holder had the lock; -1: a malformed lock does not say since when. */
static int64_t held_us(const rql_holder_info *holder, int64_t now_us)
{
    return holder->acquired_at_us < 0 ? -1 : rqli_later(now_us - holder->acquired_at_us, 0);
}

void rqli_ended_note(rql_client *client, const struct rqli_keys *keys,
                     const rql_holder_list *holders, const char *acquirer, enum rqli_ending ending)
{
    const bool has_time = holders && holders->server_us >= 0;

    for (size_t i = 0; has_time && i < holders->count; i++) {
        const rql_holder_info *holder = holders->item[i];
        const char *reason = rqli_reason_in(holder->meta, holder->n_meta);
        const struct rqli_ended_hold hold = {
            .name = rqli_name_in(keys->lock, RQLI_KEY_LOCK),
            .reason = rqli_slice_of(reason ? reason : ""),
            .at_us = holders->server_us,
            .waited_us = -1,
            .held_us = held_us(holder, holders->server_us),
            .token = holder->token,
            .units = holder->share_units,
            .ending = ending,
        };

        if (holder->acquirer_id && (!acquirer || strcmp(acquirer, holder->acquirer_id) == 0)) {
            rqli_history_note_other(client, rqli_slice_of(holder->acquirer_id), &hold);
        }
    }
}
