#include "view.h"

#include "format.h"
#include "page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Head and foot of all pages, and keys. */

enum { HEAD_LINES = 4 };

void top_view_free_p(struct top_view *self)
{
    free(self->name);
    free(self->who);
    top_change_free(self->change);
}

/* ---- the head ---- */

/* Appends the hosts of the swarm, and the first one that is dead. */
static void put_hosts(char *line, const struct top_look *look)
{
    const rql_host_info *dead = NULL;
    char name[CLI_NAME_SIZE];
    char silent[CLI_DURATION_SIZE];
    char text[TOP_LINE_SIZE];
    size_t n_dead = 0;

    for (size_t i = 0; look->hosts && i < look->hosts->count; i++) {
        if (look->hosts->item[i]->is_zombie) {
            dead = dead ? dead : look->hosts->item[i];
            n_dead++;
        }
    }
    if (!look->hosts || look->hosts->count == 0) {
        return;
    }
    (void)snprintf(text, sizeof text, "   hosts %zu", look->hosts->count);
    top_put_whole(line, text);
    if (dead) {
        (void)snprintf(
            text, sizeof text, " (%zu dead: %.128s, %s)", n_dead,
            cli_host_name(&look->names, dead->host_id, name),
            cli_format_duration(cli_age_ms(dead->last_probe_us, look->hosts->server_us), silent));
        top_put_whole(line, text);
    }
    if (look->flusher[0] != '\0') {
        (void)snprintf(text, sizeof text, "   flusher %.128s",
                       cli_host_name(&look->names, look->flusher, name));
        top_put_whole(line, text);
    }
}

static void add_totals(struct top_sheet *sheet, const struct top_look *look)
{
    char line[TOP_LINE_SIZE] = "";
    char text[CLI_NAME_SIZE];

    (void)snprintf(text, sizeof text, "locks %lld   waiting %lld", (long long)look->n_locks,
                   (long long)look->n_waiting);
    top_put_whole(line, text);
    if (look->served >= 0) {
        (void)snprintf(text, sizeof text, "   served/s %.1f", look->served);
        top_put_whole(line, text);
    }
    put_hosts(line, look);
    top_add(sheet, TOP_PLAIN, line);
}

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
    top_add_text(sheet, TOP_PLAIN, "rql top%s%s - %s   %s   every %s%s%s", self->pattern ? " " : "",
                 self->pattern ? self->pattern : "", self->url, clock,
                 cli_format_duration(self->every_ms, every), self->is_busy ? " (busy)" : "",
                 self->is_paused ? "   PAUSED" : "");
    if (look) {
        add_totals(sheet, look);
    } else {
        top_add(sheet, TOP_PLAIN, "");
    }
    if (fault) {
        top_add_text(sheet, TOP_CHOSEN, "no answer for %s: %s",
                     cli_format_duration(look ? cli_now_ms() - look->begun_ms : -1, ago),
                     fault->message);
    } else {
        top_add(sheet, TOP_PLAIN, "");
    }
}

/* ---- the foot ---- */

static void add_question(struct top_sheet *sheet, const struct top_change *change)
{
    top_add_words(sheet, TOP_CHOSEN, change->question, 0);
    if (change->command) {
        top_add(sheet, TOP_PLAIN, "same as:");
        top_add_words(sheet, TOP_PLAIN, change->command, 2);
    }
    if (sheet->n_lines == sheet->height) {
        top_drop_lines(sheet, sheet->height - 1);
    }
    top_add(sheet, TOP_FAINT, "[y]es  [n]o");
}

/* The most needed first: a narrow terminal cuts the end. */
static void add_keys(struct top_sheet *sheet, const struct top_view *self)
{
    const char *changes = !self->may_change        ? ""
                          : self->page == TOP_LIST ? "[u]nlock  "
                          : self->page == TOP_LOCK ? "[u]nlock  [x] remove  "
                                                   : "";

    if (self->page == TOP_LIST) {
        top_add_text(sheet, TOP_FAINT,
                     "[q]uit  [enter] look  [b]locked  [h]osts  %s[/] %s  [s]ort: %s%s  "
                     "[space] pause",
                     changes, self->glob[0] != '\0' ? self->glob : "filter",
                     top_order_names[self->order], self->is_reversed ? ", reversed" : "");
    } else {
        top_add_text(sheet, TOP_FAINT, "[q]uit  [esc] back  %s[space] pause", changes);
    }
}

