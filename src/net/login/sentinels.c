#include "net/login/sentinels.h"

#include "base/cancel_fd.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/os.h"
#include "observe/observe.h"

#include <stdlib.h>
#include <string.h>

/* SENTINEL_MS: a sentinel has so long at first to accept a connection and to answer while another
 * one could be asked instead, because a machine that is down answers nothing. ANEW_US: how long
 * most sentinels must have been out of date to count as set up again; they notify each other of a
 * failover every two seconds. */
enum { SENTINEL_MS = 300, ANEW_US = 10000000 };

/* Returns how long a sentinel has at first, such that there is time for all that the URL names. */
static int64_t least_share_us(const struct rqli_sentinels *self)
{
    int64_t part_us = self->session.connect_timeout_ms * INT64_C(1000) / (int64_t)self->n_named;

    return rqli_earlier(SENTINEL_MS * INT64_C(1000), part_us);
}

/* The certificates and the session of sentinels are their own. False: no memory. */
static bool use_tls(struct rqli_sentinels *self, const struct rqli_site *site)
{
    const struct rqli_session *session = site->session;

    return !session->url->sentinel_tls ||
           rqli_tls_context_new(&self->site.tls, &session->tls_settings, session->subject, NULL) ==
               RQL_OK;
}

struct rqli_sentinels *rqli_sentinels_new(const struct rqli_site *site)
{
    static char where[] = "its sentinel";
    const struct rqli_url *url = site->session->url;
    struct rqli_sentinels *self = calloc(1, sizeof *self + url->n_masters * sizeof *self->masters);

    if (!self) {
        return NULL;
    }
    self->url = (struct rqli_url){.user = url->sentinel_user, .password = url->sentinel_password};
    self->session = (struct rqli_session){
        .url = &self->url,
        .connect_timeout_ms = site->session->connect_timeout_ms,
        .io_timeout_ms = site->session->io_timeout_ms,
        .resolver = site->session->resolver,
        .stats = site->session->stats,
        .subject = site->session->subject,
    };
    self->site = (struct rqli_site){
        .session = &self->session,
        .where = where,
    };
    self->n_masters = url->n_masters;
    for (size_t i = 0; i < self->n_masters; i++) {
        rqli_master_init(&self->masters[i]);
        self->masters[i].name = url->masters[i];
        self->masters[i].sentinels = self;
    }
    rqli_sentinel_init(&self->asked, &self->site);
    (void)pthread_mutex_init(&self->shared.mutex, NULL);
    memcpy(self->shared.known, url->hosts, url->n_hosts * sizeof *url->hosts);
    self->n_named = self->shared.n_known = url->n_hosts;
    self->shared.share_us = least_share_us(self);
    self->changed_fd = rqli_fd_lift(rqli_os_event());
    return self->changed_fd < 0 || !use_tls(self, site) ? rqli_sentinels_free(self) : self;
}

struct rqli_sentinels *rqli_sentinels_free(struct rqli_sentinels *self)
{
    if (self) {
        rqli_sentinel_fini(&self->asked);
        self->site.tls = rqli_tls_context_free(self->site.tls);
        rqli_fd_drop(&self->changed_fd);
        for (size_t i = 0; i < self->n_masters; i++) {
            rqli_master_fini(&self->masters[i]);
        }
        (void)pthread_mutex_destroy(&self->shared.mutex);
        free(self);
    }
    return NULL;
}

void rqli_sentinels_abandon(struct rqli_sentinels *self)
{
    if (self) {
        rqli_fd_drop(&self->asked.sock.fd);
        rqli_fd_drop(&self->changed_fd);
    }
}

/* ---- asking: one thread at a time, without the mutex ---- */

/* Returns the place of a sentinel; 0: it is not known any more. Caller holds self->shared.mutex. */
static size_t place_of(const struct rqli_sentinels *self, const struct rqli_address *address)
{
    for (size_t i = 0; i < self->shared.n_known; i++) {
        if (rqli_address_is(&self->shared.known[i], address)) {
            return i;
        }
    }
    return 0;
}

