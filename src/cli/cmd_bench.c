#include "benchmark.h"
#include "cmd.h"
#include "format.h"
#include "held.h"
#include "messages.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

/* bench: measures what this server can do with locks, compared with what it can do without them. */

enum {
    FOR_MS = 10000,
    FOR_LEAST_MS = 1000,
    FOR_MOST_MS = 300000,
    LATE_MS = 1500, /* the program ends this long after its time in any case */
    CELL_SIZE = 32,
    COLUMNS = CLI_BENCHMARK_COUNTS_MAX + 3,
    LINE_SIZE = 512,
    US_PER_MS = 1000,
};

/* The table points to these texts until it is printed. */
static char cells[COLUMNS][LINE_SIZE];
static const char *headings[COLUMNS + 1];

/* ---- the command line ---- */

/* Parses a list such as "1,8,32", with each number larger than the one before. Returns how many
 * there are, or 0 if the list is not valid. */
static size_t read_counts(const char *text, size_t counts[CLI_BENCHMARK_COUNTS_MAX])
{
    size_t n = 0;
    size_t last = 0;

    while (text) {
        char *end = NULL;
        const unsigned long count = *text >= '1' && *text <= '9' ? strtoul(text, &end, 10) : 0;

        if (count <= last || count > CLI_SLOT_THREADS_MAX || n == CLI_BENCHMARK_COUNTS_MAX ||
            (*end != '\0' && *end != ',')) {
            return 0;
        }
        last = count;
        counts[n++] = count;
        text = *end == ',' ? end + 1 : NULL;
    }
    return n;
}

static int check_bench(struct cli_args *args)
{
    size_t counts[CLI_BENCHMARK_COUNTS_MAX];

    args->for_ms = args->for_ms == CLI_UNSET ? FOR_MS : args->for_ms;
    args->threads = args->threads ? args->threads : "1,8,32";
    if (args->for_ms < FOR_LEAST_MS || args->for_ms > FOR_MOST_MS) {
        return cli_misused(&cli_bench, "from 1s to 5m is possible for ", "--for");
    }
    if (read_counts(args->threads, counts) == 0) {
        return cli_misused(&cli_bench,
                           "--threads is up to four numbers from 1 to 256, each larger than the "
                           "one before, as in 1,8,32; not ",
                           args->threads);
    }
    return cli_take_url(args);
}

/* ---- results ---- */

/* Returns a quantile over all slots of a row, or a negative number if no slot has the figure. */
static double quantile(const struct cli_benchmark_row *row, enum cli_figure figure,
                       unsigned percent)
{
    double known[CLI_BENCHMARK_ROUNDS_MAX];
    size_t n_known = 0;

    for (size_t i = 0; i < row->n; i++) {
        if (row->got[i].of[figure] >= 0) {
            known[n_known++] = row->got[i].of[figure];
        }
    }
    return n_known > 0 ? cli_percentile(known, n_known, percent) : -1;
}

static double median(const struct cli_benchmark_row *row, enum cli_figure figure)
{
    return quantile(row, figure, 50);
}

/* Returns the ratio of the medians to those of another load with as many threads; negative if it is
 * not known. */
static double ratio_to(const struct cli_benchmark *self, const struct cli_benchmark_row *row,
                       enum cli_load load)
{
    const struct cli_benchmark_row *other = self->rows;
    const double own = median(row, CLI_PER_SECOND);

    while (other->load != load || other->size != row->size) {
        other++;
    }
    return own >= 0 && median(other, CLI_PER_SECOND) > 0 ? own / median(other, CLI_PER_SECOND) : -1;
}

