#include "os.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The numbers of the calls that glibc 2.28 does not know; Alpha has others. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

enum {
    SIGNAL_GROUP = 1 << 2, /* PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9 */
    STAT_SIZE = 1024,
    LISTED_SIZE = 2048, /* entries that are read at once */
    PATH_SIZE = 32,
};

const char *cli_os_strerror(int code, char *text, size_t size)
{
#ifdef __GLIBC__
    return strerror_r(code, text, size); /* GNU's returns the text, which may be elsewhere */
#else
    return strerror_r(code, text, size) == 0 ? text : "unknown error";
#endif
}

/* ---- descriptors to wait for ---- */

int cli_os_event(void)
{
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void cli_os_event_set(int event)
{
    (void)eventfd_write(event, 1);
}

bool cli_os_event_take(int event)
{
    eventfd_t count;

    return eventfd_read(event, &count) == 0;
}

int cli_os_signals(const sigset_t *set)
{
    return signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
}

int cli_os_signals_take(int signals)
{
    struct signalfd_siginfo info;

    return read(signals, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

int cli_os_process(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

bool cli_os_process_signal(int process, int signal_number)
{
    return syscall(SYS_pidfd_send_signal, process, signal_number, NULL, 0) == 0;
}

bool cli_os_process_signal_group(int process, int signal_number)
{
    return syscall(SYS_pidfd_send_signal, process, signal_number, NULL, SIGNAL_GROUP) == 0;
}

/* ---- sockets ---- */

int cli_os_stream_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int cli_os_accept(int listener)
{
    return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

int cli_os_datagram_socket(int family)
{
    return socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
}

bool cli_os_socket_pair(int out[2])
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, out) == 0;
}

bool cli_os_peer(int socket, struct cli_os_peer *out)
{
    struct ucred found;
    socklen_t size = sizeof found;

    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &found, &size) != 0) {
        return false;
    }
    *out = (struct cli_os_peer){.pid = found.pid, .uid = found.uid};
    return true;
}

bool cli_os_pass_senders(int socket)
{
    const int yes = 1;

    return setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) == 0;
}

static void read_sender(struct msghdr *message, pid_t *out)
{
    struct ucred sender;

    for (struct cmsghdr *at = CMSG_FIRSTHDR(message); at; at = CMSG_NXTHDR(message, at)) {
        if (at->cmsg_level == SOL_SOCKET && at->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&sender, CMSG_DATA(at), sizeof sender);
            *out = sender.pid;
        }
    }
}