/* Caller holds self->shared.mutex. */
static void add_sentinel(struct rqli_sentinels *self, const struct rqli_address *address)
{
    size_t place = place_of(self, address);

    if (!rqli_address_is(&self->shared.known[place], address)) {
        self->shared.known[self->shared.n_known++] = *address;
    }
}

/* Keeps those of the URL and adds, after them, the sentinel just asked, which does not name itself,
 * and those that it knows. */
static void learn_others(struct rqli_sentinels *self, const char *master, int64_t deadline_us)
{
    struct rqli_address others[RQLI_SENTINELS_MAX];
    size_t count = RQLI_SENTINELS_MAX;
    struct rqli_address first;

    if (rqli_sentinel_others(&self->asked, master, deadline_us, others, &count)) {
        return;
    }
    (void)pthread_mutex_lock(&self->shared.mutex);
    first = self->shared.known[self->shared.first];
    self->shared.n_known = self->n_named;
    add_sentinel(self, &self->asked.sock.node);
    for (size_t i = 0; i < count; i++) {
        add_sentinel(self, &others[i]);
    }
    self->shared.first = place_of(self, &first);
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Gives the next sentinel twice the time that this one took over a new connection. If none of them
 * has answered in time, they may be farther away than was thought. */
static void set_share(struct rqli_sentinels *self, int64_t took_us)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.share_us = rqli_later(2 * took_us, least_share_us(self));
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

static void note_asked(struct rqli_sentinels *self, const struct rqli_address *address)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.asked = *address;
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Asks one sentinel. The open connection is used as long as it leads to that sentinel. */
static rql_status ask_one(const struct rqli_master *master, const struct rqli_address *address,
                          int64_t deadline_us, struct rqli_master_claim *out, rql_error *error)
{
    struct rqli_sentinels *self = master->sentinels;
    bool was_open = rqli_sentinel_is_open(&self->asked) &&
                    rqli_address_is(&self->asked.sock.node, address) &&
                    rqli_socket_is_quiet(&self->asked.sock);
    int64_t begun_us = rqli_now_us();
    rql_status status =
        was_open ? RQL_OK : rqli_sentinel_open(&self->asked, address, deadline_us, error);

    if (!status) {
        status = rqli_sentinel_ask(&self->asked, master->name, deadline_us, out, error);
    }
    if (!status && !was_open) {
        set_share(self, rqli_now_us() - begun_us);
        learn_others(self, master->name, deadline_us);
    }
    return status;
}

/* The answers of one round of asking. */
struct round {
    struct rqli_address known[RQLI_SENTINELS_KNOWN_MAX];
    size_t n_known;
    int64_t share_us; /* time for each of them but the last */
    size_t n_older;   /* sentinels that have not heard of a later failover */
    struct rqli_master_claim older;
    rql_error fault; /* of the last one that did not answer */
};

/* Takes an answer. Returns true if the server may be the master. */
static bool take_claim(struct rqli_master *master, struct round *round,
                       const struct rqli_master_claim *claim)
{
    if (rqli_master_hear(master, claim)) {
        return true;
    }
    if (round->n_older == 0 || claim->epoch > round->older.epoch) {
        round->older = *claim;
    }
    round->n_older++;
    return false;
}

/* Called if most sentinels know older masters only. Returns true if that has lasted for long. */
static bool were_set_up_anew(struct rqli_master *master)
{
    struct rqli_sentinels *self = master->sentinels;
    int64_t now_us = rqli_now_us();
    bool is_long;

    (void)pthread_mutex_lock(&self->shared.mutex);
    if (master->said.older_us == 0) {
        master->said.older_us = now_us;
    }
    is_long = now_us - master->said.older_us >= ANEW_US;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return is_long;
}

/* Notes that it is not so, or no longer, that most sentinels know older masters only. */
static void forget_older(struct rqli_master *master)
{
    struct rqli_sentinels *self = master->sentinels;

    (void)pthread_mutex_lock(&self->shared.mutex);
    master->said.older_us = 0;
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Begins the next round with another sentinel: the one that was first may have used up all time. */
static void pass_over(struct rqli_sentinels *self)
{
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.first = (self->shared.first + 1) % self->shared.n_known;
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* Reports a failure with the sentinel that was asked last. Caller holds shared.mutex, or is the one
 * that asks. */
static rql_status fail_to_find(const struct rqli_master *master, rql_status status, const char *why,
                               rql_error *error)
{
    char text[RQLI_ADDRESS_TEXT_SIZE];

    return rqli_fail(error, status, "cannot find the master of %.120s: %.60s: %s",
                     master->site->where,
                     rqli_address_print(&master->sentinels->shared.asked, text), why);
}

/* Ends a round in which no sentinel that answered was up to date. If that is more than half of all,
 * and stays so, they were set up again, and earlier knowledge no longer counts. */
static rql_status end_round(struct rqli_master *master, const struct round *round,
                            struct rqli_master_claim *out, rql_error *error)
{
    if (round->n_older * 2 <= round->n_known) {
        forget_older(master);
    } else if (were_set_up_anew(master)) {
        rqli_master_forget(master);
        *out = round->older;
        return RQL_OK;
    }
    if (round->n_older > 0) {
        return rqli_fail(error, RQL_E_UNAVAILABLE,
                         "%.150s: the sentinels that answer have not heard of its last failover",
                         master->site->where);
    }
    set_share(master->sentinels,
              rqli_earlier(round->share_us,
                           master->site->session->connect_timeout_ms * INT64_C(1000) / 2));
    pass_over(master->sentinels);
    return fail_to_find(master, round->fault.status, round->fault.message, error);
}

/* Asks the sentinels in turn, beginning with the one that answered last, until one knows. The last
 * of them has all the time that is left, because there is no other. */
static rql_status ask_all(struct rqli_master *master, int64_t deadline_us,
                          struct rqli_master_claim *out, rql_error *error)
{
    struct rqli_sentinels *self = master->sentinels;
    struct round round = {.fault = {.status = RQL_E_IO, .message = "no time left"}};
    size_t first;

    (void)pthread_mutex_lock(&self->shared.mutex);
    memcpy(round.known, self->shared.known, sizeof round.known);
    round.n_known = self->shared.n_known;
    round.share_us = self->shared.share_us;
    first = self->shared.first;
    self->shared.asked = round.known[first];
    (void)pthread_mutex_unlock(&self->shared.mutex);
    for (size_t i = 0; i < round.n_known && !rqli_time_is_up(deadline_us); i++) {
        size_t at = (first + i) % round.n_known;
        bool is_last = i + 1 == round.n_known;
        int64_t limit_us = is_last ? deadline_us : rqli_now_us() + round.share_us;

        note_asked(self, &round.known[at]);
        if (ask_one(master, &round.known[at], rqli_earlier(limit_us, deadline_us), out,
                    &round.fault)) {
            continue;
        }
        if (take_claim(master, &round, out)) {
            (void)pthread_mutex_lock(&self->shared.mutex);
            self->shared.first = place_of(self, &round.known[at]);
            master->said.older_us = 0;
            (void)pthread_mutex_unlock(&self->shared.mutex);
            return RQL_OK;
        }
    }
    return end_round(master, &round, out, error);
}

/* ---- asking for all threads ---- */

/* Waits until the thread that asks is done, or until the deadline. Caller holds self->shared.mutex,
 * which is released meanwhile. */
static void await_other(struct rqli_sentinels *self, int64_t deadline_us)
{
    int32_t seen = atomic_load_explicit(&self->n_answers, memory_order_relaxed);

    (void)pthread_mutex_unlock(&self->shared.mutex);
    rqli_signal_wait(&self->n_answers, seen, deadline_us);
    (void)pthread_mutex_lock(&self->shared.mutex);
}

/* Asks for all threads. Caller holds shared.mutex, which is released while it asks. */
static rql_status ask_for_all(struct rqli_master *master, int64_t deadline_us, rql_error *error)
{
    struct rqli_sentinels *self = master->sentinels;
    struct rqli_master_claim claim;
    rql_status status;

    self->shared.is_asking = true;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    status = ask_all(master, deadline_us, &claim, error);
    (void)pthread_mutex_lock(&self->shared.mutex);
    self->shared.is_asking = false;
    if (!status) {
        master->said.claim = claim;
        master->said.answered_us = rqli_now_us();
    }
    (void)atomic_fetch_add_explicit(&self->n_answers, 1, memory_order_relaxed);
    rqli_signal_wake(&self->n_answers);
    return status;
}

rql_status rqli_sentinels_find(struct rqli_master *master, int64_t since_us, int64_t deadline_us,
                               struct rqli_master_claim *out, rql_error *error)
{
    struct rqli_sentinels *self = master->sentinels;
    rql_status status = RQL_OK;
    bool is_late = false;

    (void)pthread_mutex_lock(&self->shared.mutex);
    while (self->shared.is_asking && master->said.answered_us < since_us && !is_late) {
        await_other(self, deadline_us);
        is_late = rqli_time_is_up(deadline_us);
    }
    if (master->said.answered_us < since_us || master->said.answered_us == 0) {
        status = is_late ? fail_to_find(master, RQL_E_IO, "no answer in time", error)
                         : ask_for_all(master, deadline_us, error);
    }
    *out = master->said.claim;
    (void)pthread_mutex_unlock(&self->shared.mutex);
    return status;
}

void rqli_sentinels_distrust(struct rqli_master *master, const struct rqli_master_claim *claim)
{
    struct rqli_sentinels *self = master->sentinels;

    (void)pthread_mutex_lock(&self->shared.mutex);
    if (master->said.answered_us != 0 &&
        rqli_address_is(&master->said.claim.address, &claim->address)) {
        self->shared.first = (self->shared.first + 1) % self->shared.n_known;
        master->said.answered_us = 0;
    }
    (void)pthread_mutex_unlock(&self->shared.mutex);
}

/* The server's reply to HELLO decides, because what sentinels say may be late, or early. */
rql_status rqli_sentinels_confirm(struct rqli_socket *sock, const struct rqli_master_claim *claim,
                                  rql_error *error)
{
    const char *where = sock->site->where;
    struct rqli_master *master = sock->site->master;
    enum rqli_master_news news;

    if (sock->is_read_only) {
        return rqli_fail(error, RQL_E_READ_ONLY, "%.150s: the server named is no master", where);
    }
    news = rqli_master_join(master, &sock->of_master, claim);
    if (news == RQLI_MASTER_OTHER) {
        char server[RQLI_ADDRESS_TEXT_SIZE];
        const struct rqli_figures figures = {.master = master->name,
                                             .server = rqli_address_print(&claim->address, server)};

        rqli_observe(RQLI_ON_MASTER_CHANGED, sock->site->session->subject, &figures);
    }
    if (news == RQLI_MASTER_OTHER || news == RQLI_MASTER_FIRST) {
        rqli_os_event_set(master->sentinels->changed_fd);
    }
    if (news == RQLI_MASTER_LEFT) {
        return rqli_fail(error, RQL_E_IO, "%.150s: another server is the master by now", where);
    }
    return RQL_OK;
}

rql_status rqli_sentinels_subscribe(struct rqli_sentinels *self, struct rqli_sentinel *news,
                                    int64_t deadline_us)
{
    struct rqli_address address;
    int64_t limit_us;
    rql_status status;

    (void)pthread_mutex_lock(&self->shared.mutex);
    limit_us = rqli_earlier(rqli_now_us() + self->shared.share_us, deadline_us);
    address = self->shared.known[self->shared.first];
    (void)pthread_mutex_unlock(&self->shared.mutex);
    status = rqli_sentinel_open(news, &address, limit_us, NULL);
    return status ? status : rqli_sentinel_subscribe(news, limit_us);
}
