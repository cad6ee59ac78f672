#include "screen.h"

#include "format.h"
#include "messages.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    LEAST_WIDTH = 20,
    LEAST_HEIGHT = 1,
    WIDTH = 80,
    HEIGHT = 24,
    MOST = 1000,
    KEY_SIZE = 16,
    SOON_MS = 200,
    SEQUENCE_MS = 50, /* within which the rest of a key's sequence comes */
};

/* Another screen without a cursor; and back. */
#define ENTER "\x1b[?1049h\x1b[?25l\x1b[2J"
#define LEAVE "\x1b[0m\x1b[?25h\x1b[?1049l"

/* A frame between these two is shown at once by terminals that know them. */
#define BEGIN_FRAME "\x1b[?2026h"
#define END_FRAME "\x1b[?2026l"

static size_t within(size_t value, size_t least, size_t preset)
{
    return value == 0 ? preset : value < least ? least : value > MOST ? MOST : value;
}

static void forget_shown(struct top_screen *self)
{
    for (size_t i = 0; self->shown && i < self->height; i++) {
        free(self->shown[i]);
    }
    free(self->shown);
    self->shown = NULL;
}

static void measure(struct top_screen *self)
{
    struct winsize size = {.ws_row = 0};

    (void)ioctl(self->fd, TIOCGWINSZ, &size);
    forget_shown(self);
    self->width = within(size.ws_col, LEAST_WIDTH, WIDTH);
    self->height = within(size.ws_row, LEAST_HEIGHT, HEIGHT);
    self->shown = cli_must(calloc(self->height, sizeof(char *)));
}

/* Writes a short text to a terminal that may have been stopped: then it is left out. */
static void write_soon(int fd, const char *text)
{
    const int64_t end_ms = cli_after_ms(SOON_MS);
    struct pollfd one = {.fd = fd, .events = POLLOUT};
    size_t left = strlen(text);

    while (left > 0 && cli_now_ms() < end_ms) {
        const ssize_t written = write(fd, text, left);

        if (written > 0) {
            text += written;
            left -= (size_t)written;
        } else if (written < 0 && errno != EINTR && errno != EAGAIN) {
            return;
        } else {
            (void)poll(&one, 1, SOON_MS);
        }
    }
}

/* The screen that is open, for the end of the program in the midst of something. */
static struct top_screen *open_screen;

static void leave_at_exit(void)
{
    if (open_screen) {
        top_screen_leave(open_screen);
    }
}

bool top_screen_open(struct top_screen *self)
{
    *self = (struct top_screen){.fd = open("/dev/tty", O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOCTTY)};
    if (self->fd < 0 || tcgetattr(self->fd, &self->before) != 0) {
        cli_say_errno("/dev/tty", errno);
        return false;
    }
    open_screen = self;
    (void)atexit(leave_at_exit);
    top_screen_enter(self);
    return true;
}

void top_screen_enter(struct top_screen *self)
{
    struct termios raw = self->before;

    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    (void)tcsetattr(self->fd, TCSANOW, &raw);
    self->enters = true;
    measure(self);
}

/* What is left of a frame is dropped: its rest would be written to the other screen. */
void top_screen_leave(struct top_screen *self)
{
    if (self->fd >= 0) {
        free(self->pending);
        self->pending = NULL;
        self->n_pending = self->n_written = 0;
        (void)tcsetattr(self->fd, TCSANOW, &self->before);
        write_soon(self->fd, END_FRAME LEAVE);
    }
}

void top_screen_close(struct top_screen *self)
{
    top_screen_leave(self);
    open_screen = NULL;
    forget_shown(self);
    if (self->fd >= 0) {
        (void)close(self->fd);
    }
    self->fd = -1;
}

bool top_screen_is_ready(const struct top_screen *self)
{
    return self->n_written == self->n_pending;
}

void top_screen_flush(struct top_screen *self)
{
    while (self->n_written < self->n_pending) {
        const ssize_t written =
            write(self->fd, self->pending + self->n_written, self->n_pending - self->n_written);

        if (written > 0) {
            self->n_written += (size_t)written;
        } else if (written == 0 || errno != EINTR) {
            return;
        }
    }
}

/* The chosen line is seen without colours, too. */
static const char *start_of(const struct top_screen *self, const struct top_line *line)
{
    static const char *const starts[] = {[TOP_PLAIN] = "",
                                         [TOP_BOLD] = "\x1b[1m",
                                         [TOP_CHOSEN] = "\x1b[7m",
                                         [TOP_FAINT] = "\x1b[2m"};

    return self->is_plain && line->style != TOP_CHOSEN ? "" : starts[line->style];
}

