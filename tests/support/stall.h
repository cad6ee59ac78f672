#ifndef STALL_H
#define STALL_H

/* How long this process and its servers were kept from running: what the machine adds to every time
 * that a test measures. A thread that sleeps for moments sees it; and since the scheduler favours
 * who sleeps, it also asks the kernel about the main threads, which do the work. */

#include <stdint.h>
#include <sys/types.h>

/* Counted: watches from the first begin to the last end. */
void stall_begin(void);
void stall_end(void);

/* Another process, from now on: a server. Without effect where the kernel does not tell. */
void stall_watch(pid_t process);
void stall_unwatch(pid_t process);

/* The longest one seen so far. */
int64_t stall_worst_us(void);

/* All of them, of the threads and servers that there are now, since each of them began. */
int64_t stall_total_us(void);

#endif
