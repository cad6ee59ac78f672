#include "check.h"

#include "lock/client.h"
#include "lock/notify.h"
#include "lock/series.h"

#include <stdlib.h>

/* Every line as the gem has printed it: the texts are from the recordings in ../golden. */

#define ACQUIRER "rql:acq:18466/600/620/640/aaaaaaaaaaaaaaa1"
#define HOST "rql:hst:18466/600/640/aaaaaaaaaaaaaaa1"
#define IDS " acq_id => '" ACQUIRER "' hst_id => '" HOST "' acs_strat => 'queued'"
#define COMMON " lock_key => 'rql:lock:x' queue_ttl => 15" IDS

enum { LINES_MAX = 8, TOLD_MAX = 4, LINE_SIZE = 1024 };

static char lines[LINES_MAX][LINE_SIZE];
static size_t n_lines;
static size_t n_taken;
static rql_client *client;
static rql_lock *lock;

static void take(const rql_log_record *record, void *user_data)
{
    assert_ptr_equal(user_data, lines);
    assert_true(n_lines < LINES_MAX);
    assert_true(rql_log_text(record, lines[n_lines++], LINE_SIZE) < LINE_SIZE);
}

static rql_lock *make_lock(const char *name)
{
    struct rqli_slice word = rqli_slice_of(name);
    rql_lock *made = calloc(1, sizeof *made + rqli_keys_room(word));

    assert_non_null(made);
    made->client = client;
    made->hand_off_us = -1;
    rqli_keys_init(&made->keys, made->memory, &rqli_key_sets[RQLI_WHOLE], word);
    (void)snprintf(made->acquirer, sizeof made->acquirer, "%s", ACQUIRER);
    (void)snprintf(made->host, sizeof made->host, "%s", HOST);
    made->subject = (struct rqli_subject){.stats = client->stats,
                                          .keys = &made->keys.lock.data,
                                          .n_keys = 1,
                                          .acquirer = made->acquirer,
                                          .host = made->host,
                                          .logger = take,
                                          .logger_data = lines,
                                          .ttl_ms = 5000,
                                          .queue_ttl_ms = 15000,
                                          .logs_tries = true};
    return made;
}

BEFORE_EACH(set_up)
{
    client = calloc(1, sizeof *client);
    assert_non_null(client);
    client->stats = rqli_stats_new();
    assert_non_null(client->stats);
    lock = make_lock("x");
    n_lines = 0;
    n_taken = 0;
}

AFTER_EACH(tear_down)
{
    free(lock);
    rqli_stats_free(client->stats);
    free(client);
}

static void check_line(const char *expected)
{
    assert_true(n_taken < n_lines);
    assert_string_equal(lines[n_taken++], expected);
}

static void check_no_more(void)
{
    assert_int_equal(n_lines, n_taken);
}

/* What is logged, and what stands behind what all lines have. */
struct line {
    const char *what; /* or all of the line, with its bracket */
    const char *rest;
};

static void check_told(const struct line *line)
{
    char expected[LINE_SIZE];

    if (line->what[0] == '[') {
        check_line(line->what);
        return;
    }
    (void)snprintf(expected, sizeof expected, "[redis_queued_locks.%s]%s%s", line->what, COMMON,
                   line->rest ? line->rest : "");
    check_line(expected);
}

