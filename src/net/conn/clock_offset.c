#include "net/conn/clock_offset.h"

/*
 * Replies bound the difference of the clocks from both sides: the server read its clock after the
 * request was sent and before the reply was received. The best lower bound of the last ten seconds
 * counts. Bounds that contradict each other mean that one of the clocks was set.
 */

enum {
    BUCKET_US = 5000000,
    WINDOW_US = 2 * BUCKET_US,
    DRIFT_US = 2000, /* clocks whose rates differ by 200 ppm drift apart by this in a window */
};

/* Returns the best lower bound of the readings that are no older than the window. */
static int64_t best_lo(const struct rqli_clock_offset *self, int64_t now_us)
{
    if (now_us - self->begun_us >= BUCKET_US) {
        return self->lo_us[0];
    }
    return self->lo_us[0] > self->lo_us[1] ? self->lo_us[0] : self->lo_us[1];
}

static bool is_old(const struct rqli_clock_offset *self, int64_t now_us)
{
    return self->begun_us == 0 || now_us - self->begun_us >= WINDOW_US;
}

static void restart(struct rqli_clock_offset *self, int64_t lo_us, int64_t now_us)
{
    self->lo_us[0] = lo_us;
    self->lo_us[1] = lo_us;
    self->begun_us = now_us;
}

/* Uses two buckets of five seconds: the older one is dropped as a whole, so that nothing has to be
 * sorted. An upper bound below the best lower bound means that the server's clock was set ahead. A
 * lower bound above the previous upper bound means that it was set back. */
enum rqli_clock_offset_news rqli_clock_offset_add(struct rqli_clock_offset *self, int64_t sent_us,
                                                  int64_t server_us, int64_t received_us)
{
    int64_t lo_us = sent_us - server_us;
    int64_t before_us = self->hi_us;

    self->hi_us = received_us - server_us;
    self->read_us = received_us;
    if (is_old(self, received_us)) {
        restart(self, lo_us, received_us);
        return RQLI_CLOCK_OFFSET_FINE;
    }
    if (self->hi_us < best_lo(self, received_us) - DRIFT_US || lo_us > before_us + DRIFT_US) {
        restart(self, lo_us, received_us);
        return RQLI_CLOCK_OFFSET_STEPPED;
    }
    if (received_us - self->begun_us >= BUCKET_US) {
        self->lo_us[1] = self->lo_us[0];
        self->lo_us[0] = lo_us;
        self->begun_us += BUCKET_US;
    } else if (lo_us > self->lo_us[0]) {
        self->lo_us[0] = lo_us;
    }
    return RQLI_CLOCK_OFFSET_FINE;
}

bool rqli_clock_offset_earliest(const struct rqli_clock_offset *self, int64_t server_us,
                                int64_t now_us, int64_t *out_us)
{
    if (is_old(self, now_us)) {
        return false;
    }
    *out_us = server_us + best_lo(self, now_us);
    return true;
}

/* The reading may be of any age: if not_after has passed, the server answers with its time, and the
 * call is repeated. */
int64_t rqli_clock_offset_server_latest(const struct rqli_clock_offset *self, int64_t now_us)
{
    return self->begun_us == 0 ? INT64_MAX : now_us - best_lo(self, now_us);
}

int64_t rqli_clock_offset_server_earliest(const struct rqli_clock_offset *self, int64_t now_us)
{
    int64_t age_us = now_us > self->read_us ? now_us - self->read_us : 0;

    return self->begun_us == 0 ? 0 : now_us - self->hi_us - age_us / (WINDOW_US / DRIFT_US);
}