/* The kernel closes descriptors for which there is no room. */
ssize_t cli_os_receive(int socket, struct iovec *part, int flags, pid_t *sender)
{
    union {
        char data[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr aligned;
    } control;
    struct msghdr message = {.msg_iov = part,
                             .msg_iovlen = 1,
                             .msg_control = control.data,
                             .msg_controllen = sizeof control.data};
    const ssize_t length = recvmsg(socket, &message, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (length > 0) {
        read_sender(&message, sender);
    }
    return length;
}

/* ---- processes ---- */

/* Returns the number that a name in /proc/self/fd is, or -1. */
static int number_of(const char *name)
{
    int number = 0;

    while (*name >= '0' && *name <= '9') {
        number = 10 * number + (*name++ - '0');
    }
    return *name == '\0' ? number : -1;
}

_Static_assert(offsetof(struct dirent, d_name) == 19, "as getdents64() writes it");

/* Closes those of the entries from `first` on, but not the folder itself. */
static void close_entries(const char *entries, long size, int first, int folder)
{
    const struct dirent *entry;

    for (long at = 0; at < size; at += entry->d_reclen) {
        entry = (const struct dirent *)(entries + at);
        if (number_of(entry->d_name) >= first && number_of(entry->d_name) != folder) {
            (void)close(number_of(entry->d_name));
        }
    }
}

/* Closes what /proc lists. Returns false if it cannot be read. readdir() allocates, which nothing
 * may do between fork and exec, so the kernel's entries are read. */
static bool close_listed(int first)
{
    _Alignas(struct dirent) char entries[LISTED_SIZE];
    const int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long size = folder;

    while (size >= 0 && (size = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
        close_entries(entries, size, first, folder);
    }
    if (folder >= 0) {
        (void)close(folder);
    }
    return size == 0;
}

/* Kernels before 5.9 have no close_range(). The limit of descriptors may be a thousand million. */
void cli_os_close_from(int first)
{
    struct rlimit limit;

    if (syscall(SYS_close_range, first, ~0U, 0) == 0 || close_listed(first) ||
        getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return;
    }
    for (int fd = first; (rlim_t)fd < limit.rlim_cur; fd++) {
        (void)close(fd);
    }
}

pid_t cli_os_fork(void)
{
#ifdef __s390__
    return (pid_t)syscall(SYS_clone, 0, SIGCHLD, 0, 0, 0); /* the stack comes first */
#else
    return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}

/* A child without an exit signal is ignored by a wait without __WCLONE. */
pid_t cli_os_fork_unseen(void)
{
    return (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
}

bool cli_os_unseen_is_alive(pid_t child)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT | __WCLONE) == 0 &&
           info.si_pid == 0;
}

void cli_os_name_process(const char *name)
{
    (void)prctl(PR_SET_NAME, name);
}

/* The order matters: a parent that dies after prctl() takes this process with it, and one that died
 * before is no longer its parent. */
bool cli_os_die_with(pid_t parent)
{
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
}

void cli_os_adopt_orphans(void)
{
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void cli_os_exec_self(char *const arguments[], char *const environment[])
{
    (void)execve("/proc/self/exe", arguments, environment);
}

/* ---- the list of processes ---- */

bool cli_os_sees_processes(void)
{
    char link[PATH_SIZE] = "";

    return readlink("/proc/self", link, sizeof link - 1) > 0 &&
           strtol(link, NULL, 10) == (long)getpid();
}

static const char *skip_fields(const char *at, int count)
{
    for (int i = 0; i < count; i++) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    return at;
}

/* Parses a line of /proc/PID/stat, see proc(5). A process whose first thread has ended looks like a
 * zombie while its other threads still run. */
static bool is_alive_in(const char *line, pid_t group)
{
    const char *name_end = strrchr(line, ')'); /* the name of a program may contain blanks */
    const char *state = name_end ? skip_fields(name_end, 1) : "";
    const bool is_zombie = *state == 'Z' || *state == 'X';

    return strtol(skip_fields(state, 2), NULL, 10) == (long)group &&
           (!is_zombie || strtol(skip_fields(state, 17), NULL, 10) > 1);
}

/* Returns whether a process is in the group. A process that cannot be read counts as a member,
 * unless it has just ended. */
static bool is_member(const char *number, pid_t group)
{
    char path[PATH_SIZE];
    char line[STAT_SIZE];
    FILE *file;
    size_t length;

    (void)snprintf(path, sizeof path, "/proc/%.10s/stat", number);
    file = fopen(path, "re");
    if (!file) {
        return errno != ENOENT;
    }
    length = fread(line, 1, sizeof line - 1, file); /* the name may contain a line feed, too */
    (void)fclose(file);
    line[length] = '\0';
    return is_alive_in(line, group);
}

bool cli_os_group_is_empty(pid_t group)
{
    DIR *folder = cli_os_sees_processes() ? opendir("/proc") : NULL;
    const struct dirent *entry;
    bool is_empty = folder != NULL;

    /* Each folder is read by one thread. NOLINTNEXTLINE(concurrency-mt-unsafe) */
    while (is_empty && (entry = readdir(folder)) != NULL) {
        const long pid = strtol(entry->d_name, NULL, 10);

        is_empty = pid <= 0 || pid == (long)group || !is_member(entry->d_name, group);
    }
    if (folder) {
        (void)closedir(folder);
    }
    return is_empty;
}

void cli_os_program_of(pid_t pid, char *out, size_t size)
{
    char path[PATH_SIZE];
    ssize_t length = -1;
    int fd;

    (void)snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        length = read(fd, out, size - 1);
        (void)close(fd);
    }
    out[length > 0 ? length : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}