static void print_row_json(struct out *out, const struct cli_benchmark *self,
                           const struct cli_benchmark_row *row)
{
    static const char *const keys[CLI_FIGURES] = {
        [CLI_PER_SECOND] = "per_second", [CLI_COMMANDS] = "commands",
        [CLI_CPU_US] = "server_cpu_us",  [CLI_P50_US] = "p50_us",
        [CLI_P99_US] = "p99_us",
    };
    static const char *const loads[] = {
        [CLI_LOAD_PING] = "ping",
        [CLI_LOAD_PLAIN] = "plain_lock",
        [CLI_LOAD_PAIR] = "pair",
        [CLI_LOAD_HAND_OVER] = "hand_over",
    };
    const bool is_crowd = row->load == CLI_LOAD_HAND_OVER;

    out_begin(out, NULL);
    out_text(out, NULL, "load", loads[row->load]);
    out_number(out, NULL, is_crowd ? "waiting" : "threads", OUT_INT, (int64_t)row->size);
    out_number(out, NULL, "slots", OUT_INT, (int64_t)row->n);
    for (enum cli_figure i = CLI_PER_SECOND; i < (is_crowd ? CLI_FIGURES : CLI_P50_US); i++) {
        out_begin(out, keys[i]);
        out_real(out, "median", median(row, i));
        out_real(out, "q1", quantile(row, i, 25));
        out_real(out, "q3", quantile(row, i, 75));
        out_end(out);
    }
    if (!is_crowd) {
        out_real(out, "to_ping", ratio_to(self, row, CLI_LOAD_PING));
        out_real(out, "to_plain_lock", ratio_to(self, row, CLI_LOAD_PLAIN));
    }
    out_end(out);
}

static void print_json(struct out *out, const struct cli_benchmark *self)
{
    out_begin(out, NULL);
    cli_print_server(out, "server", &self->server);
    out_number(out, NULL, "took_ms", OUT_INT, (cli_now_us() - self->begun_us) / US_PER_MS);
    out_real(out, "others_cpu_percent", self->others_percent);
    out_real(out, "ping_p99_us", self->first_p99_us);
    out_text(out, NULL, "stopped", *self->stopped ? self->stopped : NULL);
    out_text(out, NULL, "no_server_cpu",
             self->no_cpu.status != RQL_OK ? self->no_cpu.message : NULL);
    out_begin_list(out, "loads");
    for (size_t i = 0; i < self->n_rows; i++) {
        print_row_json(out, self, &self->rows[i]);
    }
    out_end(out);
    out_end(out);
}

/* Formats a rate as "2 410", "18.9k" or "1.20M". */
static const char *print_rate(double value, char out[CELL_SIZE])
{
    if (value < 0) {
        (void)snprintf(out, CELL_SIZE, "-");
    } else if (value < 999.5) {
        (void)snprintf(out, CELL_SIZE, "%.0f", value);
    } else if (value < 9999.5) {
        (void)snprintf(out, CELL_SIZE, "%d %03d", (int)(value + 0.5) / 1000,
                       (int)(value + 0.5) % 1000);
    } else if (value < 999950) {
        (void)snprintf(out, CELL_SIZE, "%.1fk", value / 1000);
    } else {
        (void)snprintf(out, CELL_SIZE, "%.2fM", value / 1000000);
    }
    return out;
}

static void __attribute__((format(printf, 2, 3))) add(char line[LINE_SIZE], const char *format, ...)
{
    const size_t length = strlen(line);
    va_list list;

    va_start(list, format);
    (void)vsnprintf(line + length, LINE_SIZE - length, format, list);
    va_end(list);
}

static void add_ratio(char line[LINE_SIZE], double ratio)
{
    add(line, ratio < 0 ? "%s-" : "%s%.2fx", *line ? " " : "", ratio);
}

/* Adds the costs of one operation. A cost that is not known is left out. */
static void add_costs(char line[LINE_SIZE], const char *lead, const struct cli_benchmark_row *row)
{
    const double commands = median(row, CLI_COMMANDS);
    const double cpu_us = median(row, CLI_CPU_US);

    if (commands >= 0) {
        add(line, "%s%.1f commands", lead, commands);
    }
    if (cpu_us >= 0) {
        add(line, "%s%.0f us of server CPU", commands >= 0 ? ", " : lead, cpu_us);
    }
    if (commands >= 0 || cpu_us >= 0) {
        add(line, " each");
    }
}

