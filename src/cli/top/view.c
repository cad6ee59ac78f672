#include "view.h"

#include "format.h"
#include "locks.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    HEAD_LINES = 4,
    FOOT_LINES = 1,
    NAME_LEAST = 10,
    WIDE = 100,  /* columns with which all numbers are shown */
    NARROW = 80, /* with fewer than this the times are left out, too */
    HOLDER_LEAST = 20,
    LINE_SIZE = 4096,
    LETTER_SIZE = 8, /* of UTF-8 */
    CHAIN_MAX = 32,  /* locks in a chain of waiters */
};

/* ---- lines ---- */

/* Returns how many bytes of the text, which is UTF-8, fit into so many columns. */
static size_t fitting(const char *text, size_t columns)
{
    char letter[LETTER_SIZE];
    size_t size = 0;
    size_t used = 0;

    while (text[size] != '\0') {
        size_t length = 1;

        while (length + 1 < sizeof letter && ((unsigned char)text[size + length] & 0xc0) == 0x80) {
            length++;
        }
        (void)snprintf(letter, sizeof letter, "%.*s", (int)length, text + size);
        used += cli_text_width(letter);
        if (used > columns) {
            break;
        }
        size += length;
    }
    return size;
}

/* Appends text that is cut and filled up to so many columns. */
static void put(char *line, const char *text, size_t columns)
{
    CLI_AUTO(cli_free) char *safe = cli_text_for_terminal(text);
    const bool is_cut = cli_text_width(safe) > columns;
    const size_t size = fitting(safe, is_cut && columns > 0 ? columns - 1 : columns);
    const size_t length = strlen(line);
    size_t width;

    (void)snprintf(line + length, LINE_SIZE - length, "%.*s%s", (int)size, safe, is_cut ? "…" : "");
    width = cli_text_width(line + length);
    for (size_t at = strlen(line); width < columns && at + 1 < LINE_SIZE; at++, width++) {
        line[at] = ' ';
        line[at + 1] = '\0';
    }
}

/* Returns the number of columns of a text as it is shown. */
static size_t shown_width(const char *text)
{
    CLI_AUTO(cli_free) char *safe = cli_text_for_terminal(text);

    return cli_text_width(safe);
}

static void put_whole(char *line, const char *text)
{
    put(line, text, shown_width(text));
}

/* At least one blank is in front of the text. */
static void put_right(char *line, const char *text, size_t columns)
{
    const size_t width = cli_text_width(text);
    const size_t room = columns - 1;

    put(line, "", width < room ? columns - width : 1);
    put(line, text, width < room ? width : room);
}

static void put_duration(char *line, int64_t ms, size_t columns)
{
    char text[CLI_DURATION_SIZE];

    put_right(line, cli_format_duration(ms, text), columns);
}

/* Adds a line, unless it is one of those that are scrolled past, or the sheet is full. */
static void add(struct top_sheet *self, int style, const char *text)
{
    char line[LINE_SIZE] = "";

    self->n_added++;
    if (self->n_skipped > 0) {
        self->n_skipped--;
        return;
    }
    if (self->n_lines == self->height) {
        self->is_cut = true;
        return;
    }
    put(line, text, self->width);
    self->lines[self->n_lines++] =
        (struct top_line){.text = cli_must(strdup(line)), .style = style};
}

__attribute__((format(printf, 3, 4))) static void add_text(struct top_sheet *self, int style,
                                                           const char *format, ...)
{
    char text[LINE_SIZE];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    add(self, style, text);
}

/* ---- the list ---- */

/* Returns the columns of the numbers between name and holder. */
static size_t numbers_width(size_t width)
{
    return width >= WIDE ? 56 : width >= NARROW ? 47 : 29;
}

static size_t name_width(const struct top_look *look, size_t width)
{
    const size_t others = numbers_width(width) + HOLDER_LEAST;
    const size_t most = width > others + NAME_LEAST ? width - others : NAME_LEAST;
    size_t longest = NAME_LEAST;

    for (size_t i = 0; i < look->n_rows; i++) {
        const size_t columns = shown_width(look->rows[i].name);

        longest = columns > longest ? columns : longest;
    }
    return longest < most ? longest : most;
}

static void put_rate(char *line, const struct top_row *row, size_t columns)
{
    char text[CLI_DURATION_SIZE] = "-";

    if (row->served >= 0) {
        (void)snprintf(text, sizeof text, "%.1f%s", row->served, row->is_least ? "+" : "");
    }
    put_right(line, text, columns);
}

