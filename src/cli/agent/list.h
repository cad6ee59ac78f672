#ifndef AGENT_LIST_H
#define AGENT_LIST_H

/* Lists whose elements have `next` and `at`, the place of the pointer that leads to them, so that
 * one is taken out without a search: there are as many as 10,000 connections, and more timers. */

#define AGENT_LIST(first, element)                                                                 \
    do {                                                                                           \
        (element)->next = *(first);                                                                \
        (element)->at = (first);                                                                   \
        if ((element)->next) {                                                                     \
            (element)->next->at = &(element)->next;                                                \
        }                                                                                          \
        *(first) = (element);                                                                      \
    } while (0)

#define AGENT_UNLIST(element)                                                                      \
    do {                                                                                           \
        *(element)->at = (element)->next;                                                          \
        if ((element)->next) {                                                                     \
            (element)->next->at = (element)->at;                                                   \
        }                                                                                          \
    } while (0)

#endif
