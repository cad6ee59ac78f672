#ifndef RQLI_THREADS_H
#define RQLI_THREADS_H

/* The threads that have used the library, by numbers of our own. A process never uses a number
 * twice, as the kernel does with thread ids: a number that outlives its thread, in the id of a lock
 * or of a host, cannot pass for another thread's. */

#include <stdbool.h>
#include <stdint.h>

/* Returns the number of the calling thread, from 1; the only thread of a fork child keeps its own.
 * Returns 0 if there was no memory to note it, or its end could not be noticed; the next call tries
 * again. */
uint64_t rqli_thread_number(void);

/* Returns whether the thread is still running. Makes no system call. */
bool rqli_thread_lives(uint64_t number);

/* Calls `each` for every living thread, in no particular order. `each` must not call functions of
 * this header. */
void rqli_threads_each(void (*each)(uint64_t number, void *context), void *context);

#endif
