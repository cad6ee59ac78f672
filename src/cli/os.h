#ifndef CLI_OS_H
#define CLI_OS_H

/* What the system has, and its C library only since a version that is newer than 2.28. These
 * functions may be called between fork and exec. */

#include <sys/types.h>

/* Closes all descriptors from `first` on. */
void cli_os_close_from(int first);

/* Forks without running handlers of pthread_atfork(). */
pid_t cli_os_fork(void);

#endif
