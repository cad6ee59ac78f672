#include "counts.h"
#include "format.h"
#include "locks.h"
#include "page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The page of one lock: its holders and its queue, one of which is chosen. */

enum { SHARE = 10, PLACE = 7, ALIVE = 12 };

/* ---- holders and waiters ---- */

static const rql_holder_list *holders_of(const struct top_look *look, const struct top_row *row)
{
    const bool is_read = look->holders && strcmp(look->holders_of, row->name) == 0;

    return is_read ? look->holders : NULL;
}

/* Of a lock whose holders were not read nothing is chosen: they come first. */
size_t top_count_items(const struct top_look *look, const struct top_row *row)
{
    const rql_holder_list *holders = holders_of(look, row);

    if (row->lock && !holders) {
        return 0;
    }
    return (holders ? holders->count : 0) + (row->queue ? row->queue->n_requests : 0);
}

struct top_item top_item_at(const struct top_look *look, const struct top_row *row, size_t place)
{
    const rql_holder_list *holders = holders_of(look, row);
    const size_t n_holders = holders ? holders->count : 0;
    struct top_item item = {.holder = NULL};

    if (holders && place < n_holders) {
        item.holder = holders->item[place];
    } else if (row->queue && place - n_holders < row->queue->n_requests) {
        item.request = row->queue->requests[place - n_holders];
    }
    return item;
}

const char *top_acquirer_of(const struct top_item *item)
{
    return item->holder    ? item->holder->acquirer_id
           : item->request ? item->request->acquirer_id
                           : NULL;
}

size_t top_item_place(const struct top_view *self, const struct top_look *look,
                      const struct top_row *row)
{
    const size_t count = top_count_items(look, row);

    for (size_t i = 0; self->who && i < count; i++) {
        const struct top_item item = top_item_at(look, row, i);
        const char *acquirer_id = top_acquirer_of(&item);

        if (acquirer_id && strcmp(acquirer_id, self->who) == 0) {
            return i;
        }
    }
    return count > 0 && self->item >= count ? count - 1 : self->item;
}

void top_choose_item(struct top_view *self, const struct top_item *item, size_t place)
{
    const char *acquirer_id = top_acquirer_of(item);
    char *copy = acquirer_id ? cli_must(strdup(acquirer_id)) : NULL;

    free(self->who);
    self->who = copy;
    self->item = place;
}

/* ---- lines ---- */

static void add_meta(struct top_sheet *sheet, const rql_meta *meta, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        top_add_text(sheet, TOP_PLAIN, "  %.128s=%.512s", meta[i].name, meta[i].value);
    }
}

/* Of a lock whose holders were not read: this picture is the first one of it. */
static void add_lock(struct top_sheet *sheet, const struct top_look *look,
                     const struct top_row *row)
{
    char name[CLI_NAME_SIZE];

    if (!cli_is_damaged(row->lock->status)) {
        top_add_text(sheet, TOP_BOLD, "held by %s", cli_lock_holder(&look->names, row->lock, name));
    }
    add_meta(sheet, row->lock->meta, row->lock->n_meta);
}

/* Writes when the host gave its last sign of life. It is not known without a swarm, nor of the
 * gem's requests, which name no host. */
static void write_alive(char out[CLI_DURATION_SIZE], const struct top_look *look,
                        const char *host_id)
{
    const rql_host_info *host = top_look_host(look, host_id);
    char silent[CLI_DURATION_SIZE];

    (void)snprintf(out, CLI_DURATION_SIZE, "-");
    if (host) {
        (void)cli_format_duration(cli_age_ms(host->last_probe_us, look->hosts->server_us), silent);
        (void)snprintf(out, CLI_DURATION_SIZE, host->is_zombie ? "dead %.12s" : "%.12s", silent);
    }
}

static void add_holder(struct top_sheet *sheet, const struct top_look *look,
                       const rql_holder_info *holder, bool is_chosen)
{
    char name[CLI_NAME_SIZE];
    char age[CLI_DURATION_SIZE];
    char left[CLI_DURATION_SIZE];
    char alive[CLI_DURATION_SIZE];
    const int64_t age_ms = cli_age_ms(holder->acquired_at_us, look->server_us);

    top_add_text(sheet, is_chosen ? TOP_CHOSEN : TOP_BOLD, "held by %s",
                 cli_holder_name(&look->names, holder, name));
    write_alive(alive, look, holder->host_id);
    top_add_text(sheet, TOP_PLAIN, "  token %lld   for %s   left %s   alive %s",
                 (long long)holder->token, cli_format_duration(age_ms, age),
                 cli_format_duration(holder->remaining_ms, left), alive);
    add_meta(sheet, holder->meta, holder->n_meta);
}