static void draw_foot(struct top_sheet *sheet, const struct top_view *self)
{
    if (self->mode == TOP_ASKING) {
        add_question(sheet, self->change);
    } else if (self->mode == TOP_TYPING) {
        top_add_text(sheet, TOP_BOLD, "names like: %s_", self->glob);
    } else if (self->change) {
        top_add(sheet, TOP_BOLD, self->change->progress);
    } else if (self->note[0] != '\0') {
        top_add(sheet, TOP_BOLD, self->note);
    } else {
        add_keys(sheet, self);
    }
}

/* Puts the foot at the end of the picture. Its lines are the sheet's then. */
static void add_foot(struct top_sheet *sheet, const struct top_sheet *foot)
{
    while (sheet->n_lines + foot->n_lines < sheet->height) {
        top_add(sheet, TOP_PLAIN, "");
    }
    top_drop_lines(sheet, sheet->height - foot->n_lines);
    memcpy(sheet->lines + sheet->n_lines, foot->lines, foot->n_lines * sizeof *foot->lines);
    sheet->n_lines += foot->n_lines;
}

/* ---- the body ---- */

static void draw_page(struct top_view *self, struct top_look *look, struct top_sheet *sheet,
                      size_t room)
{
    sheet->n_skipped = self->page == TOP_LIST ? 0 : self->n_skipped;
    sheet->n_added = 0;
    sheet->chosen = 0;
    switch (self->page) {
    case TOP_LIST:
        top_draw_list(self, look, sheet, room);
        break;
    case TOP_LOCK:
        top_draw_lock(self, look, sheet);
        break;
    case TOP_BLOCKED:
        top_draw_blocked(look, sheet);
        break;
    case TOP_HOSTS:
        top_draw_hosts(look, sheet);
        break;
    }
}

/* Returns how many lines are to be scrolled past: the page may have become shorter, and what is
 * chosen is shown. The last line of the room says that there is more. */
static size_t skipped_of(const struct top_view *self, const struct top_sheet *sheet, size_t room)
{
    const size_t most = sheet->n_added > room ? sheet->n_added - room + 1 : 0;
    size_t n_skipped = self->n_skipped < most ? self->n_skipped : most;

    if (self->page == TOP_LOCK && sheet->chosen > 0 && room > 1) {
        n_skipped = sheet->chosen <= n_skipped ? sheet->chosen - 1 : n_skipped;
        n_skipped = sheet->chosen > n_skipped + room - 1 ? sheet->chosen - (room - 1) : n_skipped;
    }
    return n_skipped;
}

/* The last line is the foot's, and the one before it says that there is more. */
static void end_body(struct top_sheet *sheet, struct top_view *self, size_t n_head, size_t room)
{
    const bool is_cut = self->page != TOP_LIST && (sheet->is_cut || sheet->n_lines > n_head + room);

    sheet->n_skipped = 0;
    sheet->is_cut = false;
    self->is_cut = is_cut;
    if (sheet->n_lines > n_head + room - is_cut) {
        top_drop_lines(sheet, n_head + room - is_cut);
    }
    if (is_cut) {
        top_add(sheet, TOP_FAINT, "… more: down, page down");
    }
}

static void draw_body(struct top_view *self, struct top_look *look, struct top_sheet *sheet,
                      size_t n_foot)
{
    const size_t n_head = sheet->n_lines;
    const size_t n_fixed = n_head + n_foot;
    const size_t room = sheet->height > n_fixed ? sheet->height - n_fixed : 0;
    size_t n_skipped;

    draw_page(self, look, sheet, room);
    n_skipped = skipped_of(self, sheet, room);
    if (self->page != TOP_LIST && n_skipped != self->n_skipped) {
        self->n_skipped = n_skipped;
        sheet->is_cut = false;
        top_drop_lines(sheet, n_head);
        draw_page(self, look, sheet, room);
    }
    end_body(sheet, self, n_head, room);
}

void top_view_draw(struct top_view *self, struct top_look *look, const rql_error *fault,
                   struct top_sheet *sheet)
{
    struct top_sheet foot = {.width = sheet->width, .height = sheet->height};