/* With a rate that is the least one the wait is the longest one. */
static void put_expected(char *line, const struct top_row *row, int64_t ms, size_t columns)
{
    char duration[CLI_DURATION_SIZE];
    char text[CLI_DURATION_SIZE + 1];

    (void)snprintf(text, sizeof text, "%s%s", row->is_least ? "<" : "",
                   cli_format_duration(ms, duration));
    put_right(line, ms >= 0 ? text : row->waiting > 0 ? "?" : "-", columns);
}

static void put_times(char *line, const struct top_row *row, size_t width)
{
    if (width < NARROW) {
        return;
    }
    put_duration(line, row->held_ms, 9);
    if (row->is_endless) {
        put_right(line, "forever", 9);
    } else {
        put_duration(line, row->left_ms, 9);
    }
    if (width >= WIDE) {
        put_expected(line, row, row->expect_ms, 9);
    }
}

/* Holder and reason share what is left of the line. */
static void put_holder(char *line, const struct top_look *look, const struct top_row *row)
{
    const rql_lock_info *lock = row->lock;
    const char *reason = lock ? cli_meta_value(lock->meta, lock->n_meta, "reason") : NULL;
    char name[CLI_NAME_SIZE];
    char text[LINE_SIZE];

    top_holder(look, row, name);
    (void)snprintf(text, sizeof text, "  %s%s%.512s", name, reason ? "  " : "",
                   reason ? reason : "");
    put_whole(line, text);
}

static void add_row(struct top_sheet *self, const struct top_look *look, const struct top_row *row,
                    size_t columns, bool is_chosen)
{
    char holders[CLI_SHARE_SIZE];
    char number[CLI_DURATION_SIZE];
    char line[LINE_SIZE] = "";

    put(line, row->name, columns);
    put_right(line, row->lock ? cli_holders_text(row->lock, holders) : "-", 10);
    (void)snprintf(number, sizeof number, "%lld", (long long)row->waiting);
    put_right(line, number, 9);
    put_rate(line, row, 10);
    put_times(line, row, self->width);
    put_holder(line, look, row);
    add(self, is_chosen ? TOP_CHOSEN : TOP_PLAIN, line);
}

/* Returns the place of the chosen row. If its lock has ended, the row at its place is chosen. */
static size_t place_of(const struct top_view *self, const struct top_row *const *rows, size_t count)
{
    for (size_t i = 0; self->name && i < count; i++) {
        if (strcmp(rows[i]->name, self->name) == 0) {
            return i;
        }
    }
    return count > 0 && self->place >= count ? count - 1 : self->place;
}

static void choose(struct top_view *self, const struct top_row *row, size_t place)
{
    char *copy = cli_must(strdup(row->name));

    free(self->name);
    self->name = copy;
    self->place = place;
}

static const char *headings(size_t width)
{
    return width >= WIDE     ? "   HOLDERS  WAITING  SERVED/S     HELD     LEFT   EXPECT  HOLDER"
           : width >= NARROW ? "   HOLDERS  WAITING  SERVED/S     HELD     LEFT  HOLDER"
                             : "   HOLDERS  WAITING  SERVED/S  HOLDER";
}

static void draw_list(struct top_view *self, struct top_look *look, struct top_sheet *sheet)
{
    CLI_AUTO(cli_free)
    const struct top_row **rows = top_look_sort(look, self->order, self->is_reversed);
    const size_t columns = name_width(look, sheet->width);
    const size_t room = sheet->height - sheet->n_lines > FOOT_LINES + 1
                            ? sheet->height - sheet->n_lines - FOOT_LINES - 1
                            : 1;
    const size_t chosen = place_of(self, rows, look->n_rows);
    char line[LINE_SIZE] = "";

    put(line, "NAME", columns);
    put(line, headings(sheet->width), sheet->width > columns ? sheet->width - columns : 0);
    add(sheet, TOP_BOLD, line);
    self->top = chosen < self->top ? chosen : self->top;
    self->top = chosen >= self->top + room ? chosen - room + 1 : self->top;
    for (size_t i = self->top; i < look->n_rows && i < self->top + room; i++) {
        add_row(sheet, look, rows[i], columns, i == chosen);
    }
    if (look->n_rows > 0) {
        choose(self, rows[chosen], chosen);
    }
}

/* ---- one lock ---- */

static void add_meta(struct top_sheet *sheet, const rql_meta *meta, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        add_text(sheet, TOP_PLAIN, "  %.128s=%.512s", meta[i].name, meta[i].value);
    }
}

