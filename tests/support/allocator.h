#ifndef ALLOCATOR_H
#define ALLOCATOR_H

#include <stdlib.h>

/* Whether a sanitizer has malloc() and its like for itself, so that no program may replace them. */

#ifndef __has_feature
#define __has_feature(name) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) ||                               \
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ALLOCATOR_IS_TAKEN 1
#else
#define ALLOCATOR_IS_TAKEN 0
#endif

/* Whether a program may replace them, and call the C library's own by another name: glibc's. */
#if defined(__GLIBC__) && !ALLOCATOR_IS_TAKEN
#define ALLOCATOR_HAS_NAMES 1
#else
#define ALLOCATOR_HAS_NAMES 0
#endif

#endif