/* What one moment says. */
static const struct told {
    const char *name;
    enum rqli_moment moment;
    bool is_quiet; /* tries are not logged */
    struct rqli_figures figures;
    struct line lines[TOLD_MAX];
} told[] = {
    {"an acquisition begins", RQLI_ON_STARTED, .lines = {{"start_lock_obtaining"}}},
    {"a try has one line and its steps", RQLI_ON_TRY,
     .lines = {{"start_try_to_lock_cycle"}, {"try_lock.start"}}},
    {"a try has one line, and its steps only when wanted", RQLI_ON_TRY, .is_quiet = true,
     .lines = {{"start_try_to_lock_cycle"}}},
    {"a free lock is taken", RQLI_ON_ANSWERED_FREE,
     .lines = {{"try_lock.rconn_fetched"}, {"try_lock.obtain__free_to_acquire"}}},
    {"an answer", RQLI_ON_ANSWERED, .lines = {{"try_lock.rconn_fetched"}}},
    {"a re-entry is found", RQLI_ON_ANSWERED_REENTRY,
     .figures = {.ts_us = INT64_C(1795255158435815)},
     .lines = {{"try_lock.rconn_fetched"},
               {"try_lock.same_process_conflict_detected"},
               {"try_lock.same_process_conflict_analyzed",
                " spc_status => 'conflict_work_through'"},
               {"try_lock.reentrant_lock__work_through",
                " spc_status => 'conflict_work_through' last_spc_ts => '1795255158.435815'"}}},
    {"an extending re-entry is found", RQLI_ON_ANSWERED_EXTENSION,
     .figures = {.ts_us = INT64_C(1795255161080997)},
     .lines = {{"try_lock.rconn_fetched"},
               {"try_lock.same_process_conflict_detected"},
               {"try_lock.same_process_conflict_analyzed",
                " spc_status => 'extendable_conflict_work_through'"},
               {"try_lock.reentrant_lock__extend_and_work_through",
                " spc_status => 'extendable_conflict_work_through' last_ext_ttl => 5000"
                " last_ext_ts => '1795255161.080997'"}}},
    {"a conflict is found", RQLI_ON_ANSWERED_CONFLICT,
     .figures = {.ts_us = INT64_C(1795255160499760)},
     .lines = {{"try_lock.rconn_fetched"},
               {"try_lock.same_process_conflict_detected"},
               {"try_lock.same_process_conflict_analyzed", " spc_status => 'conflict_dead_lock'"},
               {"try_lock.single_process_lock_conflict__dead_lock",
                " spc_status => 'conflict_dead_lock' last_spc_ts => '1795255160.49976'"}}},
    {"a request is queued", RQLI_ON_ANSWERED_QUEUED,
     .lines = {{"try_lock.rconn_fetched"}, {"try_lock.acq_added_to_queue"}}},
    {"a queued request is first", RQLI_ON_FIRST_IN_QUEUE,
     .lines = {{"try_lock.get_first_from_queue", " first_acq_id_in_queue => '" ACQUIRER "'"}}},
    {"a queued request is a step", RQLI_ON_ANSWERED_QUEUED, .is_quiet = true},
    {"so is that it is first", RQLI_ON_FIRST_IN_QUEUE, .is_quiet = true},
    {"a request that is put back moves nowhere", RQLI_ON_RESTORED, .lines = {{NULL}}},
    {"a request moves to the tail", RQLI_ON_REQUEUED,
     .lines = {{"try_lock.exit__queue_ttl_reached"},
               {"dead_score_reached__reset_acquirer_position"}}},
    {"the end of an extension", RQLI_ON_ENDING_EXTENSION, .figures = {.ttl_ms = 4673},
     .lines = {{"[redis_queued_locks.decrease_lock] lock_key => 'rql:lock:x' decreased_ttl => 4673"
                " queue_ttl => 15" IDS}}},
};

TEST(every_moment_has_its_lines)
{
    EACH_ROW (row, told) {
        lock->subject.logs_tries = !row->is_quiet;
        rqli_observe(row->moment, &lock->subject, &row->figures);
        for (size_t k = 0; k < TOLD_MAX && row->lines[k].what; k++) {
            check_told(&row->lines[k]);
        }
        check_no_more();
        n_lines = n_taken = 0;
    }
}