/* Of a lock whose holders were not read: this picture is the first one of it. */
static void add_lock(struct top_sheet *sheet, const struct top_look *look,
                     const struct top_row *row)
{
    char name[CLI_NAME_SIZE];

    top_holder(look, row, name);
    add_text(sheet, TOP_BOLD, "held by %s", name);
    add_meta(sheet, row->lock->meta, row->lock->n_meta);
}

static void add_holder(struct top_sheet *sheet, const struct top_look *look,
                       const rql_holder_info *holder)
{
    char name[CLI_NAME_SIZE];
    char age[CLI_DURATION_SIZE];
    char left[CLI_DURATION_SIZE];
    const int64_t age_ms = cli_age_ms(holder->acquired_at_us, look->server_us);

    add_text(sheet, TOP_BOLD, "held by %s",
             cli_acquirer_name(&look->names, holder->acquirer_id,
                               cli_holder_in(holder->meta, holder->n_meta), name));
    add_text(sheet, TOP_PLAIN, "  token %lld   for %s   left %s", (long long)holder->token,
             cli_format_duration(age_ms, age), cli_format_duration(holder->remaining_ms, left));
    add_meta(sheet, holder->meta, holder->n_meta);
}

/* The wait of a place in the queue is its part of the wait of the last one. */
static void add_request(struct top_sheet *sheet, const struct top_look *look,
                        const struct top_row *row, const rql_request_info *request)
{
    const char *reason = cli_meta_value(request->meta, request->n_meta, "reason");
    char name[CLI_NAME_SIZE];
    char number[CLI_DURATION_SIZE];
    char line[LINE_SIZE] = "";

    (void)snprintf(number, sizeof number, "%lld", (long long)request->position);
    put_right(line, number, 7);
    put_duration(line, cli_age_ms(request->score_us, look->server_us), 9);
    put_expected(line, row,
                 row->served > 0 ? (int64_t)((double)request->position * 1000 / row->served) : -1,
                 9);
    put(line, "  ", 2);
    (void)snprintf(number, sizeof number, "%lld/%lld", (long long)request->share_units,
                   (long long)request->share_limit);
    put(line, request->share_units > 0 ? number : "alone", 10);
    put_whole(line, cli_acquirer_name(&look->names, request->acquirer_id,
                                      cli_holder_in(request->meta, request->n_meta), name));
    if (reason) {
        put(line, "  ", 2);
        put_whole(line, reason);
    }
    add(sheet, TOP_PLAIN, line);
}

static void draw_lock(struct top_view *self, const struct top_look *look, struct top_sheet *sheet)
{
    const struct top_row *row = self->name ? top_look_find(look, self->name) : NULL;
    const rql_queue_info *queue = row ? row->queue : NULL;
    const bool is_read = row && look->holders && strcmp(look->holders_of, row->name) == 0;
    const rql_holder_list *holders = is_read ? look->holders : NULL;

    add(sheet, TOP_BOLD, self->name ? self->name : "");
    if (!row || !row->lock) {
        add(sheet, TOP_PLAIN, "free");
    }
    for (size_t i = 0; row && holders && i < holders->count; i++) {
        add_holder(sheet, look, holders->item[i]);
    }
    if (row && row->lock && !holders) {
        add_lock(sheet, look, row);
    }
    add(sheet, TOP_PLAIN, "");
    add(sheet, TOP_BOLD, queue ? "  PLACE    WAITS   EXPECT  SHARE     WHO" : "nobody waits");
    for (size_t i = 0; queue && i < queue->n_requests && !sheet->is_cut; i++) {
        add_request(sheet, look, row, queue->requests[i]);
    }
}

/* ---- who waits for whom ---- */

static const char *owner_of(const struct top_row *row)
{
    const bool is_of_one = row->lock && !row->lock->is_kept && !cli_is_of_several(row->lock);

    return is_of_one ? row->lock->acquirer_id : NULL;
}

static void add_waiters(struct top_sheet *sheet, const struct top_look *look,
                        const struct top_row *row)
{
    const rql_request_info *request = row->queue->requests[0];
    char name[CLI_NAME_SIZE];

    add_text(sheet, TOP_PLAIN, "   %lld wait: %s%s", (long long)row->waiting,
             cli_acquirer_name(&look->names, request->acquirer_id,
                               cli_holder_in(request->meta, request->n_meta), name),
             row->waiting > 1 ? " …" : "");
}

