#include "base/mask.h"

#include "base/must.h"

sigset_t rqli_mask_all(void)
{
    sigset_t all;
    sigset_t before;

    (void)sigfillset(&all);
    RQLI_MUST(pthread_sigmask(SIG_SETMASK, &all, &before) == 0);
    return before;
}

void rqli_mask_restore(const sigset_t *before)
{
    RQLI_MUST(pthread_sigmask(SIG_SETMASK, before, NULL) == 0);
}
