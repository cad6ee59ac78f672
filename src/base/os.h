#ifndef RQLI_BASE_OS_H
#define RQLI_BASE_OS_H

/* What differs between C libraries, or is in glibc only since a version that is newer than 2.28. */

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

#endif