    foot.lines = cli_must(calloc(foot.height, sizeof *foot.lines));
    draw_foot(&foot, self);
    add_head(sheet, self, look, fault);
    if (look) {
        draw_body(self, look, sheet, foot.n_lines);
    }
    sheet->n_skipped = 0;
    add_foot(sheet, &foot);
    free(foot.lines);
}

/* ---- keys that move ---- */

/* Returns how many rows or lines this key moves by on a screen of this height: one, or a page. */
static size_t step_of(enum top_key key, size_t height)
{
    if (key == TOP_UP || key == TOP_DOWN) {
        return 1;
    }
    return height > HEAD_LINES + 1 ? height - HEAD_LINES - 1 : 1;
}

/* Returns the place to which this key moves. */
static size_t move(size_t place, size_t count, enum top_key key, size_t height)
{
    const size_t step = step_of(key, height);
    const bool is_up = key == TOP_UP || key == TOP_PAGE_UP;

    if (key == TOP_FIRST || (is_up && place < step)) {
        return 0;
    }
    if (key == TOP_LAST || (!is_up && place + step >= count)) {
        return count - 1;
    }
    return is_up ? place - step : place + step;
}

static void move_in_list(struct top_view *self, struct top_look *look, enum top_key key,
                         size_t height)
{
    size_t count;
    CLI_AUTO(cli_free) const struct top_row **rows = top_rows(self, look, &count);

    if (count > 0) {
        const size_t place = move(top_place_of(self, rows, count), count, key, height);

        top_choose(self, rows[place], place);
    }
}

/* Chooses a row that is shown, as the next picture will. */
static void choose_shown(struct top_view *self, struct top_look *look)
{
    size_t count;
    CLI_AUTO(cli_free) const struct top_row **rows = top_rows(self, look, &count);
    const size_t place = top_place_of(self, rows, count);

    top_choose(self, count > 0 ? rows[place] : NULL, place);
}

/* Returns the row of the lock that is chosen, or NULL. */
static const struct top_row *chosen_row(const struct top_view *self, const struct top_look *look)
{
    return look && self->name ? top_look_find(look, self->name) : NULL;
}

