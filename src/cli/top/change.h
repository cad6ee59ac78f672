#ifndef TOP_CHANGE_H
#define TOP_CHANGE_H

/* What an operator changes on the server from `rql top`: each change is asked for first, and made
 * on what was seen. */

#include "look.h"

enum top_change_kind {
    TOP_END_GRANT,      /* the grant with this token, and no newer one */
    TOP_REMOVE_REQUEST, /* of this acquirer */
};

struct top_change {
    enum top_change_kind kind;
    bool is_wanted; /* the operator has said yes */
    int64_t token;
    char *name; /* of the lock; owned, as all texts */
    char *acquirer_id;
    char *question;
    char *command;     /* that does the same, or NULL */
    char *progress;    /* while it is made */
    char *result;      /* what came of it; NULL: it was not made yet */
    rql_status status; /* of its call */
};

struct top_change *top_change_end_grant(const struct top_look *look, const struct top_row *row,
                                        const rql_holder_info *holder);
struct top_change *top_change_remove_request(const struct top_look *look, const struct top_row *row,
                                             const rql_request_info *request);

/* Makes it, and says what came of it. */
void top_change_make(struct top_change *self, rql_client *client);

/* Says on stderr that no answer has come: the change was not made or, if it was begun, that is not
 * known. */
void top_change_say_unanswered(const struct top_change *self, bool is_begun);

void top_change_free(struct top_change *self);

/* Returns whether this user may make changes. */
bool top_may_change(struct cli_session *session);

#endif