/* Sets the headings. Numbers are right-aligned, as in any table. */
static void set_headings(const struct cli_benchmark *self)
{
    const rql_server_info *server = &self->server;

    (void)snprintf(cells[0], LINE_SIZE, "%s %s, %s, %.2f ms away", server->product, server->version,
                   server->node, (double)server->round_trip_us / US_PER_MS);
    for (size_t i = 0; i < self->n_counts; i++) {
        (void)snprintf(cells[i + 1], LINE_SIZE, i == 0 ? "threads %zu" : "%7zu", self->counts[i]);
    }
    (void)snprintf(cells[self->n_counts + 1], LINE_SIZE, "to PING");
    (void)snprintf(cells[self->n_counts + 2], LINE_SIZE, "to the plain lock");
    for (size_t i = 0; i < self->n_counts + 3; i++) {
        headings[i] = cells[i];
    }
}

/* Prints the rows of one load as a line of the table, with a rate for each number of threads. */
static void print_load(struct out *out, const struct cli_benchmark *self,
                       const struct cli_benchmark_row *rows)
{
    static const char *const names[] = {
        "PING, per second", "plain lock (SET NX PX, compare and delete)", "librql pair"};
    char to_ping[LINE_SIZE] = "";
    char to_plain[LINE_SIZE] = "";
    char rate[CELL_SIZE];
    char cell[CELL_SIZE];

    out_begin(out, NULL);
    out_text(out, headings[0], NULL, names[rows->load]);
    for (size_t i = 0; i < self->n_counts; i++) {
        (void)snprintf(cell, sizeof cell, "%*s", (int)strlen(headings[i + 1]),
                       print_rate(median(&rows[i], CLI_PER_SECOND), rate));
        out_text(out, headings[i + 1], NULL, cell);
        add_ratio(to_ping, ratio_to(self, &rows[i], CLI_LOAD_PING));
        add_ratio(to_plain, ratio_to(self, &rows[i], CLI_LOAD_PLAIN));
    }
    if (rows->load > CLI_LOAD_PING) {
        out_text(out, headings[self->n_counts + 1], NULL, to_ping);
    }
    if (rows->load > CLI_LOAD_PLAIN) {
        out_text(out, headings[self->n_counts + 2], NULL, to_plain);
    }
    out_end(out);
}

static void print_crowd(struct out *out, const struct cli_benchmark_row *row)
{
    char line[LINE_SIZE] = "";

    add(line, "hand-over, %zu wait: ", row->size);
    if (row->n == 0) {
        add(line, "not measured");
    } else {
        add(line, "p50 %.2f ms, p99 %.2f ms", median(row, CLI_P50_US) / US_PER_MS,
            median(row, CLI_P99_US) / US_PER_MS);
        add_costs(line, "; ", row);
    }
    out_line(out, "%s", line);
}

/* Prints the sum. The rate of one lock depends on the round trip to the server, the rate of all
 * locks together only on the server. */
static void print_sum(struct out *out, const struct cli_benchmark_row *row)
{
    char line[LINE_SIZE] = "";
    char rate[CELL_SIZE];

    if (row->n > 0) {
        add(line, "one lock can change hands about %s times a second here",
            print_rate(median(row, CLI_PER_SECOND), rate));
    }
    if (median(row, CLI_CPU_US) > 0) {
        add(line, "; the server about %s times", print_rate(1e6 / median(row, CLI_CPU_US), rate));
    }
    if (*line) {
        out_line(out, "%s", line);
    }
}

