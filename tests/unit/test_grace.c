#include "check.h"

#include "lock/client.h"

/* How long a call may last beyond its deadline. */

enum { LEAST_US = 50000, NEAR_US = 200, FAR_US = 100000, STALL_US = 30000000, STEPS_MAX = 4 };

/* So many replies that took so long; then it is within these bounds. */
struct step {
    int n_replies;
    int64_t took_us;
    int64_t least_us;
    int64_t most_us;
};

static const struct way {
    const char *name;
    struct step steps[STEPS_MAX];
} ways[] = {
    {"it is never less than that", {{0, 0, LEAST_US, LEAST_US}, {10, NEAR_US, LEAST_US, LEAST_US}}},
    {"it is two round trips from the first one on",
     {{1, FAR_US, 2 * FAR_US, 2 * FAR_US}, {5, FAR_US, 2 * FAR_US, 2 * FAR_US}}},
    {"it follows a way that becomes longer or shorter",
     {{1, NEAR_US, LEAST_US, LEAST_US},
      {30, FAR_US, 2 * FAR_US * 9 / 10, 2 * FAR_US},
      {5, NEAR_US, LEAST_US, LEAST_US}}},
    {"one stall does not count for much",
     {{1, NEAR_US, LEAST_US, LEAST_US},
      {1, STALL_US, LEAST_US, LEAST_US},
      {3, FAR_US, LEAST_US, 2 * FAR_US},
      {1, STALL_US, LEAST_US, 2 * FAR_US - 1}}},
};

TEST(the_grace_follows_the_round_trips)
{
    EACH_ROW (row, ways) {
        rql_client client = {0};

        for (const struct step *step = row->steps;
             step < row->steps + STEPS_MAX && step->least_us > 0; step++) {
            for (int n = 0; n < step->n_replies; n++) {
                rqli_client_on_round_trip(&client, step->took_us);
            }
            assert_in_range(rqli_client_grace_us(&client), step->least_us, step->most_us);
        }
    }
}
