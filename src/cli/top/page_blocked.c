#include "format.h"
#include "page.h"

#include <stdio.h>

/* The page of who waits for whom. */

static void add_blocked(struct top_sheet *sheet, const struct top_look *look,
                        const struct top_row *row)
{
    char name[CLI_NAME_SIZE];
    char held[CLI_DURATION_SIZE];

    top_add_text(sheet, TOP_BOLD, "%.512s  %s%s%s", row->name,
                 row->lock ? top_row_holder(look, row, name) : "free", row->lock ? ", for " : "",
                 row->lock ? cli_format_duration(row->held_ms, held) : "");
    top_add_text(sheet, TOP_PLAIN, "   %lld wait%s: %s%s", (long long)row->waiting,
                 row->waiting == 1 ? "s" : "",
                 cli_request_name(&look->names, row->queue->requests[0], name),
                 row->waiting > 1 ? " …" : "");
    if (row->convoy.is_circle) {
        top_add(sheet, TOP_CHOSEN, "   DEADLOCK");
    }
    if (row->convoy.text) {
        top_add_words(sheet, TOP_PLAIN, row->convoy.text, 3);
    }
}

void top_draw_blocked(struct top_look *look, struct top_sheet *sheet)
{
    size_t count;
    CLI_AUTO(cli_free)
    const struct top_row **rows = top_look_sort(look, TOP_WAITING, false, NULL, &count);

    if (count == 0 || rows[0]->waiting == 0) {
        top_add(sheet, TOP_PLAIN, "no waiters");
    }
    for (size_t i = 0; i < count && rows[i]->waiting > 0 && !sheet->is_cut; i++) {
        add_blocked(sheet, look, rows[i]);
    }
}
