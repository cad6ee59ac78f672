#ifndef STALL_H
#define STALL_H

/* How long this process was kept from running: what the machine adds to every time that a test
 * measures. A thread that sleeps for moments sees it. */

#include <stdint.h>

/* Counted: watches from the first begin to the last end. */
void stall_begin(void);
void stall_end(void);

/* The longest one seen so far. */
int64_t stall_worst_us(void);

#endif
