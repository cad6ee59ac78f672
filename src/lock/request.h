#ifndef RQLI_REQUEST_H
#define RQLI_REQUEST_H

/*
 * One acquisition as a state machine: trying, queued, leaving, done.
 *
 * Pure: no sockets, clocks, threads or allocation; time and random numbers are arguments. The
 * driver does what the state says, and reports with one of the rqli_request_on_*() calls.
 */

#include <rql/status.h>
#include <stdbool.h>
#include <stdint.h>

/* The state says what the driver has to do next. */
enum rqli_request_state {
    RQLI_REQUEST_TRYING,  /* run acquire.lua */
    RQLI_REQUEST_QUEUED,  /* wait for a push, at most until wake_us */
    RQLI_REQUEST_LEAVING, /* run leave.lua */
    RQLI_REQUEST_DONE,    /* return the verdict */
};

struct rqli_request_limits {
    int64_t deadline_us; /* RQLI_NEVER_US: none */
    int64_t tries;       /* RQL_FOREVER: no limit; at least 1 */
    int64_t delay_us;    /* between tries */
};

/* The place of a request, as the last refusal reported it. */
struct rqli_request_place {
    int64_t lock_ends_us; /* local time; RQLI_NEVER_US: the lock has no ttl, or is free */
    int64_t rank;         /* 0: next in line */
    int64_t score_us;     /* keeps the place if the queue is emptied */
    bool is_first;        /* no other librql waiter is in front */
    bool of_ruby;         /* Ruby has the lock, or takes it next: no push reports when it is free */
};

/* The facts that the driver knows when a wait begins or ends. */
struct rqli_request_input {
    int64_t now_us;
    int64_t jitter_us;
    bool leads;    /* first waiter of this client for this lock */
    bool delivers; /* the subscription is known to deliver pushes */
};

struct rqli_request {
    struct rqli_request_limits limits;
    enum rqli_request_state state;
    rql_status verdict;
    struct rqli_request_place place;
    int64_t tries;
    int64_t tick_us;  /* next time a try is counted */
    int64_t poll_us;  /* next poll that shows that the client is alive, if the request leads */
    int64_t retry_us; /* next try after one without result, or RQLI_NEVER_US */
    int64_t wake_us;
    bool led;             /* it led when the server was asked last */
    bool in_queue;        /* the request, or a grant for it, may be on the server */
    bool was_not_durable; /* a grant that it had, or may have had, was not durable */
    bool was_counted;     /* the try under way is counted already: its time had come */
};

void rqli_request_init(struct rqli_request *self, const struct rqli_request_limits *limits);

void rqli_request_on_granted(struct rqli_request *self);
void rqli_request_on_refused(struct rqli_request *self, rql_status outcome); /* not in the queue */
void rqli_request_on_queued(struct rqli_request *self, const struct rqli_request_place *place,
                            const struct rqli_request_input *input);
/* The first try was refused and has not entered the queue, because the request could not be
 * notified there. is_listening: its client is subscribed by now, so the request asks again at once.
 * Otherwise it asks when rqli_request_on_poll() says so, and after 200 ms at the latest. */
void rqli_request_on_held_back(struct rqli_request *self, bool is_listening,
                               const struct rqli_request_input *input);
/* The request has to ask again at once, for example because the script had too much to do. */
void rqli_request_on_again(struct rqli_request *self, int64_t now_us);

/* The request was granted, but the grant had expired when the answer came. That counts as a try
 * like any other, because the next grant would most likely end the same way. */
void rqli_request_on_over(struct rqli_request *self, const struct rqli_request_input *input);

/* The request was granted, but less durably than it has to be. As rqli_request_on_over(), with the
 * result RQL_E_NOT_DURABLE if the request ends without success. */
void rqli_request_on_not_durable(struct rqli_request *self, const struct rqli_request_input *input);

/* A grant is not known to be durable by the deadline: the result is RQL_E_NOT_DURABLE when the
 * request is withdrawn. */
void rqli_request_on_unanswered(struct rqli_request *self);

/* The try had no result, or a fault that may pass: the request tries again after a pause, within
 * the deadline. */
void rqli_request_on_setback(struct rqli_request *self, rql_status fault,
                             const struct rqli_request_input *input);
/* The try failed with a fault that does not pass. was_sent: it may have reached the server. A try
 * that was not sent, for example because the server refused the login, leaves nothing there that
 * would have to be withdrawn. */
void rqli_request_on_fault(struct rqli_request *self, rql_status fault, bool was_sent);

/* The server has granted or queued the request, and this fault keeps the client from making use of
 * that: it is withdrawn, whatever the fault says of the server. */
void rqli_request_on_unusable(struct rqli_request *self, rql_status fault);

void rqli_request_on_time(struct rqli_request *self, const struct rqli_request_input *input);
void rqli_request_on_poll(struct rqli_request *self); /* it has to ask the server */
void rqli_request_on_lead(struct rqli_request *self, const struct rqli_request_input *input);
/* The deadline came before the request's turn to ask; nothing was sent. */
void rqli_request_on_late(struct rqli_request *self);
/* The caller has cancelled the request. may_be_there: a try is under way. */
void rqli_request_on_cancelled(struct rqli_request *self, bool may_be_there);
/* Counts the tries that a request without a limit of tries slept through. */
void rqli_request_catch_up(struct rqli_request *self, const struct rqli_request_input *input);
void rqli_request_on_left(struct rqli_request *self, bool is_confirmed);

#endif