/* What the lock of a hold says when it is obtained, and when it ends. */
static const struct held {
    rql_lock_process process;
    int64_t waited_us;
    struct line obtained;
    struct line ends;
} held[] = {
    {RQL_LOCK_OBTAINING, 102495, .obtained = {.what = "lock_obtained", " acq_time => 102.5 (ms)"},
     .ends = {.what = "expire_lock"}},
    {RQL_CONFLICT_WORK_THROUGH, 2330,
     .obtained = {.what = "reentrant_lock_obtained", " acq_time => 2.33 (ms)"}},
    {RQL_EXTENDABLE_CONFLICT_WORK_THROUGH, 3000,
     .obtained = {.what = "[redis_queued_locks.extendable_reentrant_lock_obtained] lock_key =>"
                          " 'rql:lock:x' queue_ttl => 15 acq_id => '" ACQUIRER "' host_id => '" HOST
                          "' acs_strat => 'queued' acq_time => 3.0 (ms)"}},
};

TEST(a_lock_is_obtained_and_its_hold_ends)
{
    EACH (row, held) {
        print_message("# process %d\n", row->process);
        lock->process = row->process;
        lock->waited_us = row->waited_us;
        rqli_notify_obtained(lock);
        check_told(&row->obtained);
        rqli_notify_ending(lock);
        if (row->ends.what) {
            check_told(&row->ends);
        }
        check_no_more();
    }
}

TEST(a_refusal_leaves_the_queue_but_for_those_who_never_queued)
{
    static const char line[] =
        "[redis_queued_locks.fail_fast_or_limits_reached_or_deadlock__dequeue]"
        " lock_key => 'rql:lock:x' queue_ttl => 15 acq_id => '" ACQUIRER "' hst_id => '" HOST
        "' acs_strat => 'random";

    static const struct {
        rql_status status;
        int asked;
        bool leaves;
    } rows[] = {
        {RQL_TIMED_OUT, 1, true},           {RQL_RETRY_LIMIT, 1, true},
        {RQL_FAIL_FAST_AFTER_TRY, 1, true}, {RQL_CONFLICT, 1, true},
        {RQL_FAIL_FAST_NO_TRY, 1, false},   {RQL_E_IO, 1, false},
        {RQL_CONFLICT, 0, false},
    };

    lock->subject.access_strategy = RQL_RANDOM;
    EACH (row, rows) {
        const struct rqli_acquire_result result = {.asked = row->asked};

        print_message("# %s, asked %d\n", rql_status_text(row->status), row->asked);
        rqli_notify_refused(&lock->subject, &result, row->status);
        if (row->leaves) {
            check_line(line);
        }
        check_no_more();
        n_lines = n_taken = 0;
    }
}

TEST(a_series_has_lines_of_its_own)
{
    static const char *const keys[] = {"rql:lock:b", "rql:lock:a", "rql:lock:c"};
    rql_series series = {.client = client, .count = 2, .acq_time_us = 79350};
    char acquirer[RQL_ID_SIZE];
    char host[RQL_ID_SIZE];
    char expected[LINE_SIZE];
    struct rqli_subject started;

    series.subject = lock->subject;
    series.subject.is_series = true;
    series.subject.keys = series.keys;
    started = series.subject;
    started.keys = keys;
    started.n_keys = 3;
    started.acquirer = rql_current_acquirer_id(client, 0, acquirer);
    started.host = rql_current_host_id(client, host);
    rqli_observe(RQLI_ON_SERIES_STARTED, &started, NULL);
    (void)snprintf(expected, sizeof expected,
                   "[redis_queued_locks.start_lock_series_obtaining] lock_keys => "
                   "'[\"rql:lock:b\", \"rql:lock:a\", \"rql:lock:c\"]'queue_ttl => 15 "
                   "acq_id => '%s' hst_id => '%s' acs_strat => 'queued'",
                   acquirer, host);
    check_line(expected);
    series.locks[0] = make_lock("a");
    series.locks[1] = make_lock("b");
    series.keys[0] = series.locks[0]->keys.lock.data;
    series.keys[1] = series.locks[1]->keys.lock.data;
    series.subject.n_keys = 2;
    rqli_observe(RQLI_ON_SERIES_OBTAINED, &series.subject,
                 &(struct rqli_figures){.acq_time_us = series.acq_time_us});
    check_line("[redis_queued_locks.lock_series_obtained] lock_keys => "
               "'[\"rql:lock:a\", \"rql:lock:b\"]' queue_ttl => 15" IDS " acq_time => 79.35 (ms)");
    rqli_observe(RQLI_ON_SERIES_ENDING, &series.subject, NULL);
    check_line("[redis_queued_locks.expire_lock_series] lock_keys => "
               "'[\"rql:lock:a\", \"rql:lock:b\"]' queue_ttl => 15" IDS);
    check_no_more();
    free(series.locks[0]);
    free(series.locks[1]);
}

