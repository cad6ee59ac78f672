#ifndef THREADS_H
#define THREADS_H

/* Many threads that begin at the same instant. When the system gives none, the test is aborted. */

#include <stdbool.h>
#include <stddef.h>

/* What one thread does. cmocka's asserts must not be used in it: they jump. */
typedef void (*threads_fn)(size_t index, void *data);

struct threads;

/* ThreadSanitizer ends a child of many threads that makes a thread. */
#if defined(__SANITIZE_THREAD__)
#define CHILDREN_MAY_MAKE_THREADS false
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CHILDREN_MAY_MAKE_THREADS false
#endif
#endif
#ifndef CHILDREN_MAY_MAKE_THREADS
#define CHILDREN_MAY_MAKE_THREADS true
#endif

/* Starts `count` threads; none enters `body` before all of them run. */
struct threads *threads_start(size_t count, threads_fn body, void *data);

/* Waits until all have returned, then frees. */
void threads_join(struct threads *threads);

/* Both in one. */
void threads_run(size_t count, threads_fn body, void *data);

#endif
