#include "lock/grant.h"

#include "base/clock.h"
#include "lock/client.h"
#include "lock/leases.h"
#include "lock/server_clock.h"
#include "net/push_threads.h"
#include "wire/answer.h"

#include <string.h>

static struct rqli_lease_terms terms_of(const rql_lock_options *options, int64_t begun_us,
                                        int64_t left_ms)
{
    return (struct rqli_lease_terms){
        .ttl_ms = options->ttl_ms,
        .left_ms = left_ms,
        .begun_us = begun_us,
        .max_hold_ms = options->max_hold_ms,
        .renews = options->auto_extend,
        .is_claimed = true,
    };
}

static bool is_in_force(const rql_lock *lock, const struct rqli_lease_terms *terms)
{
    int64_t now_us = rqli_now_us();

    return !rqli_leases_is_overdue(lock->client->leases, now_us) &&
           now_us < terms->begun_us + terms->left_ms * 1000 - rqli_lease_margin_us(terms->left_ms);
}

bool rqli_grant_by_answer(rql_lock *lock, const rql_lock_options *options,
                          const struct rqli_answer *answer, int64_t sent_us)
{
    const struct rqli_lease_terms terms = terms_of(options, sent_us, answer->left_ms);

    if (answer->nonce.length != sizeof lock->grant_nonce - 1 || !is_in_force(lock, &terms)) {
        return false;
    }
    rqli_lease_init(&lock->kept.lease, &terms);
    memcpy(lock->grant_nonce, answer->nonce.data, answer->nonce.length);
    lock->begun_us = sent_us;
    lock->token = answer->token;
    lock->ts_us = answer->server_us;
    lock->process = (rql_lock_process)answer->process;
    if (lock->process == RQL_LOCK_OBTAINING) {
        lock->handed_over = answer->was_handed_over;
        /* A token is the time of its grant, unless the clock was set back since then (F-26). */
        lock->ts_us = answer->token < lock->ts_us ? answer->token : lock->ts_us;
    }
    return true;
}

bool rqli_grant_by_push(rql_lock *lock, const rql_lock_options *options,
                        const struct rqli_push *push)
{
    struct rqli_lease_terms terms;
    int64_t begun_us;

    if (!rqli_server_clock_earliest(lock->client, push->server_us, push->received_us, &begun_us)) {
        return false;
    }
    begun_us = begun_us < push->received_us ? begun_us : push->received_us;
    if (push->received_us - begun_us > rqli_lease_margin_us(push->lease_ms)) {
        return false;
    }
    terms = terms_of(options, begun_us, push->lease_ms);
    terms.is_claimed = push->lease_ms >= options->ttl_ms;
    if (!is_in_force(lock, &terms)) {
        return false;
    }
    rqli_lease_init(&lock->kept.lease, &terms);
    memcpy(lock->grant_nonce, lock->nonce, sizeof lock->grant_nonce);
    lock->begun_us = begun_us;
    lock->token = push->token;
    lock->ts_us = push->server_us;
    lock->hand_off_us = push->received_us - begun_us;
    lock->process = RQL_LOCK_OBTAINING;
    lock->handed_over = true;
    return true;
}
