#include "perf/floor.h"
#include "perf/library.h"

#include <stddef.h>

const struct contender *const contenders[] = {
    &contender_ping,
    &contender_floor,
    &contender_shared,
    &contender_own,
    &contender_spin,
    &contender_lazy,
    &contender_lazy_spin,
    &contender_durable,
    &contender_token,
    &contender_agent,
    NULL,
};