static void move_in_lock(struct top_view *self, const struct top_look *look, enum top_key key,
                         size_t height)
{
    const struct top_row *row = chosen_row(self, look);
    const size_t count = row ? top_count_items(look, row) : 0;

    if (count > 0) {
        const size_t place = move(top_item_place(self, look, row), count, key, height);
        const struct top_item item = top_item_at(look, row, place);

        top_choose_item(self, &item, place);
        self->n_skipped = place == 0 ? 0 : self->n_skipped; /* with the lines above it */
    }
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

static void press_move(struct top_view *self, struct top_look *look, enum top_key key,
                       size_t height)
{
    if (look && self->page == TOP_LIST) {
        move_in_list(self, look, key, height);
    } else if (look && self->page == TOP_LOCK) {
        move_in_lock(self, look, key, height);
    } else {
        scroll(self, key, height);
    }
}

/* ---- keys that change something ---- */

static void ask(struct top_view *self, struct top_change *change)
{
    top_change_free(self->change);
    self->change = change;
    self->mode = TOP_ASKING;
}

/* In the list the lock has to have one holder. */
static void ask_to_unlock(struct top_view *self, const struct top_look *look)
{
    const struct top_row *row = chosen_row(self, look);
    const rql_lock_info *lock = row ? row->lock : NULL;
    rql_holder_info holder;

    if (!self->name) {
        (void)snprintf(self->note, sizeof self->note, "no lock is chosen");
    } else if (!lock || lock->is_kept || !lock->acquirer_id) {
        (void)snprintf(self->note, sizeof self->note, "it is not held");
    } else if (self->page == TOP_LOCK && top_count_items(look, row) > 0) {
        const struct top_item item = top_item_at(look, row, top_item_place(self, look, row));

        if (!item.holder) {
            (void)snprintf(self->note, sizeof self->note, "choose a holder first");
        } else if (item.holder->token > 0) {
            ask(self, top_change_end_grant(look, row, item.holder));
        }
    } else if (cli_is_of_several(lock)) {
        (void)snprintf(self->note, sizeof self->note, "several hold it: [enter], then choose one");
    } else if (lock->token > 0) {
        holder = (rql_holder_info){.acquirer_id = lock->acquirer_id,
                                   .token = lock->token,
                                   .acquired_at_us = lock->acquired_at_us,
                                   .n_meta = lock->n_meta,
                                   .meta = lock->meta};
        ask(self, top_change_end_grant(look, row, &holder));
    }
    if (self->mode != TOP_ASKING && self->note[0] == '\0') {
        (void)snprintf(self->note, sizeof self->note,
                       "a lock of the gem has no token: rql unlock NAME --force ends what is held");
    }
}

static void ask_to_remove(struct top_view *self, const struct top_look *look)
{
    const struct top_row *row = chosen_row(self, look);

    if (self->page == TOP_LOCK && row && top_count_items(look, row) > 0) {
        const struct top_item item = top_item_at(look, row, top_item_place(self, look, row));

        if (item.request) {
            ask(self, top_change_remove_request(look, row, item.request));
            return;
        }
    }
    (void)snprintf(self->note, sizeof self->note, "choose a waiter first");
}

/* ---- keys in a mode ---- */

/* A byte that does not belong to a glob that is valid by now may do so with the next one. */
static void type(struct top_view *self, enum top_key key, char letter)
{
    const size_t length = strlen(self->glob);

    if (key == TOP_LETTER && length + 1 < sizeof self->glob) {
        self->glob[length] = letter;
        self->glob[length + 1] = '\0';
    } else if (key == TOP_ERASE && length > 0) {
        size_t end = length - 1;

        while (end > 0 && ((unsigned char)self->glob[end] & 0xc0) == 0x80) {
            end--;
        }
        self->glob[end] = '\0';
    } else if (key == TOP_ENTER || key == TOP_BACK) {
        self->glob[key == TOP_BACK ? 0 : length] = '\0';
        self->mode = TOP_KEYS;
    }
}

static void answer(struct top_view *self, enum top_key key)
{
    self->mode = TOP_KEYS;
    if (key == TOP_YES) {
        self->change->is_wanted = true;
    } else {
        top_change_free(self->change);
        self->change = NULL;
    }
}

static void open_page(struct top_view *self, enum top_page page)
{
    self->page = page;
    self->n_skipped = 0;
    self->is_cut = false;
    free(self->who);
    self->who = NULL;
    self->item = 0;
}

static void press_plain(struct top_view *self, struct top_look *look, enum top_key key,
                        size_t height)
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
    case TOP_SHOW_HOSTS:
        open_page(self, self->page == TOP_HOSTS ? TOP_LIST : TOP_HOSTS);
        break;
    case TOP_FILTER:
        self->mode = TOP_TYPING;
        open_page(self, TOP_LIST);
        break;
    case TOP_UNLOCK:
    case TOP_REMOVE:
        if (!self->may_change || self->change) {
            break; /* one at a time */
        }
        if (key == TOP_REMOVE) {
            ask_to_remove(self, look);
        } else if (self->page == TOP_LIST || self->page == TOP_LOCK) {
            ask_to_unlock(self, look);
        }
        break;
    case TOP_PAUSE:
        self->is_paused = !self->is_paused;
        break;
    case TOP_ENTER:
        if (chosen_row(self, look) && self->page == TOP_LIST) {
            open_page(self, TOP_LOCK);
        }
        break;
    case TOP_UP:
    case TOP_DOWN:
    case TOP_PAGE_UP:
    case TOP_PAGE_DOWN:
    case TOP_FIRST:
    case TOP_LAST:
        press_move(self, look, key, height);
        break;
    case TOP_NO_KEY:
    case TOP_QUIT:
    case TOP_YES:
    case TOP_ERASE:
    case TOP_LETTER:
        break;
    }
}

void top_view_press(struct top_view *self, struct top_look *look, enum top_key key, char letter,
                    size_t height)
{
    self->note[0] = '\0';
    if (self->mode == TOP_TYPING) {
        type(self, key, letter);
        if (look) {
            choose_shown(self, look);
        }
    } else if (self->mode == TOP_ASKING) {
        answer(self, key);
    } else {
        press_plain(self, look, key, height);
    }
}