static void add_link(struct top_sheet *sheet, const struct top_look *look,
                     const struct top_row *row, const struct top_row *next, int depth)
{
    char name[CLI_NAME_SIZE];
    char held[CLI_DURATION_SIZE];

    top_holder(look, row, name);
    if (!row->lock) {
        (void)snprintf(name, sizeof name, "free");
    }
    add_text(sheet, depth == 0 ? TOP_BOLD : TOP_PLAIN, "%*s%s%.512s  %s%s%s%s%.512s",
             depth > 0 ? 2 * depth - 1 : 0, "", depth > 0 ? "└ " : "", row->name, name,
             row->lock ? ", for " : "", row->lock ? cli_format_duration(row->held_ms, held) : "",
             next ? ", waits itself for " : "", next ? next->name : "");
}

static bool is_among(const struct top_row *const *rows, int count, const struct top_row *row)
{
    for (int i = 0; i < count; i++) {
        if (rows[i] == row) {
            return true;
        }
    }
    return false;
}

/* Follows the holder of a lock to the lock that it waits for itself, and so on. */
static void add_chain(struct top_sheet *sheet, const struct top_look *look,
                      const struct top_row *first)
{
    const struct top_row *chain[CHAIN_MAX];
    const struct top_row *row = first;

    for (int depth = 0; depth < CHAIN_MAX; depth++) {
        const struct top_row *next = top_look_waits_for(look, owner_of(row));

        chain[depth] = row;
        add_link(sheet, look, row, next, depth);
        if (depth == 0) {
            add_waiters(sheet, look, row);
        }
        if (!next) {
            return;
        }
        if (is_among(chain, depth + 1, next)) {
            add_text(sheet, TOP_CHOSEN, "%*s└ %.512s: DEADLOCK", 2 * depth + 1, "", next->name);
            return;
        }
        row = next;
    }
}

static void draw_blocked(struct top_look *look, struct top_sheet *sheet)
{
    CLI_AUTO(cli_free) const struct top_row **rows = top_look_sort(look, TOP_WAITING, false);

    if (look->n_rows == 0 || rows[0]->waiting == 0) {
        add(sheet, TOP_PLAIN, "nobody waits");
    }
    for (size_t i = 0; i < look->n_rows && rows[i]->waiting > 0 && !sheet->is_cut; i++) {
        add_chain(sheet, look, rows[i]);
    }
}

/* ---- the screen ---- */

static void add_head(struct top_sheet *sheet, const struct top_view *self,
                     const struct top_look *look, const rql_error *fault)
{
    char every[CLI_DURATION_SIZE];
    char ago[CLI_DURATION_SIZE];
    char clock[16] = "";
    const time_t now = time(NULL);
    struct tm parts;

    if (localtime_r(&now, &parts)) {
        (void)strftime(clock, sizeof clock, "%H:%M:%S", &parts);
    }
    add_text(sheet, TOP_PLAIN, "rql top - %s   %s   every %s%s%s", self->url, clock,
             cli_format_duration(self->every_ms, every), self->is_busy ? " (busy)" : "",
             self->is_paused ? "   PAUSED" : "");
    if (!look) {
        add(sheet, TOP_PLAIN, "");
    } else if (look->served < 0) {
        add_text(sheet, TOP_PLAIN, "locks %lld   waiting %lld", (long long)look->n_locks,
                 (long long)look->n_waiting);
    } else {
        add_text(sheet, TOP_PLAIN, "locks %lld   waiting %lld   served/s %.1f",
                 (long long)look->n_locks, (long long)look->n_waiting, look->served);
    }
    if (fault) {
        add_text(sheet, TOP_CHOSEN, "no answer for %s: %s",
                 cli_format_duration(look ? cli_now_ms() - look->begun_ms : -1, ago),
                 fault->message);
    } else {
        add(sheet, TOP_PLAIN, "");
    }
}

static void add_foot(struct top_sheet *sheet, const struct top_view *self,
                     const struct top_look *look)
{
    while (sheet->n_lines + FOOT_LINES < sheet->height) {
        add(sheet, TOP_PLAIN, "");
    }
    if (self->page == TOP_LIST) {
        add_text(sheet, TOP_FAINT,
                 "[enter] look  [s]ort: %s%s  [b]locked  [space] pause  [q]uit   %zu in all",
                 top_order_names[self->order], self->is_reversed ? ", reversed" : "",
                 look ? look->n_rows : 0);
    } else {
        add(sheet, TOP_FAINT, "[esc] back  [space] pause  [q]uit");
    }
}

static void drop_lines(struct top_sheet *sheet, size_t n_left)
{
    while (sheet->n_lines > n_left) {
        free(sheet->lines[--sheet->n_lines].text);
    }
}

