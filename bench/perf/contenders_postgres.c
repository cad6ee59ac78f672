#include "perf/advisory.h"

#include <stddef.h>

const struct contender *const contenders[] = {&contender_advisory, NULL};
