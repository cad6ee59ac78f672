#ifndef CLI_OS_H
#define CLI_OS_H

/* What differs between C libraries, or is in glibc only since a version that is newer than 2.28.
 * The first two functions may be called between fork and exec. */

#include <stddef.h>
#include <sys/types.h>

/* Closes all descriptors from `first` on. */
void cli_os_close_from(int first);

/* Forks without running handlers of pthread_atfork(). */
pid_t cli_os_fork(void);

/* Returns the system's text for an errno. It is constant, or in the buffer. */
const char *cli_os_strerror(int code, char *text, size_t size);

#endif