static void draw_body(struct top_view *self, struct top_look *look, struct top_sheet *sheet)
{
    sheet->n_skipped = self->page == TOP_LIST ? 0 : self->n_skipped;
    sheet->n_added = 0;
    switch (self->page) {
    case TOP_LIST:
        draw_list(self, look, sheet);
        break;
    case TOP_LOCK:
        draw_lock(self, look, sheet);
        break;
    case TOP_BLOCKED:
        draw_blocked(look, sheet);
        break;
    }
}

/* The last line is the foot's, and the one before it says that there is more. */
static void end_body(struct top_sheet *sheet, struct top_view *self)
{
    const size_t room = sheet->height - FOOT_LINES;
    const bool is_cut = self->page != TOP_LIST && (sheet->is_cut || sheet->n_lines > room);

    sheet->n_skipped = 0;
    sheet->is_cut = false;
    self->is_cut = is_cut;
    drop_lines(sheet, is_cut ? room - 1 : sheet->n_lines < room ? sheet->n_lines : room);
    if (is_cut) {
        add(sheet, TOP_FAINT, "… more: down, page down");
    }
}

void top_view_draw(struct top_view *self, struct top_look *look, const rql_error *fault,
                   struct top_sheet *sheet)
{
    size_t n_lines;
    size_t room;
    size_t most;

    add_head(sheet, self, look, fault);
    n_lines = sheet->n_lines;
    room = sheet->height - n_lines - FOOT_LINES;
    if (look) {
        draw_body(self, look, sheet);
    }
    most = sheet->n_added > room ? sheet->n_added - room : 0;
    if (look && !sheet->is_cut && self->page != TOP_LIST && self->n_skipped > most) {
        self->n_skipped = most; /* the page has become shorter, or keys came faster than frames */
        drop_lines(sheet, n_lines);
        draw_body(self, look, sheet);
    }
    end_body(sheet, self);
    add_foot(sheet, self, look);
}

/* ---- keys ---- */

/* Returns how many rows or lines this key moves by on a screen of this height: one, or a page. */
static size_t step_of(enum top_key key, size_t height)
{
    if (key == TOP_UP || key == TOP_DOWN) {
        return 1;
    }
    return height > HEAD_LINES + FOOT_LINES ? height - HEAD_LINES - FOOT_LINES : 1;
}

static void move(struct top_view *self, struct top_look *look, enum top_key key, size_t height)
{
    CLI_AUTO(cli_free)
    const struct top_row **rows = top_look_sort(look, self->order, self->is_reversed);
    const size_t step = step_of(key, height);
    const bool is_up = key == TOP_UP || key == TOP_PAGE_UP;
    size_t place = place_of(self, rows, look->n_rows);

    if (look->n_rows == 0) {
        return;
    }
    if (key == TOP_FIRST || (is_up && place < step)) {
        place = 0;
    } else if (key == TOP_LAST || (!is_up && place + step >= look->n_rows)) {
        place = look->n_rows - 1;
    } else {
        place = is_up ? place - step : place + step;
    }
    choose(self, rows[place], place);
}

/* Moves through a page that is longer than the screen. */
static void scroll(struct top_view *self, enum top_key key, size_t height)
{
    const size_t step = step_of(key, height);

    if (key == TOP_FIRST) {
        self->n_skipped = 0;
    } else if (key == TOP_UP || key == TOP_PAGE_UP) {
        self->n_skipped = self->n_skipped > step ? self->n_skipped - step : 0;
    } else if (self->is_cut) {
        self->n_skipped += step;
    }
}

static void open_page(struct top_view *self, enum top_page page)
{
    self->page = page;
    self->n_skipped = 0;
    self->is_cut = false;
}

void top_view_press(struct top_view *self, struct top_look *look, enum top_key key, size_t height)
{
    switch (key) {
    case TOP_BACK:
        open_page(self, TOP_LIST);
        break;
    case TOP_SORT:
        self->order = (self->order + 1) % TOP_N_ORDERS;
        break;
    case TOP_REVERSE:
        self->is_reversed = !self->is_reversed;
        break;
    case TOP_SHOW_BLOCKED:
        open_page(self, self->page == TOP_BLOCKED ? TOP_LIST : TOP_BLOCKED);
        break;
    case TOP_PAUSE:
        self->is_paused = !self->is_paused;
        break;
    case TOP_ENTER:
        if (look && look->n_rows > 0 && self->page == TOP_LIST && self->name) {
            open_page(self, TOP_LOCK);
        }
        break;
    case TOP_UP:
    case TOP_DOWN:
    case TOP_PAGE_UP:
    case TOP_PAGE_DOWN:
    case TOP_FIRST:
    case TOP_LAST:
        if (look && self->page == TOP_LIST) {
            move(self, look, key, height);
        } else {
            scroll(self, key, height);
        }
        break;
    }
}
