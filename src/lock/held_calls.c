#include "lock/held_calls.h"

enum {
    RELEASED = 1,  /* release.lua */
    GIVEN_BACK = 2 /* leave_shared.lua */
};

void rqli_held_write_withdrawal(const struct rqli_withdrawn *request, struct rqli_call *call)
{
    rqli_call_init(call, request->may_share ? RQLI_SCRIPT_LEAVE_SHARED : RQLI_SCRIPT_LEAVE,
                   request->keys);
    rqli_call_text(call, request->acquirer);
    rqli_call_text(call, request->nonce);
    rqli_call_random(call);
}

static bool is_shared(const rql_lock *lock)
{
    return lock->share.units > 0;
}

/* The random number is for a grant that has ended: then the script serves the queue. */
void rqli_held_write_shared_extension(const struct rqli_withdrawn *grant,
                                      const struct rqli_share *share, int64_t ttl_ms,
                                      struct rqli_call *call)
{
    rqli_call_init(call, RQLI_SCRIPT_EXTEND_SHARED, grant->keys);
    rqli_call_text(call, grant->acquirer);
    rqli_call_text(call, grant->nonce);
    rqli_call_int(call, ttl_ms);
    rqli_call_random(call);
    rqli_call_share(call, share);
}

void rqli_held_write_extension(const rql_lock *lock, int64_t ttl_ms, struct rqli_call *call)
{
    if (is_shared(lock)) {
        rqli_held_write_lowering(lock, &lock->share, ttl_ms, call);
        return;
    }
    rqli_call_init(call, RQLI_SCRIPT_EXTEND, &lock->keys);
    rqli_call_text(call, lock->grant_nonce);
    rqli_call_int(call, ttl_ms);
    rqli_call_random(call);
}

void rqli_held_write_lowering(const rql_lock *lock, const struct rqli_share *share, int64_t ttl_ms,
                              struct rqli_call *call)
{
    const struct rqli_withdrawn grant = {&lock->keys, lock->acquirer, lock->grant_nonce, true};

    rqli_held_write_shared_extension(&grant, share, ttl_ms, call);
}

/* A share is given back as its request would be withdrawn, by acquirer and nonce. */
void rqli_held_write_release(const rql_lock *lock, struct rqli_call *call)
{
    if (is_shared(lock)) {
        const struct rqli_withdrawn share = rqli_withdrawn_of(lock);

        rqli_held_write_withdrawal(&share, call);
        return;
    }
    rqli_call_init(call, RQLI_SCRIPT_RELEASE, &lock->keys);
    rqli_call_text(call, lock->nonce);
    rqli_call_random(call);
}

bool rqli_held_has_ended(const rql_lock *lock, const struct rqli_outcome *outcome)
{
    return outcome->what == (is_shared(lock) ? GIVEN_BACK : RELEASED);
}

bool rqli_held_fault_may_pass(rql_status status)
{
    return status == RQL_E_UNKNOWN || status == RQL_E_IO || status == RQL_E_UNAVAILABLE ||
           status == RQL_E_READ_ONLY || status == RQL_E_NOMEM;
}
