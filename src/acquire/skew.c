#include "acquire/skew.h"

enum { WINDOW_US = 5000000 };

static int64_t best_lo(const struct rqli_skew *self)
{
    return self->lo_us[0] > self->lo_us[1] ? self->lo_us[0] : self->lo_us[1];
}

static void restart(struct rqli_skew *self, int64_t lo_us, int64_t now_us)
{
    self->lo_us[0] = lo_us;
    self->lo_us[1] = lo_us;
    self->begun_us = now_us;
}

enum rqli_skew_news rqli_skew_add(struct rqli_skew *self, int64_t sent_us, int64_t server_us,
                                  int64_t received_us)
{
    int64_t lo_us = sent_us - server_us;
    enum rqli_skew_news news = RQLI_SKEW_FINE;

    self->hi_us = received_us - server_us;
    self->fresh_us = received_us;
    if (self->begun_us == 0 || received_us - self->begun_us >= 2 * WINDOW_US) {
        restart(self, lo_us, received_us);
        return news;
    }
    if (self->hi_us < best_lo(self)) {
        news = RQLI_SKEW_STEPPED;
        restart(self, lo_us, received_us);
    } else if (received_us - self->begun_us >= WINDOW_US) {
        self->lo_us[1] = self->lo_us[0];
        self->lo_us[0] = lo_us;
        self->begun_us = received_us;
    } else if (lo_us > self->lo_us[0]) {
        self->lo_us[0] = lo_us;
    }
    return news;
}

bool rqli_skew_earliest(const struct rqli_skew *self, int64_t server_us, int64_t now_us,
                        int64_t *out_us)
{
    if (self->begun_us == 0 || now_us - self->fresh_us > 2 * WINDOW_US) {
        return false;
    }
    *out_us = server_us + best_lo(self);
    return true;
}

int64_t rqli_skew_server_latest(const struct rqli_skew *self, int64_t now_us)
{
    return self->begun_us == 0 ? INT64_MAX : now_us - best_lo(self);
}