/* Returns whether the line has changed, and notes what it shows now. */
static bool change(struct top_screen *self, size_t index, const struct top_line *line)
{
    char *text = NULL;

    if (asprintf(&text, "\x1b[K%s%s\x1b[0m", start_of(self, line), line->text ? line->text : "") <
        0) {
        cli_die_nomem();
    }
    if (self->shown[index] && strcmp(self->shown[index], text) == 0) {
        free(text);
        return false;
    }
    free(self->shown[index]);
    self->shown[index] = text;
    return true;
}

void top_screen_show(struct top_screen *self, struct top_line *lines)
{
    FILE *out;

    free(self->pending);
    self->pending = NULL;
    out = cli_must(open_memstream(&self->pending, &self->n_pending));
    (void)fprintf(out, "%s%s", self->enters ? ENTER : "", BEGIN_FRAME);
    self->enters = false;
    for (size_t i = 0; i < self->height; i++) {
        if (change(self, i, &lines[i])) {
            (void)fprintf(out, "\x1b[%zu;1H%s", i + 1, self->shown[i]);
        }
        free(lines[i].text);
    }
    (void)fputs(END_FRAME, out);
    (void)cli_must(fclose(out) == 0 ? self->pending : NULL);
    self->n_written = 0;
    top_screen_flush(self);
}

/* ---- keys ---- */

static enum top_key key_of(char letter)
{
    static const struct {
        char letter;
        enum top_key key;
    } letters[] = {
        {'k', TOP_UP},         {'j', TOP_DOWN},    {'g', TOP_FIRST},        {'G', TOP_LAST},
        {'s', TOP_SORT},       {'S', TOP_REVERSE}, {'b', TOP_SHOW_BLOCKED}, {' ', TOP_PAUSE},
        {'h', TOP_SHOW_HOSTS}, {'/', TOP_FILTER},  {'u', TOP_UNLOCK},       {'x', TOP_REMOVE},
        {'y', TOP_YES},        {'Y', TOP_YES},     {'q', TOP_QUIT},         {'Q', TOP_QUIT},
        {'\r', TOP_ENTER},     {'\n', TOP_ENTER},  {'\x7f', TOP_BACK},
    };

    for (size_t i = 0; i < sizeof letters / sizeof letters[0]; i++) {
        if (letters[i].letter == letter) {
            return letters[i].key;
        }
    }
    return TOP_NO_KEY;
}

/* While a text is typed every letter belongs to it. */
static enum top_key key_in_text(char letter)
{
    if (letter == '\r' || letter == '\n') {
        return TOP_ENTER;
    }
    if (letter == '\x7f' || letter == '\b') {
        return TOP_ERASE;
    }
    return (unsigned char)letter >= ' ' ? TOP_LETTER : TOP_NO_KEY;
}

/* What follows an escape: "[A" or "OA", "[5~". */
static enum top_key key_of_sequence(const char *text)
{
    static const struct {
        const char *text;
        enum top_key key;
    } sequences[] = {
        {"A", TOP_UP},    {"B", TOP_DOWN},   {"5~", TOP_PAGE_UP}, {"6~", TOP_PAGE_DOWN},
        {"H", TOP_FIRST}, {"1~", TOP_FIRST}, {"F", TOP_LAST},     {"4~", TOP_LAST},
    };

    for (size_t i = 0; i < sizeof sequences / sizeof sequences[0]; i++) {
        if (strcmp(sequences[i].text, text) == 0) {
            return sequences[i].key;
        }
    }
    return TOP_NO_KEY;
}

static bool read_letter(struct top_screen *self, char *out)
{
    if (self->unread != '\0') {
        *out = self->unread;
        self->unread = '\0';
        return true;
    }
    return read(self->fd, out, 1) == 1;
}

/* Reads what follows an escape, up to its last letter. An escape that is a key has nothing behind
 * it, or another key. */
static enum top_key read_sequence(struct top_screen *self)
{
    struct pollfd one = {.fd = self->fd, .events = POLLIN};
    char text[KEY_SIZE] = "";
    char letter = '\0';
    size_t length = 0;

    if (poll(&one, 1, SEQUENCE_MS) <= 0 || !read_letter(self, &letter)) {
        return TOP_BACK;
    }
    if (letter != '[' && letter != 'O') {
        self->unread = letter;
        return TOP_BACK;
    }
    while (length + 1 < sizeof text && read_letter(self, &letter)) {
        text[length++] = letter;
        if ((letter >= 'A' && letter <= 'Z') || letter == '~') {
            break;
        }
    }
    text[length] = '\0';
    return key_of_sequence(text);
}

bool top_screen_read(struct top_screen *self, bool is_text, enum top_key *out, char *letter)
{
    errno = 0;
    if (read_letter(self, letter)) {
        *out = *letter == '\x1b' ? read_sequence(self)
               : is_text         ? key_in_text(*letter)
                                 : key_of(*letter);
        return true;
    }
    *out = TOP_QUIT;
    return errno == EIO; /* the terminal has gone */
}
