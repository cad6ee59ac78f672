#include "demo/show.h"

#include "common/clock.h"
#include "common/number.h"
#include "common/terminal.h"

#include <stdarg.h>
#include <stdio.h>

enum { BAR_WIDTH = 30, BLOCK_LINES = 6, QUEUE_ON_A_LINE = 5, NAME_SIZE = 16, REMARK_SIZE = 96 };

#define PLAIN "\033[0m"
#define BOLD "\033[1m"
#define DIM "\033[2m"
#define RED "\033[31m"
#define GREEN "\033[32m"

struct name {
    char text[NAME_SIZE];
};

static const char *const process_colours[PROCESSES] = {"36", "33", "35", "34"};

static const char *shade(const struct show *self, const char *code)
{
    return self->colour ? code : "";
}

/* Process letter and thread digit: "B3". */
static struct name name_of(const struct show *self, int worker)
{
    struct name out;
    int process = process_of(worker);
    char letter = (char)('A' + process);
    int thread = worker % THREADS + 1;

    if (worker == NOBODY) {
        (void)snprintf(out.text, sizeof out.text, "--");
    } else if (self->colour) {
        (void)snprintf(out.text, sizeof out.text, "\033[%sm%c%d\033[0m", process_colours[process],
                       letter, thread);
    } else {
        (void)snprintf(out.text, sizeof out.text, "%c%d", letter, thread);
    }
    return out;
}

static double seconds_at(const struct show *self, int64_t when_ns)
{
    return (double)(when_ns - self->began_ns) / (double)RQLB_SECOND;
}

static void print_queue(const struct show *self, const struct scene *scene, size_t at_most)
{
    size_t i;

    for (i = 0; i < scene->n_queue && i < at_most; i++) {
        (void)printf(" %s", name_of(self, scene->queue[i]).text);
    }
    if (i < scene->n_queue) {
        (void)printf(" +%zu", scene->n_queue - i);
    }
}

static void print_bar(const struct show *self, int64_t passed_ns)
{
    int64_t full = passed_ns * BAR_WIDTH / self->length_ns;
    int i;

    (void)printf("  %4.1f s  %s", (double)passed_ns / (double)RQLB_SECOND, shade(self, GREEN));
    for (i = 0; i < BAR_WIDTH; i++) {
        (void)putchar(i < full ? '#' : '.');
    }
    (void)printf("%s\033[K\n", shade(self, PLAIN));
}

static void paint_block(struct show *self, const struct scene *scene)
{
    if (self->painted) {
        (void)printf("\033[%dA", BLOCK_LINES);
    }
    (void)printf("\033[K\n");
    print_bar(self, scene->now_ns - self->began_ns);
    (void)printf("  holder    %s%s   token %lld\033[K\n", name_of(self, scene->holder).text,
                 scene->holder_dead ? " (killed)" : "", (long long)scene->token);
    (void)printf("  queue     %2zu ", scene->n_queue);
    print_queue(self, scene, WORKERS);
    (void)printf("\033[K\n  taken     %s times, %s a second\033[K\n",
                 number_of((int64_t)scene->taken).text, number_of(scene->per_second).text);
    (void)printf("  hand-off  p50 %s us, p99 %s us\033[K\n", number_of(scene->p50_us).text,
                 number_of(scene->p99_us).text);
    self->painted = true;
}

static void print_line(const struct show *self, const struct scene *scene)
{
    (void)printf("  %4.1f s %7s %7s %7s %7s  %s%-4s %16lld  %2zu:", seconds_at(self, scene->now_ns),
                 number_of((int64_t)scene->taken).text, number_of(scene->per_second).text,
                 number_of(scene->p50_us).text, number_of(scene->p99_us).text,
                 name_of(self, scene->holder).text, scene->holder_dead ? " dead" : "",
                 (long long)scene->token, scene->n_queue);
    print_queue(self, scene, QUEUE_ON_A_LINE);
    (void)putchar('\n');
}