static void print_table(struct out *out, const struct cli_benchmark *self)
{
    const size_t n_loads = CLI_BENCHMARK_LOADS * self->n_counts;
    char line[LINE_SIZE] = "";

    set_headings(self);
    out_columns(out, headings);
    for (size_t i = 0; i < n_loads; i += self->n_counts) {
        print_load(out, self, &self->rows[i]);
    }
    add_costs(line, "librql pair: ", &self->rows[CLI_LOAD_PAIR * self->n_counts]);
    if (*line) {
        out_line(out, "%s", line);
    }
    for (size_t i = n_loads; i < self->n_rows; i++) {
        print_crowd(out, &self->rows[i]);
    }
    print_sum(out, &self->rows[n_loads + 1]);
    if (self->no_cpu.status != RQL_OK) {
        out_line(out, "the server's CPU time is not known: %s", self->no_cpu.message);
    }
}

/* ---- all ---- */

/* Ends the program. Nothing else would end it in time if the server no longer answers. Locks that
 * are left behind expire by their ttl. */
static void end_late(int number)
{
    static const char text[] = "rql: bench: the server does not answer in time\n";

    (void)number;
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _Exit(CLI_FAULT);
}

static void end_by(int64_t ms)
{
    const struct itimerval late = {
        .it_value = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * US_PER_MS}};
    const struct sigaction action = {.sa_handler = end_late};

    (void)sigaction(SIGALRM, &action, NULL);
    (void)setitimer(ITIMER_REAL, &late, NULL);
}

static int finish(struct cli_session *session, struct cli_benchmark *self)
{
    if (self->n_rows > 0 && session->args->json) {
        print_json(&session->out, self);
    } else if (self->n_rows > 0) {
        print_table(&session->out, self);
    }
    if (!*self->stopped) {
        return CLI_DONE;
    }
    out_print(&session->out);
    cli_say("%s", self->stopped);
    return CLI_REFUSED;
}

static int bench(struct cli_session *session)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    CLI_AUTO(cli_free) struct cli_benchmark *self = cli_must(calloc(1, sizeof *self));
    const struct cli_args *args = session->args;
    bool is_fine;

    self->slots.signals = cli_signals(ending, sizeof ending / sizeof ending[0]);
    (void)pthread_sigmask(SIG_BLOCK, &self->slots.signals, NULL);
    self->n_counts = read_counts(args->threads, self->counts);
    self->is_forced = args->force;
    self->begun_us = cli_now_us();
    self->end_us = self->begun_us + args->for_ms * US_PER_MS;
    end_by(args->for_ms + LATE_MS);
    is_fine = cli_benchmark_run(self, &args->options);
    end_by(0);
    if (self->slots.signal != 0) {
        return -self->slots.signal;
    }
    if (!is_fine && self->slots.error.status == RQL_E_UNKNOWN) {
        cli_say("bench: the server or this machine is too slow to be measured now: %s",
                self->slots.error.message);
        return CLI_FAULT;
    }
    return is_fine ? finish(session, self) : cli_fault(&self->slots.error);
}

const struct cli_command cli_bench = {
    .name = "bench",
    .takes_locks = true,
    .usage = "[URL] [--for DURATION] [--threads LIST] [--force] [--json]",
    .summary = "Measure what this server can do",
    .examples = "  rql bench redis://locks.example.com --threads 1,16\n",
    .notes = "Measures pairs (an acquire and a release of a free lock) and hand-overs, next to "
             "PING and a plain lock. This loads the server. It does not begin if others use more "
             "than 20 % of a processor of the server, unless --force is given. It stops, and exits "
             "with 1, if the p99 of PING triples and rises by 5 ms, because others suffer then. "
             "All its locks are named rql-bench-..., live for at most 10 s and are gone at the "
             "end. The options of the library count, such as --lazy-release true and --spin-us 50. "
             "A URL with a password belongs in RQL_URL.\n",
    .takes_url = true,
    .prepare = check_bench,
    .run = bench,
};