/* The wait of a place in the queue is its part of the wait of the last one. */
static void add_request(struct top_sheet *sheet, const struct top_look *look,
                        const struct top_row *row, const rql_request_info *request, bool is_chosen)
{
    const char *reason = cli_meta_value(request->meta, request->n_meta, "reason");
    char name[CLI_NAME_SIZE];
    char text[CLI_DURATION_SIZE];
    char line[TOP_LINE_SIZE] = "";

    (void)snprintf(text, sizeof text, "%lld", (long long)request->position);
    top_put_right(line, text, PLACE);
    top_put_duration(line, cli_age_ms(request->score_us, look->server_us), TOP_NUMBER);
    top_put_expected(line, row,
                     row->served > 0 ? (int64_t)((double)request->position * 1000 / row->served)
                                     : -1);
    write_alive(text, look, request->host_id);
    top_put_right(line, text, ALIVE);
    top_put(line, "  ", 2);
    (void)snprintf(text, sizeof text, request->share_limit < RQL_SHARE_MAX ? "%lld/%lld" : "%lld",
                   (long long)request->share_units, (long long)request->share_limit);
    top_put(line, request->share_units > 0 ? text : "alone", SHARE);
    top_put_whole(line, cli_request_name(&look->names, request, name));
    if (reason) {
        top_put(line, "  ", 2);
        top_put_whole(line, reason);
    }
    top_add(sheet, is_chosen ? TOP_CHOSEN : TOP_PLAIN, line);
}

static void add_headings(struct top_sheet *sheet)
{
    char line[TOP_LINE_SIZE] = "";

    top_put_right(line, "PLACE", PLACE);
    top_put_right(line, "WAITS", TOP_NUMBER);
    top_put_right(line, "EXPECT", TOP_NUMBER);
    top_put_right(line, "ALIVE", ALIVE);
    top_put(line, "  SHARE", SHARE + 2);
    top_put_whole(line, "WHO");
    top_add(sheet, TOP_BOLD, line);
}

/* Says of a key that it is not what its place is for. */
static void add_damage(struct top_sheet *sheet, const char *what, rql_key_status status)
{
    if (cli_is_damaged(status)) {
        top_add_text(sheet, TOP_BOLD, "its key is not a %s: %s", what, cli_status_text(status));
    }
}

static void draw_holders(const struct top_look *look, const struct top_row *row,
                         struct top_sheet *sheet, size_t chosen)
{
    const rql_holder_list *holders = holders_of(look, row);

    if (row->lock) {
        add_damage(sheet, "lock", row->lock->status);
    }
    for (size_t i = 0; holders && i < holders->count; i++) {
        add_holder(sheet, look, holders->item[i], i == chosen);
    }
    if (row->lock && !holders) {
        add_lock(sheet, look, row);
    }
    if (row->convoy.text) {
        top_add_words(sheet, TOP_BOLD, row->convoy.text, 2);
    }
}

static void draw_queue(const struct top_look *look, const struct top_row *row,
                       struct top_sheet *sheet, size_t chosen)
{
    const rql_holder_list *holders = holders_of(look, row);
    const size_t n_holders = holders ? holders->count : 0;

    top_add(sheet, TOP_PLAIN, "");
    if (!row->queue) {
        top_add(sheet, TOP_BOLD, "no waiters");
        return;
    }
    add_damage(sheet, "queue", row->queue->status);
    add_headings(sheet);
    for (size_t i = 0; i < row->queue->n_requests; i++) {
        add_request(sheet, look, row, row->queue->requests[i], n_holders + i == chosen);
    }
}

void top_draw_lock(struct top_view *self, struct top_look *look, struct top_sheet *sheet)
{
    const struct top_row *row = self->name ? top_look_find(look, self->name) : NULL;
    const size_t count = row ? top_count_items(look, row) : 0;
    const size_t chosen = count > 0 ? top_item_place(self, look, row) : SIZE_MAX;

    top_add(sheet, TOP_BOLD, self->name ? self->name : "");
    if (!row || !row->lock) {
        top_add(sheet, TOP_PLAIN, "free");
    }
    if (!row) {
        top_add(sheet, TOP_PLAIN, "");
        top_add(sheet, TOP_BOLD, "no waiters");
        return;
    }
    draw_holders(look, row, sheet, chosen);
    draw_queue(look, row, sheet, chosen);
    if (count > 0) {
        const struct top_item item = top_item_at(look, row, chosen);

        top_choose_item(self, &item, chosen);
    }
}