static void print_event(struct show *self, const char *colour, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A line that stays: printed over the block, which is then painted again below it. */
static void print_event(struct show *self, const char *colour, const char *format, ...)
{
    va_list arguments;

    if (self->painted) {
        (void)printf("\033[%dA\033[J", BLOCK_LINES);
        self->painted = false;
    }
    if (self->terminal && !self->told) {
        (void)putchar('\n');
        self->told = true;
    }
    (void)printf("  %4.1f s  %s", seconds_at(self, now_ns()), shade(self, colour));
    va_start(arguments, format);
    (void)vprintf(format, arguments);
    va_end(arguments);
    (void)printf("%s\n", shade(self, PLAIN));
    (void)fflush(stdout);
}

void show_init(struct show *self, double seconds)
{
    *self = (struct show){.length_ns = (int64_t)(seconds * (double)RQLB_SECOND)};
    self->terminal = is_terminal();
    self->colour = wants_colour();
}

void show_title(const struct show *self)
{
    (void)printf("%slibrql demo%s   %d processes (A to %c) with %d threads each want one lock,\n"
                 "              each holder works for 0.5 to 2 ms.\n",
                 shade(self, BOLD), shade(self, PLAIN), PROCESSES, 'A' + PROCESSES - 1, THREADS);
    if (!self->terminal) {
        (void)printf(
            "\n                          hand-off us\n"
            "    time   taken   per s     p50     p99  holder            token  waiting\n");
    }
    (void)fflush(stdout);
}

void show_scene(struct show *self, const struct scene *scene)
{
    if (self->terminal) {
        paint_block(self, scene);
    } else {
        print_line(self, scene);
    }
    (void)fflush(stdout);
}

void show_kill(struct show *self, int worker, int64_t token)
{
    print_event(self, RED, "SIGKILL for process %c while %c%d holds the lock (token %lld)",
                'A' + process_of(worker), 'A' + process_of(worker), worker % THREADS + 1,
                (long long)token);
}

void show_move(struct show *self, const struct killing *killing)
{
    int worker = killing->next_worker;

    print_event(self, GREEN, "the next holder is %c%d, %s ms after the kill (TTL %s ms)",
                'A' + process_of(worker), worker % THREADS + 1,
                number_of((killing->moved_on_ns - killing->killed_ns) / RQLB_MS).text,
                number_of(LOCK_TTL_MS).text);
}

void show_node(struct show *self, const char *node)
{
    print_event(self, GREEN, "the lock is now on %s", node);
}

void show_end(struct show *self)
{
    self->painted = false;
    (void)putchar('\n');
}

static void print_figures(const struct show *self, const struct verdict *verdict,
                          const struct killing *killing)
{
    double seconds = (double)self->length_ns / (double)RQLB_SECOND;

    (void)printf("  acquisitions   %s in %.0f s\n", number_of((int64_t)verdict->holds).text,
                 seconds);
    (void)printf("  hand-off       p50 %s us, p99 %s us, from the call of release to the next "
                 "holder\n",
                 number_of(histogram_quantile(&verdict->hand_offs, 0.5) / RQLB_US).text,
                 number_of(histogram_quantile(&verdict->hand_offs, 0.99) / RQLB_US).text);
    (void)printf("  share          %s to %s acquisitions for each thread that lived\n",
                 number_of((int64_t)verdict->least).text, number_of((int64_t)verdict->most).text);
    if (killing->moved_on_ns != 0) {
        (void)printf("  after SIGKILL  %s ms until the next holder\n",
                     number_of((killing->moved_on_ns - killing->killed_ns) / RQLB_MS).text);
    }
    (void)putchar('\n');
}

enum result { BROKEN, KEPT, NOT_TESTED };

/* One promise, whether it was kept, and what that rests on. */
static bool print_promise(const struct show *self, enum result result, const char *promise,
                          const char *format, ...) __attribute__((format(printf, 4, 5)));

static bool print_promise(const struct show *self, enum result result, const char *promise,
                          const char *format, ...)
{
    static const char *const words[] = {"FAIL", "ok", "--"};
    static const char *const colours[] = {RED, GREEN, DIM};
    va_list arguments;

    (void)printf("  %s%-4s%s  %-26s %s", shade(self, colours[result]), words[result],
                 shade(self, PLAIN), promise, shade(self, DIM));
    va_start(arguments, format);
    (void)vprintf(format, arguments);
    va_end(arguments);
    (void)printf("%s\n", shade(self, PLAIN));
    return result != BROKEN;
}

static enum result kept_if(bool is_kept)
{
    return is_kept ? KEPT : BROKEN;
}

/* "", or what is added to the figures of a promise. */
struct remark {
    char text[REMARK_SIZE];
};

/* A count of what was left out, and why. */
static struct remark left_out(size_t n, const char *why)
{
    struct remark out = {""};

    if (n > 0) {
        (void)snprintf(out.text, sizeof out.text, "; %s left out: %s", number_of((int64_t)n).text,
                       why);
    }
    return out;
}

static bool print_overlaps(const struct show *self, const struct verdict *verdict)
{
    return print_promise(
        self, kept_if(verdict->overlaps == 0), "no two holds overlapped",
        "%zu overlaps in %s holds of all processes%s", verdict->overlaps,
        number_of((int64_t)verdict->holds).text,
        left_out(verdict->outlived, "the holder was paused for longer than its TTL").text);
}

/* A holder that goes on after its lease overwrites what the next ones have written: that no lock
 * can prevent, and nothing follows from the counter then. */
static bool print_updates(const struct show *self, const struct verdict *verdict)
{
    if (verdict->outlived > 0) {
        return print_promise(self, NOT_TESTED, "no update was lost",
                             "not tested: %zu holders were paused for longer than the TTL",
                             verdict->outlived);
    }
    return print_promise(self, kept_if(verdict->counter == verdict->counter_wanted),
                         "no update was lost", "counter without any other protection: %s of %s",
                         number_of(verdict->counter).text, number_of(verdict->counter_wanted).text);
}

/* The first wait that was passed over. */
static struct remark passed_over(const struct show *self, const struct verdict *verdict)
{
    struct remark out = {""};

    if (verdict->passed) {
        (void)snprintf(out.text, sizeof out.text, "; %s got it at %.3f s, after %.0f ms, behind %s",
                       name_of(self, verdict->passed->worker).text,
                       seconds_at(self, verdict->passed->entered_ns),
                       (double)verdict->passed_us * 1e-3, name_of(self, verdict->passed_by).text);
    }
    return out;
}

static bool print_order(const struct show *self, const struct verdict *verdict)
{
    struct remark still = left_out(verdict->waits_still, "their process was paused");
    struct remark moved =
        left_out(verdict->waits_moved, "the lock moved to another server, all served");

    if (verdict->waits_passed > 0 || verdict->waits_forgotten > 0) {
        return print_promise(self, BROKEN, "order was kept",
                             "%zu of %zu waits were passed over, %zu never served%s%s%s",
                             verdict->waits_passed, verdict->waits_seen, verdict->waits_forgotten,
                             passed_over(self, verdict).text, still.text, moved.text);
    }
    if (verdict->waits_granted == 0) {
        return print_promise(self, NOT_TESTED, "order was kept",
                             "not tested: no wait could be judged%s%s", still.text, moved.text);
    }
    return print_promise(self, KEPT, "order was kept",
                         "%s waits seen in the queue, served in that order%s%s",
                         number_of((int64_t)verdict->waits_granted).text, still.text, moved.text);
}

static bool print_survival(const struct show *self, const struct killing *killing)
{
    if (killing->process == NOBODY) {
        return print_promise(self, NOT_TESTED, "survived a dead holder",
                             "not tested: the demo ended before a holder could be killed");
    }
    return print_promise(self, kept_if(killing->moved_on_ns != 0), "survived a dead holder", "%s",
                         killing->moved_on_ns != 0
                             ? "its lock expired, and the next waiter got it"
                             : "the lock was not granted again after the kill");
}

bool show_verdict(const struct show *self, const struct verdict *verdict,
                  const struct killing *killing)
{
    bool good = true;

    print_figures(self, verdict, killing);
    good &= print_overlaps(self, verdict);
    good &= print_updates(self, verdict);
    good &= print_order(self, verdict);
    good &= print_promise(self, kept_if(verdict->token_faults == 0), "fencing tokens rose",
                          "%zu of %s are not larger than all before", verdict->token_faults,
                          number_of((int64_t)verdict->holds).text);
    good &= print_survival(self, killing);
    return good && verdict->holds > 0;
}
