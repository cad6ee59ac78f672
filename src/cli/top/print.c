#include "print.h"

#include "counts.h"
#include "format.h"
#include "locks.h"

#include <stdio.h>
#include <stdlib.h>

/* A look as a table, or as an object of JSON. */

enum { WAITERS_MAX = 100 }; /* of a lock: the first of its queue */

/* A lock that is free, or whose queue is empty, has an empty list. */
static void print_waiters(struct out *out, const struct top_look *look, const struct top_row *row)
{
    out_begin_list(out, "requests");
    if (row->queue) {
        cli_print_requests(out, &look->names, row->queue, WAITERS_MAX);
    }
    out_end(out);
}

/* null: they may not be seen. */
static void print_hosts(struct out *out, const struct top_look *look)
{
    if (!look->hosts) {
        out_text(out, NULL, "hosts", NULL);
        return;
    }
    out_begin_list(out, "hosts");
    for (size_t i = 0; i < look->hosts->count; i++) {
        cli_print_swarm_host(out, &look->names, look->hosts->item[i], look->hosts->server_us);
    }
    out_end(out);
}

static void print_row(struct out *out, const struct top_look *look, const struct top_row *row)
{
    char holder[CLI_NAME_SIZE];
    char holders[CLI_SHARE_SIZE];
    char rate[CLI_DURATION_SIZE];

    (void)snprintf(rate, sizeof rate, "%.1f%s", row->served, row->is_least ? "+" : "");
    out_begin(out, NULL);
    out_text(out, "NAME", row->lock ? NULL : "name", row->name);
    if (row->lock && out->form == OUT_JSON) {
        cli_print_lock(out, &look->names, NULL, row->lock, false);
    }
    out_text(out, "HOLDERS", NULL, row->lock ? cli_holders_text(row->lock, holders) : NULL);
    out_number(out, "WAITING", "waiting", OUT_INT, row->waiting);
    out_text(out, "SERVED/S", NULL, row->served < 0 ? NULL : rate);
    out_real(out, "served_per_s", row->served);
    out_bool(out, "at_least", row->is_least);
    out_number(out, "HELD", NULL, OUT_MS, row->held_ms);
    if (row->is_endless) {
        out_text(out, "LEFT", NULL, "forever");
    } else {
        out_number(out, "LEFT", NULL, OUT_MS, row->left_ms);
    }
    out_number(out, "EXPECT", "expected_wait_ms", OUT_MS, row->expect_ms);
    out_text(out, "HOLDER", NULL, top_row_holder(look, row, holder));
    out_text(out, "REASON", NULL,
             row->lock ? cli_meta_value(row->lock->meta, row->lock->n_meta, "reason") : NULL);
    out_text(out, NULL, "convoy", row->convoy.text);
    out_bool(out, "is_circle", row->convoy.is_circle);
    if (out->form == OUT_JSON) {
        print_waiters(out, look, row);
    }
    out_end(out);
}

void top_print(struct out *out, struct top_look *look, enum top_order order,
               const struct top_filter *filter)
{
    static const char *const headings[] = {"NAME", "HOLDERS", "WAITING", "SERVED/S", "HELD",
                                           "LEFT", "EXPECT",  "HOLDER",  "REASON",   NULL};
    size_t count;
    CLI_AUTO(cli_free)
    const struct top_row **rows = top_look_sort(look, order, false, filter, &count);

    out_columns(out, headings);
    out_begin(out, NULL);
    out_number(out, NULL, "at_us", OUT_COUNT, look->server_us);
    out_number(out, NULL, "n_locks", OUT_INT, look->n_locks);
    out_number(out, NULL, "waiting", OUT_INT, look->n_waiting);
    out_real(out, "served_per_s", look->served);
    out_number(out, NULL, "n_hosts", OUT_COUNT, look->hosts ? (int64_t)look->hosts->count : -1);
    out_number(out, NULL, "zombie_hosts", OUT_COUNT,
               look->hosts ? cli_count_dead(look->hosts) : -1);
    out_begin_list(out, "locks");
    for (size_t i = 0; i < count; i++) {
        print_row(out, look, rows[i]);
    }
    out_end(out);
    if (out->form == OUT_JSON) {
        print_hosts(out, look);
    }
    out_end(out);
}
