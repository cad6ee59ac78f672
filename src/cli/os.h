#ifndef CLI_OS_H
#define CLI_OS_H

/* All of the program that names a system: what Linux alone has, what differs between C libraries,
 * and what is in glibc only since a version that is newer than 2.28. base/os.h is the library's. */

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

/* A clock that goes on while the machine is suspended. */
#define CLI_OS_CLOCK CLOCK_BOOTTIME

/* Returns the system's text for an errno. It is constant, or in the buffer. */
const char *cli_os_strerror(int code, char *text, size_t size);

/* ---- descriptors to wait for: each function returns a new one, or -1 with errno ---- */

/* An event is readable once it is set, and until it is taken. */
int cli_os_event(void);
void cli_os_event_set(int event);
bool cli_os_event_take(int event); /* returns whether it was set */

/* Is readable when a signal of the set has come. All threads must block them. */
int cli_os_signals(const sigset_t *set);
int cli_os_signals_take(int signals); /* returns the next one, or 0: no other has come */

/* A process, also after its number has come to belong to another one. Is readable when the process
 * has ended. */
int cli_os_process(pid_t pid);

/* Sends a signal to the process, or to the group that it leads. Kernels before 6.9 cannot signal a
 * group. Returns false with errno. */
bool cli_os_process_signal(int process, int signal_number);
bool cli_os_process_signal_group(int process, int signal_number);

/* ---- sockets, which a command that is started does not inherit ---- */

/* Neither blocks. */
int cli_os_stream_socket(int family);
int cli_os_accept(int listener);

int cli_os_datagram_socket(int family);
bool cli_os_socket_pair(int out[2]);

/* The process at the other end of a Unix socket. The number of one in another namespace is 0. */
struct cli_os_peer {
    pid_t pid;
    uid_t uid;
};

/* Finds out which process has connected, or listens. */
bool cli_os_peer(int socket, struct cli_os_peer *out);

/* Has the kernel tell with all bytes which process has sent them. A socket that listens needs it
 * for the first bytes of a connection, and the accepted one for all others: it inherits it only if
 * it was set before the client connected. Returns false with errno. */
bool cli_os_pass_senders(int socket);

/* Reads without waiting, as recvmsg() does: all bytes are of one process. Its number is in *sender
 * if the system tells it. Descriptors that were sent are closed. */
ssize_t cli_os_receive(int socket, struct iovec *part, int flags, pid_t *sender);

/* ---- processes: these functions may be called between fork and exec ---- */

/* Closes all descriptors from `first` on. */
void cli_os_close_from(int first);

/* Forks without running handlers of pthread_atfork(). */
pid_t cli_os_fork(void);

/* The same for a child that a wait for any child does not find. */
pid_t cli_os_fork_unseen(void);
bool cli_os_unseen_is_alive(pid_t child);

/* Names this process in lists of processes. */
void cli_os_name_process(const char *name);

/* Lets the kernel kill this process when its parent dies. Returns false if that has happened. */
bool cli_os_die_with(pid_t parent);

/* Makes this process the parent of those whose parents end, if it is their ancestor. */
void cli_os_adopt_orphans(void);

/* Runs this program again in place of this process. Returns if that is not possible. */
void cli_os_exec_self(char *const arguments[], char *const environment[]);

/* ---- the list of processes, which may be missing, or of another namespace ---- */

/* Returns whether the list numbers processes as this process does. */
bool cli_os_sees_processes(void);

/* Returns whether the group has no process but its leader, as far as is known. A process that
 * cannot be read counts as a member. */
bool cli_os_group_is_empty(pid_t group);

/* Reads the name of the program that a process runs; empty: it is not known. */
void cli_os_program_of(pid_t pid, char *out, size_t size);

#endif
