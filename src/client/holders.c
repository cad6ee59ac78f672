#include "client/holders.h"

uint32_t rqli_holder_of(uint64_t thread_or_task)
{
    return 1 + (uint32_t)((thread_or_task * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}
