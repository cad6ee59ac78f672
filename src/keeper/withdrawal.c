#include "keeper/withdrawal.h"

#include "base/clock.h"
#include "base/random.h"
#include "carry/perform.h"
#include "carry/serving.h"

#include <rql/base.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAUSE_US = 100000 };

struct rqli_withdrawal {
    struct rqli_withdrawal *next;
    int64_t until_us;
    int64_t due_us;
    char name[RQL_NAME_MAX + 1];
    char acquirer[RQL_ID_SIZE];
    char nonce[RQLI_HEX_SIZE];
};

struct rqli_withdrawal *rqli_withdrawal_new(const struct rqli_withdrawal_of *what, int64_t until_us)
{
    struct rqli_withdrawal *self = calloc(1, sizeof *self);

    if (self) {
        self->until_us = until_us;
        (void)snprintf(self->name, sizeof self->name, "%s", what->name);
        (void)snprintf(self->acquirer, sizeof self->acquirer, "%s", what->acquirer);
        (void)snprintf(self->nonce, sizeof self->nonce, "%s", what->nonce);
    }
    return self;
}

void rqli_withdrawals_add(struct rqli_withdrawal **list, struct rqli_withdrawal *one)
{
    one->next = *list;
    *list = one;
}

void rqli_withdrawals_free(struct rqli_withdrawal *list)
{
    while (list) {
        struct rqli_withdrawal *next = list->next;

        free(list);
        list = next;
    }
}

int64_t rqli_withdrawals_due_us(const struct rqli_withdrawal *list)
{
    int64_t due_us = RQLI_NEVER_US;

    for (; list; list = list->next) {
        due_us = list->due_us < due_us ? list->due_us : due_us;
    }
    return due_us;
}

struct rqli_withdrawal *rqli_withdrawals_take_due(struct rqli_withdrawal **list, int64_t now_us)
{
    struct rqli_withdrawal **at = list;

    while (*at) {
        struct rqli_withdrawal *one = *at;

        if (now_us < one->due_us) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        one->next = NULL;
        if (now_us < one->until_us) {
            return one;
        }
        free(one);
    }
    return NULL;
}

void rqli_withdraw_write(const struct rqli_withdrawal_of *what, const struct rqli_keys *keys,
                         struct rqli_call *call)
{
    rqli_call_init(call, RQLI_SCRIPT_LEAVE, keys);
    rqli_call_text(call, what->acquirer);
    rqli_call_text(call, what->nonce);
    rqli_call_chance(call);
}

bool rqli_withdraw(struct rqli_link *link, const struct rqli_keys *keys,
                   const struct rqli_withdrawal_of *what, int64_t deadline_us)
{
    struct rqli_exchange *exchange = NULL;
    struct rqli_call call;
    rql_status status;

    rqli_withdraw_write(what, keys, &call);
    status = rqli_perform(link, &call, deadline_us, &exchange, NULL);
    if (!status) {
        rqli_serve_if_due(link, keys, exchange->reply, deadline_us);
    }
    rqli_exchange_give(exchange);
    return status == RQL_OK;
}

bool rqli_withdrawal_run(struct rqli_withdrawal *self, struct rqli_link *link, int64_t deadline_us)
{
    const struct rqli_withdrawal_of what = {self->name, self->acquirer, self->nonce};
    char memory[RQLI_KEYS_ROOM];
    struct rqli_keys keys;
    bool is_confirmed;

    rqli_keys_init(&keys, memory, rqli_slice_of(self->name));
    is_confirmed = rqli_withdraw(link, &keys, &what, deadline_us);
    self->due_us = rqli_now_us() + PAUSE_US;
    return is_confirmed;
}
