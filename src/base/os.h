#ifndef RQLI_BASE_OS_H
#define RQLI_BASE_OS_H

/* What differs between C libraries, or is in glibc only since a version that is newer than 2.28. */

#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

pid_t rqli_os_thread_id(void);

/* Returns whether the kernel still has this thread of this process. */
bool rqli_os_thread_lives(pid_t thread);

/* Closes all descriptors from `first` on in the child that is to be spawned. Returns an errno. */
int rqli_os_close_in_child(posix_spawn_file_actions_t *actions, int first);

/* Returns the system's text for an errno. It is constant, or in the buffer. */
const char *rqli_os_strerror(int code, char *text, size_t size);

/* What runs when the thread ends within a scope: musl runs such handlers alone, and leaves cleanup
 * attributes to C++ exceptions. glibc runs the attributes at the end of a thread as well, so that
 * there is nothing to do. A scope has both: the attribute's function removes the handler, because
 * the next end of the thread would run it again. */
struct rqli_os_cleanup {
#ifdef __GLIBC__
    bool is_unused;
#else
    struct __ptcb frame; /* as pthread_cleanup_push() has it */
#endif
};

void rqli_os_cleanup_push(struct rqli_os_cleanup *self, void (*run)(void *), void *data);
void rqli_os_cleanup_pop(struct rqli_os_cleanup *self);

#endif
