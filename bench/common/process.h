#ifndef RQLB_PROCESS_H
#define RQLB_PROCESS_H

/* Worker processes and the memory that they share with their parent. */

#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Zeroed memory that children made later share; NULL with errno. Lives as long as the process. */
void *shared_memory(size_t size_bytes);

/* Waits for n posts, for so many seconds at most. Returns how many came. */
int await_posts(sem_t *semaphore, int n, int seconds);

/* fork() of a child that is killed when its parent ends, however that ends. */
pid_t fork_tied(void);

/* Waits for a child until deadline_ns; past it the child is killed. True: it ended by itself with
 * exit status 0. */
bool reap(pid_t child, int64_t deadline_ns);

#endif
