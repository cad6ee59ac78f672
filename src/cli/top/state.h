#ifndef TOP_STATE_H
#define TOP_STATE_H

/* What `rql top` keeps of the person in front of it: the page that is open, and what is chosen. */

#include "change.h"
#include "look.h"

enum top_page {
    TOP_LIST,    /* all locks */
    TOP_LOCK,    /* one of them: its holders and its queue */
    TOP_BLOCKED, /* who waits for whom */
    TOP_HOSTS,   /* the hosts of the swarm */
};

/* What the next key is for. */
enum top_mode {
    TOP_KEYS,   /* as the foot says */
    TOP_TYPING, /* a letter of the filter */
    TOP_ASKING, /* yes or no */
};

enum { TOP_GLOB_SIZE = 256, TOP_NOTE_SIZE = 512 };

struct top_view {
    enum top_page page;
    enum top_mode mode;
    enum top_order order;
    bool is_reversed;
    bool is_paused;
    bool may_change; /* keys that change something on the server are offered */
    char *name;      /* of the lock that is chosen; owned, or NULL: none is shown yet */
    size_t place;    /* of its row, when it was shown last */
    size_t top;      /* the first row that is shown */
    char *who;   /* the acquirer that is chosen of a lock's holders and waiters; owned, or NULL */
    size_t item; /* its place among these, when it was shown last */
    char glob[TOP_GLOB_SIZE];  /* names that are shown; "": all */
    int64_t older_than_ms;     /* locks that are shown */
    struct top_change *change; /* that is asked for, or is to be made; owned, or NULL */
    char note[TOP_NOTE_SIZE];  /* what came of it, up to the next key; "": nothing */
    size_t n_skipped;          /* lines of another page that are scrolled past */
    bool is_cut;               /* that page goes on below the screen */
    const char *url;           /* of the server, without a password */
    const char *pattern;       /* of the names that are read; NULL: all */
    int64_t every_ms;          /* from one look to the next */
    bool is_busy;              /* that is longer than was asked for, to spare the server */
};

#endif
