#ifndef AGENT_LIST_H
#define AGENT_LIST_H

/* Takes an element out of a list of elements that have their successor in `next`. */
#define AGENT_UNLIST(first, element)                                                               \
    do {                                                                                           \
        __typeof__(&(first)) at_ = &(first);                                                       \
                                                                                                   \
        while (*at_ != (element)) {                                                                \
            at_ = &(*at_)->next;                                                                   \
        }                                                                                          \
        *at_ = (element)->next;                                                                    \
    } while (0)

#endif
