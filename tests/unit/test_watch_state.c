#include "check.h"

#include "admin/watch_state.h"

#include <stdio.h>
#include <string.h>

/* What two readings of a lock say together. */

enum { SECOND_US = 1000000, TEXT_SIZE = 512 };

#define SHARED "rql:acq:shared/0/0/0/00000000000000000000000000000000"

/* A reading: the text of its holders and of its queue is short, and what a test is about. */
struct row {
    const char *owner; /* of a lock of one; NULL: the lock is free */
    int64_t token;
    int64_t left_ms;
    const char *sharers; /* "ab": a holds 1 of 8, token 1; b, token 2 */
    const char *queue;   /* "cd": c waits since 100, d since 200; upper case: since 500 */
};

struct reading {
    struct rqli_watched watched;
    rql_lock_info lock;
    rql_holder_list holders;
    rql_holder_info holder[4];
    rql_holder_info *holder_at[4];
    rql_queue_info queue;
    rql_request_info request[8];
    rql_request_info *request_at[8];
    char ids[12][2];
    size_t n_ids;
};

static const char *id_of(struct reading *self, char letter)
{
    char *id = self->ids[self->n_ids++];

    id[0] = (char)(letter | 0x20); /* lower case */
    id[1] = '\0';
    return id;
}

static void read_sharers(struct reading *self, const struct row *row)
{
    const size_t count = strlen(row->sharers);

    self->lock = (rql_lock_info){.acquirer_id = SHARED, .token = -1, .remaining_ms = row->left_ms};
    self->holders = (rql_holder_list){.count = count, .item = self->holder_at};
    for (size_t i = 0; i < count; i++) {
        const char letter = row->sharers[i];

        self->holder[i] = (rql_holder_info){.acquirer_id = id_of(self, letter),
                                            .token = letter & 0x1f,
                                            .acquired_at_us = 0,
                                            .remaining_ms = row->left_ms,
                                            .share_units = letter & 0x20 ? 1 : 2,
                                            .share_limit = 8};
        self->holder_at[i] = &self->holder[i];
    }
    self->watched.holders = &self->holders;
    self->watched.lock = &self->lock;
}

static void read_queue(struct reading *self, const struct row *row)
{
    const size_t count = strlen(row->queue);

    self->queue = (rql_queue_info){.n_requests = count, .requests = self->request_at};
    for (size_t i = 0; i < count; i++) {
        const char letter = row->queue[i];

        self->request[i] = (rql_request_info){.acquirer_id = id_of(self, letter),
                                              .score_us = letter & 0x20 ? 100 : 500};
        self->request_at[i] = &self->request[i];
    }
    self->watched.queue = &self->queue;
}

static void read_row(struct reading *self, const struct row *row, int64_t server_us)
{
    *self =
        (struct reading){.watched = {.name = "x", .server_us = server_us, .held_us = server_us}};
    if (row->sharers) {
        read_sharers(self, row);
    } else if (row->owner) {
        self->lock = (rql_lock_info){.acquirer_id = row->owner,
                                     .token = row->token,
                                     .acquired_at_us = 0,
                                     .remaining_ms = row->left_ms,
                                     .is_kept = strcmp(row->owner, "kept") == 0};
        self->watched.lock = &self->lock;
    }
    if (row->queue) {
        read_queue(self, row);
    }
}

static const char *const kinds[] = {"now",      "granted",  "shared",   "left",
                                    "released", "expired",  "extended", "converted",
                                    "queued",   "withdrew", "requeued"};

/* Appends "granted a; ", with a ? if something was missed. */
static void note(const rql_change *change, void *user_data)
{
    char *text = user_data;
    const size_t length = strlen(text);

    (void)snprintf(text + length, TEXT_SIZE - length, "%s%s %s%s", length > 0 ? "; " : "",
                   kinds[change->kind], change->acquirer_id, change->has_missed ? "?" : "");
    assert_string_equal(change->name, "x");
    assert_int_equal(change->at_us, SECOND_US);
}

