#ifndef RQLI_BASE_OS_H
#define RQLI_BASE_OS_H

/* All that names a system: what Linux alone has, what differs between C libraries, and what is in
 * glibc only since a version that is newer than 2.28. */

#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

/* A clock that goes on while the machine is suspended. */
#define RQLI_OS_CLOCK CLOCK_BOOTTIME

pid_t rqli_os_thread_id(void);

/* Returns whether the kernel still has this thread of this process. */
bool rqli_os_thread_lives(pid_t thread);

/* Closes all descriptors from `first` on in the child that is to be spawned. Returns an errno. */
int rqli_os_close_in_child(posix_spawn_file_actions_t *actions, int first);

/* Returns the system's text for an errno. It is constant, or in the buffer. */
const char *rqli_os_strerror(int code, char *text, size_t size);

/* An event is a descriptor by which a thread wakes one that polls it: it is readable once it is
 * set, and until it is cleared. Returns a new one, or -1 with errno. */
int rqli_os_event(void);
void rqli_os_event_set(int event);
void rqli_os_event_clear(int event);

/* Sleeps while the word has this value, but no longer than left; NULL: without end. May return
 * early. */
void rqli_os_futex_wait(_Atomic int32_t *word, int32_t seen, const struct timespec *left);
void rqli_os_futex_wake(_Atomic int32_t *word);

/* Returns a stream socket that a command which is started does not inherit, or -1 with errno. */
int rqli_os_socket(int family, bool is_blocking);

/* Returns false if the system gives no random bytes, or fewer. */
bool rqli_os_random(void *bytes, size_t size);

/* Pages that no core dump has, as far as the system can, and those that are zero in a forked child:
 * false if it cannot. */
void rqli_os_leave_out_of_dumps(void *pages, size_t size);
bool rqli_os_wipe_in_children(void *pages, size_t size);

/* A handler for a thread that ends within a scope: musl runs such handlers alone, and leaves
 * cleanup attributes to C++ exceptions. glibc runs the attributes at the end of a thread as well,
 * so that there is nothing to do. A scope has both: the attribute's function removes the handler,
 * because the next end of the thread would run it again. */
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
