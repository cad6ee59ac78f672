#include "base/clock.h"
#include "net/conn_state.h"
#include "net/url.h"
#include "observe/stats.h"

/* What is asked behind the calls of a batch: whether replicas, or the disk, have what they wrote.
 */

/* Under the mutex: as long as the least patient caller waits that has not given up while the batch
 * stood behind others. Where all have, the server is asked for a moment, which frees them. */
static void limit_wanted(struct rqli_conn *self, int64_t now_us)
{
    struct rqli_durability wanted = {0};
    struct rqli_stream_call *call = self->shared.stream.first;

    for (; call; call = call->next) {
        const struct exchange *at = exchange_of(call);

        if (call->begins_at >= self->shared.stream.out_at && at->visible.durability &&
            (at->wanted.until_us == 0 || at->wanted.until_us > now_us)) {
            rqli_durability_join(&wanted, &at->wanted);
        }
    }
    if (rqli_durability_is_wanted(&wanted)) {
        self->shared.wanted = wanted;
    }
    rqli_durability_limit(&self->shared.wanted, now_us);
}

void rqli_conn_ask_for_acks(struct rqli_conn *self, struct exchange *last)
{
    struct rqli_stream *stream = &self->shared.stream;
    int n_before = stream->out.n_commands;
    int n_acks;

    limit_wanted(self, rqli_now_us());
    last->asked = self->shared.wanted;
    rqli_durability_write(&last->asked, &stream->out);
    rqli_stream_lengthen(stream);
    n_acks = stream->out.n_commands - n_before;
    last->n_replies += n_acks;
    self->shared.n_commands += n_acks;
    rqli_stats_count(self->sock.endpoint->stats, 0, RQLI_STAT_COMMANDS, n_acks);
    rqli_stream_wait_longer(stream, rqli_durability_longest_ms(&last->asked));
    self->shared.wanted = (struct rqli_durability){0};
}
