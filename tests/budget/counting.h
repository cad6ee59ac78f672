#ifndef COUNTING_H
#define COUNTING_H

/* Counts what this process asks the allocator for: whoever asks, in any of its libraries. A program
 * linked with counting.c has its own malloc() and so on, which count and call libc's. */

#include <stdbool.h>

/* False: a sanitizer has taken these functions for itself. */
bool counting_works(void);

void counting_begin(void);

/* Calls since the begin, of all threads but those exempt: malloc, calloc, realloc, aligned ones,
 * and free of something. */
long counting_end(void);

/* Is this freed from now on? One at a time. */
void counting_watch(const void *memory);
bool counting_was_freed(void);

/* What the calling thread does is the test's own business, until it says otherwise. */
void counting_exempt(bool is_exempt);

#endif