TEST(each_difference_is_an_event)
{
    static const struct {
        struct row before;
        struct row now;
        const char *events;
    } table[] = {
        {{NULL}, {NULL}, ""},
        {{"a", 1, 15000}, {"a", 1, 14000}, ""},
        {{NULL}, {"a", 1, 15000}, "granted a"},
        {{"a", 1, 15000}, {NULL}, "released a"},
        {{"a", 1, 900}, {NULL}, "expired a"},
        {{"a", 1, -1}, {NULL}, "released a"},
        {{"a", 1, 5000}, {"a", 1, 15000}, "extended a"},
        {{"a", 1, 5000}, {"a", 1, -1}, "extended a"},
        {{"a", 1, 15000}, {"a", 2, 15000}, "released a; granted a"},
        {{"a", 1, 15000}, {"kept", 1, 15000}, "released a"},
        {{"a", 1, 15000, .queue = "b"}, {"b", 2, 15000}, "released a; granted b"},
        {{"a", 1, 15000, .queue = "bc"}, {"c", 3, 15000}, "released a; granted c?; withdrew b?"},
        {{"a", 1, 15000, .queue = "bc"}, {"c", 3, 15000, .queue = "b"}, "released a; granted c"},
        {{"a", 1, 15000}, {"a", 1, 14000, .queue = "b"}, "queued b"},
        {{"a", 1, 15000, .queue = "bc"}, {"a", 1, 14000, .queue = "c"}, "withdrew b"},
        {{"a", 1, 15000, .queue = "bc"}, {"a", 1, 14000, .queue = "cB"}, "requeued b"},
        {{.queue = "b"}, {NULL}, "withdrew b?"},
        {{"a", 1, 15000, .queue = "b"}, {"b", 2, 15000, .queue = "b"}, "released a; granted b"},
        {{NULL}, {.left_ms = 9000, .sharers = "a"}, "shared a"},
        {{.left_ms = 9000, .sharers = "ab"}, {.left_ms = 8000, .sharers = "b"}, "left a"},
        {{.left_ms = 900, .sharers = "ab"},
         {.left_ms = 9000, .sharers = "b"},
         "expired a; extended b"},
        {{.left_ms = 9000, .sharers = "a", .queue = "c"},
         {.left_ms = 8000, .sharers = "ac"},
         "shared c"},
        {{.left_ms = 9000, .sharers = "a"}, {.left_ms = 8000, .sharers = "A"}, "converted a"},
        {{"a", 1, 9000}, {.left_ms = 8000, .sharers = "a"}, "converted a"},
    };

    EACH (row, table) {
        struct reading before;
        struct reading now;
        char text[TEXT_SIZE] = "";

        read_row(&before, &row->before, 0);
        read_row(&now, &row->now, SECOND_US);
        rqli_watched_compare(&before.watched, &now.watched, note, text);
        assert_string_equal(text, row->events);
    }
}

static void keep(const rql_change *change, void *user_data)
{
    *(rql_change *)user_data = *change;
}

TEST(a_change_says_how_long_and_how_many)
{
    const struct row waiting = {"a", 1, 15000, .queue = "bc"};
    const struct row served = {"b", 2, 14000, .queue = "c"};
    struct reading before;
    struct reading now;
    rql_change change;

    read_row(&before, &waiting, 0);
    read_row(&now, &served, SECOND_US);
    now.lock.acquired_at_us = SECOND_US / 2;
    rqli_watched_compare(&before.watched, &now.watched, keep, &change);
    CHECK_ALL(EQ(change.kind, RQL_CHANGE_GRANTED), EQ(change.token, 2), EQ(change.held_ms, 500),
              EQ(change.waited_ms, 499), EQ(change.remaining_ms, 14000), EQ(change.waiting, 1),
              EQ(change.n_holders, 1), EQ(change.share_units, 0));
    rqli_watched_report(&now.watched, keep, &change);
    CHECK_ALL(EQ(change.kind, RQL_CHANGE_NOW), EQ(change.token, 2), EQ(change.waiting, 1),
              EQ(change.share_units, 0), EQ(change.share_limit, 0));
    read_row(&now, &(const struct row){NULL}, SECOND_US);
    rqli_watched_report(&now.watched, keep, &change);
    CHECK_ALL(EQ(change.kind, RQL_CHANGE_NOW), EQ(change.token, -1), EQ(change.n_holders, 0),
              EQ(change.share_units, -1), EQ(change.share_limit, -1));
    read_row(&now, &(const struct row){.left_ms = 9000, .sharers = "ab"}, SECOND_US);
    rqli_watched_report(&now.watched, keep, &change);
    CHECK_ALL(EQ(change.n_holders, 2), EQ(change.share_units, -1), EQ(change.share_limit, -1));
    read_row(&now, &(const struct row){.left_ms = 9000, .sharers = "A"}, SECOND_US);
    rqli_watched_report(&now.watched, keep, &change);
    CHECK_ALL(EQ(change.n_holders, 1), EQ(change.share_units, 2), EQ(change.share_limit, 8));
}

TEST(a_change_has_metadata_and_share)
{
    static const rql_meta reason = {"reason", "why"};
    struct reading before;
    struct reading now;
    rql_change change;

    read_row(&before, &(const struct row){"a", 1, 15000}, 0);
    read_row(&now, &(const struct row){"a", 1, 14000, .queue = "b"}, SECOND_US);
    now.request[0].share_units = 2;
    now.request[0].share_limit = 8;
    now.request[0].n_meta = 1;
    now.request[0].meta = &reason;
    rqli_watched_compare(&before.watched, &now.watched, keep, &change);
    CHECK_ALL(EQ(change.kind, RQL_CHANGE_QUEUED), EQ(change.share_units, 2),
              EQ(change.share_limit, 8), EQ(change.n_meta, 1), EQ(change.meta == &reason, true),
              EQ(change.token, -1), EQ(change.held_ms, -1), EQ(change.remaining_ms, -1));
    read_row(&now, &(const struct row){"b", 2, 14000}, SECOND_US);
    now.lock.n_meta = 1;
    now.lock.meta = &reason;
    rqli_watched_compare(&before.watched, &now.watched, keep, &change);
    CHECK_ALL(EQ(change.kind, RQL_CHANGE_GRANTED), EQ(change.n_meta, 1),
              EQ(change.meta == &reason, true));
}
