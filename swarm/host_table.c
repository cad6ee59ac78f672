#include "host_table.h"

#include "admin/batch.h"
#include "base/error.h"
#include "base/scope.h"
#include "lock/client.h"
#include "net/conn_threads.h"
#include "wire/answer.h"
#include "wire/keys.h"
#include "wire/number.h"
#include "wire/pack.h"

#include <stdio.h>
#include <string.h>

enum { PAGE = 500, ROUNDS_MAX = 1 << 20 };

void rqli_host_table_fini_p(struct rqli_host_table *self)
{
    for (size_t i = 0; i < self->count; i++) {
        free(self->item[i].host);
    }
    free(self->item);
}

static bool add_row(struct rqli_host_table *self, struct rqli_slice host, struct rqli_slice value)
{
    struct rqli_host_table_row *row;

    if (self->count == self->capacity) {
        size_t capacity = self->capacity > 0 ? 2 * self->capacity : 64;
        struct rqli_host_table_row *item = realloc(self->item, capacity * sizeof *item);

        if (!item) {
            return false;
        }
        self->item = item;
        self->capacity = capacity;
    }
    row = &self->item[self->count];
    row->host = strndup(host.data, host.length);
    if (!rqli_gem_seconds(value, &row->last_us) || row->last_us < 0) {
        row->last_us = -1;
    }
    self->count += row->host != NULL;
    return row->host != NULL;
}

static bool is_page(const struct rqli_reply *reply)
{
    return reply->type == RQLI_REPLY_ARRAY && reply->count == 2 &&
           reply->items[0].type == RQLI_REPLY_TEXT &&
           reply->items[0].text.length < RQLI_HOST_TABLE_CURSOR_SIZE &&
           reply->items[1].type == RQLI_REPLY_ARRAY && reply->items[1].count % 2 == 0;
}

static bool is_time(const struct rqli_reply *reply, int64_t *out_us)
{
    int64_t seconds;
    int64_t us;

    if (reply->type != RQLI_REPLY_ARRAY || reply->count != 2 ||
        !rqli_parse_int(reply->items[0].text, &seconds) ||
        !rqli_parse_int(reply->items[1].text, &us) || seconds < 0 ||
        seconds > RQLI_SERVER_US_MAX / 1000000) {
        return false;
    }
    *out_us = seconds * 1000000 + us;
    return true;
}

static rql_status take_page(struct rqli_host_table *self, const struct rqli_reply *page,
                            rql_error *error)
{
    const struct rqli_reply *fields = &page->items[1];

    (void)snprintf(self->cursor, sizeof self->cursor, "%s", page->items[0].text.data);
    for (size_t i = 0; i < fields->count; i += 2) {
        if (rqli_is_plain(fields->items[i].text) &&
            !add_row(self, fields->items[i].text, fields->items[i + 1].text)) {
            return rqli_fail_nomem(error);
        }
    }
    return RQL_OK;
}

static rql_status read_page(const struct rqli_reader *reader, struct rqli_host_table *rows)
{
    RQLI_AUTO(rqli_give_back)
    struct rqli_exchange *exchange = rqli_exchange_take(reader->client->conn);
    rql_status status;

    if (!exchange) {
        return rqli_fail_nomem(reader->error);
    }
    rqli_command_begin(&exchange->command, 1);
    rqli_command_text(&exchange->command, "TIME");
    rqli_command_begin(&exchange->command, 5);
    rqli_command_text(&exchange->command, "HSCAN");
    rqli_command_text(&exchange->command, RQLI_KEY_HOSTS);
    rqli_command_text(&exchange->command, rows->cursor);
    rqli_command_text(&exchange->command, "COUNT");
    rqli_command_int(&exchange->command, PAGE);
    status = rqli_reader_run(reader, exchange);
    if (!status && !is_time(&exchange->reply[0], &rows->server_us)) {
        status =
            rqli_exchange_fault(exchange, &exchange->reply[0], "TIME", "server", reader->error);
    }
    if (!status && !is_page(&exchange->reply[1])) {
        status = rqli_exchange_fault(exchange, &exchange->reply[1], "HSCAN", reader->where,
                                     reader->error);
    }
    return status ? status : take_page(rows, &exchange->reply[1], reader->error);
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct rqli_host_table_row *)a)->host,
                  ((const struct rqli_host_table_row *)b)->host);
}

/* HSCAN may name a host twice; the later answer counts. */
static void sort(struct rqli_host_table *self)
{
    size_t kept = 0;

    if (self->count == 0) {
        return;
    }
    qsort(self->item, self->count, sizeof *self->item, compare);
    for (size_t i = 1; i < self->count; i++) {
        if (compare(&self->item[i], &self->item[kept]) == 0) {
            free(self->item[i].host);
        } else {
            self->item[++kept] = self->item[i];
        }
    }
    self->count = kept + 1;
}

rql_status rqli_host_table_read(rql_client *client, struct rqli_host_table *rows, rql_error *error)
{
    const struct rqli_reader reader = {client, RQLI_KEY_HOSTS, error};
    rql_status status = RQL_OK;

    (void)snprintf(rows->cursor, sizeof rows->cursor, "0");
    for (int i = 0; !status && i < ROUNDS_MAX; i++) {
        status = read_page(&reader, rows);
        if (strcmp(rows->cursor, "0") == 0) {
            break;
        }
    }
    sort(rows);
    return status;
}

bool rqli_host_table_is_zombie(const struct rqli_host_table *rows,
                               const struct rqli_host_table_row *row, int64_t zombie_ttl_ms)
{
    return row->last_us >= 0 && row->last_us < rows->server_us - zombie_ttl_ms * 1000;
}