TEST(a_field_is_written_as_its_kind_has_it)
{
    static const char *const names[] = {"a\"b", "c\\d", "#{e} #$f #@g # h #", "\xC3\xA4\n"};

    static const struct {
        const char *text;
        rql_log_field field;
    } rows[] = {
        {"queue_ttl => 15", {.name = "queue_ttl", .kind = RQL_LOG_SECONDS, .number = 15000}},
        {"queue_ttl => 0", {.name = "queue_ttl", .kind = RQL_LOG_SECONDS, .number = 0}},
        {"queue_ttl => 1.5", {.name = "queue_ttl", .kind = RQL_LOG_SECONDS, .number = 1500}},
        {"queue_ttl => 0.001", {.name = "queue_ttl", .kind = RQL_LOG_SECONDS, .number = 1}},
        {"queue_ttl => forever",
         {.name = "queue_ttl", .kind = RQL_LOG_SECONDS, .number = RQL_FOREVER}},
        {"lock_keys => '[\"a\\\"b\", \"c\\\\d\", \"\\#{e} \\#$f \\#@g # h #\", \"\xC3\xA4?\"]'",
         {.name = "lock_keys", .kind = RQL_LOG_LIST, .items = names, .n_items = 4}},
    };

    EACH_BY (row, rows, row->text) {
        const rql_log_record record = {"a", 1, &row->field};
        char expected[128];
        char line[128];

        (void)snprintf(expected, sizeof expected, "[redis_queued_locks.a] %s", row->text);
        assert_int_equal(rql_log_text(&record, line, sizeof line), strlen(expected));
        assert_string_equal(line, expected);
    }
}

TEST(a_line_is_cut_to_size_and_stays_one_line)
{
    const rql_log_field fields[] = {{.name = "raw", .kind = RQL_LOG_RAW, .text = "a\nb\x7F"},
                                    {.name = "none", .kind = RQL_LOG_QUOTED}};
    const rql_log_record record = {"a", 2, fields};
    static const char whole[] = "[redis_queued_locks.a] raw => a?b? none => ''";
    char line[64];

    assert_int_equal(rql_log_text(&record, NULL, 0), sizeof whole - 1);
    for (size_t size = 1; size <= sizeof line; size++) {
        memset(line, '~', sizeof line);
        assert_int_equal(rql_log_text(&record, line, size), sizeof whole - 1);
        assert_true(strlen(line) == (size < sizeof whole ? size : sizeof whole) - 1);
        assert_memory_equal(line, whole, strlen(line));
    }
}

TEST(a_file_gets_one_line_each)
{
    static char name[3000]; /* longer than any buffer on the stack */
    const rql_log_field field = {.name = "n", .kind = RQL_LOG_QUOTED, .text = name};
    const rql_log_record record = {"a", 1, &field};
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);

    assert_non_null(file);
    memset(name, 'n', sizeof name - 1);
    rql_log_to_file(&record, file);
    name[1] = '\0';
    rql_log_to_file(&record, file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(size, strlen("[redis_queued_locks.a] n => ''\n") * 2 + sizeof name - 1 + 1);
    assert_string_equal(strchr(text, '\n'), "\n[redis_queued_locks.a] n => 'n'\n");
    free(text);
}
