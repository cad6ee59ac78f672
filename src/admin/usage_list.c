#include "admin/infos.h"
#include "admin/pages.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/result.h"
#include "wire/answer.h"
#include "wire/keys.h"

#include <rql/history.h>
#include <string.h>

/* Reads the usage (lua/optional.md 73): a hash for each day. A field or value that cannot be read
 * is left out, because another program has written it. */

enum { FIELDS_PAGE = 1000 /* COUNT of one HSCAN */ };

/* A walk through the hash of a day, and the rows of all days by then. */
struct listing {
    struct rqli_walk walk; /* first */
    struct rqli_infos rows;
    int64_t day_us;
    int64_t since_us; /* the first day that has a field; -1: none */
    int64_t dropped;  /* of this day */
    rql_history_mode mode;
};

static rql_history_mode mode_of(struct rqli_slice word)
{
    return rqli_slice_is(word, "all") ? RQL_HISTORY_ALL : RQL_HISTORY_LONG;
}

/* Reads "holds held_us waited_us lost". */
static bool read_sums(struct rqli_slice value, rql_usage_info *out)
{
    int64_t *const numbers[] = {&out->holds, &out->held_us, &out->waited_us, &out->lost};
    bool is_read = true;

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        is_read = rqli_parse_int(rqli_slice_word(&value), numbers[i]) && is_read;
    }
    return is_read;
}

/* Cuts off what is in front of a tab. */
static struct rqli_slice cut(struct rqli_slice *rest)
{
    struct rqli_slice part = rqli_slice_take(rest, rqli_slice_before(*rest, "\t"));

    (void)rqli_slice_take(rest, rest->length > 0 ? 1 : 0);
    return part;
}

/* Reads a field, "user <tab> host <tab> name", or "other". */
static rql_usage_info *read_row(struct rqli_slice field, struct rqli_slice value)
{
    const bool is_other = rqli_slice_is(field, "other");
    rql_usage_info *info = rqli_result_new(sizeof *info + field.length + 3);
    struct rqli_slice rest = is_other ? (struct rqli_slice){"", 0} : field;
    char *cursor = (char *)(info + 1);

    if (info) {
        info->user = rqli_pack(&cursor, cut(&rest));
        info->host = rqli_pack(&cursor, cut(&rest));
        info->name = rqli_pack(&cursor, rest);
    }
    if (info && !read_sums(value, info)) {
        info = rql_free(info);
    }
    return info;
}

static void take_field(struct rqli_walk *walk, struct rqli_slice field, struct rqli_slice value)
{
    struct listing *self = (struct listing *)walk;
    int64_t number;

    if (rqli_slice_is(field, "mode")) {
        self->mode = mode_of(value);
    } else if (rqli_slice_is(field, "dropped")) {
        self->dropped = rqli_parse_int(value, &number) ? number : 0;
    } else if (rqli_is_plain(value)) {
        rql_usage_info *info = read_row(field, value);

        if (info) {
            info->day_us = self->day_us;
            rqli_infos_add(&self->rows, info);
        }
    }
    self->since_us = self->since_us < 0 ? self->day_us : self->since_us;
}

/* By day, and then in the order of what the rows are about. */
static int compare(const void *a, const void *b)
{
    const rql_usage_info *left = *(const rql_usage_info *const *)a;
    const rql_usage_info *right = *(const rql_usage_info *const *)b;
    int order = (left->day_us > right->day_us) - (left->day_us < right->day_us);

    order = order ? order : strcmp(left->user, right->user);
    order = order ? order : strcmp(left->host, right->host);
    return order ? order : strcmp(left->name, right->name);
}

/* Reads the server's clock. */
static rql_status read_now(rql_client *client, const struct rqli_key_set *set, int64_t *out_us,
                           rql_error *error)
{
    const struct rqli_keys keys = {.set = set};
    RQLI_AUTO(rqli_batch_give) struct rqli_batch *batch = NULL;
    rql_status status = rqli_query_about(client, &keys, &batch, error, "TIME", NULL);

    if (status) {
        return rqli_reader_status(status, rqli_client_node(client, &keys), error);
    }
    return rqli_time_read(batch->reply, out_us)
               ? RQL_OK
               : rqli_batch_fault(batch, batch->reply, "TIME", "server", error);
}

/* Reads one day. HSCAN may return a field more than once. */
static rql_status read_day(struct listing *self, struct rqli_reader *reader, int64_t day)
{
    char key[RQLI_HISTORY_KEY_SIZE];
    rql_status status;

    self->day_us = day * RQLI_DAY_US;
    self->dropped = 0;
    reader->where = rqli_usage_key(reader->set, day, key).data;
    rqli_walk_init(&self->walk, NULL, key);
    self->walk.take_field = take_field;
    status = rqli_walk_read_all(reader, &self->walk, FIELDS_PAGE);
    rqli_walk_fini_p(&self->walk);
    return status;
}

rql_status rql_usage_list(rql_client *client, int64_t days, rql_usage_info_list **out,
                          rql_error *error)
{
    RQLI_DEFER_CANCEL;
    RQLI_AUTO(rql_free) rql_usage_info_list *list = NULL;
    struct listing listing = {.since_us = -1};
    struct rqli_reader reader = {.client = client, .error = error};
    int64_t dropped = 0;
    int64_t now_us = 0;
    rql_status status = rqli_client_check(client, error);

    if (!status && (!out || days < 1 || days > RQL_USAGE_DAYS)) {
        status =
            rqli_fail(error, RQL_E_INVALID, "days is not 1 to %d, or out is NULL", RQL_USAGE_DAYS);
    }
    if (status) {
        return status;
    }
    reader.set = rqli_client_nth_set(client, 0);
    status = read_now(client, reader.set, &now_us, error);
    for (int64_t day = now_us / RQLI_DAY_US - days + 1; !status && day <= now_us / RQLI_DAY_US;
         day++) {
        status = read_day(&listing, &reader, day);
        dropped += listing.dropped;
    }
    if (status) {
        rqli_infos_fini_p(&listing.rows);
        return status;
    }
    list = rqli_infos_give(&listing.rows, sizeof *list, compare, compare);
    if (!list) {
        return rqli_fail_nomem(error);
    }
    list->since_us = listing.since_us;
    list->now_us = now_us;
    list->dropped = dropped;
    list->mode = listing.mode;
    *out = RQLI_GIVE(list);
    return RQL_OK;
}
