#include "listen.h"

#include "messages.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { PRIVATE = 0600, OF_GROUP = 0660 }; /* modes of the socket */

/* Makes a folder of this user. An existing one has to belong to the user, and no other may write
 * into it: another user could put a socket there. */
static bool make_folder(const char *path, mode_t mode)
{
    struct stat found;

    if (mkdir(path, mode) == 0) {
        (void)chmod(path, mode); /* whatever the umask is */
    } else if (errno != EEXIST) {
        cli_say_errno(path, errno);
        return false;
    }
    if (lstat(path, &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != geteuid() ||
        (found.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        cli_say("%s: is no folder of this user alone", path);
        return false;
    }
    return true;
}

/* Returns the folder RQL_LOCAL_DIR, or NULL. */
static const char *named_folder(void)
{
    const char *name = secure_getenv("RQL_LOCAL_DIR");

    return name && *name ? name : NULL;
}

bool agent_default_path(char out[AGENT_PATH_SIZE])
{
    const char *own = named_folder();
    char folder[AGENT_PATH_SIZE];
    int length;

    if (own) {
        (void)snprintf(folder, sizeof folder, "%s", own);
    } else if (geteuid() == 0) {
        (void)snprintf(folder, sizeof folder, "/run/rql");
    } else {
        (void)snprintf(folder, sizeof folder, "/tmp/rql-%u", (unsigned)geteuid());
    }
    length = snprintf(out, AGENT_PATH_SIZE, "%s/agent.sock", folder);
    if (length >= AGENT_PATH_SIZE) {
        cli_say("RQL_LOCAL_DIR is too long for the path of a socket");
        return false;
    }
    return true;
}

bool agent_make_default_path(char out[AGENT_PATH_SIZE])
{
    const bool is_of_root = geteuid() == 0 && !named_folder();
    char folder[AGENT_PATH_SIZE];

    if (!agent_default_path(out)) {
        return false;
    }
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(out, '/') - out), out);
    return make_folder(folder, is_of_root ? 0755 : 0700);
}

/* Returns whether no program listens at the address any more. */
static bool is_dead(const struct sockaddr_un *address)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool is_refused = false;

    if (fd >= 0) {
        is_refused = connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                     errno == ECONNREFUSED;
        (void)close(fd);
    }
    return is_refused;
}

/* The mode is set by the umask, so that the socket never has another one. */
static int bind_with_mode(int fd, const struct sockaddr_un *address, mode_t mode)
{
    const mode_t before = umask(~mode & 0777);
    const int result = bind(fd, (const struct sockaddr *)address, sizeof *address);
    const int error = errno;

    (void)umask(before);
    errno = error;
    return result;
}

static bool bind_at(int fd, const struct sockaddr_un *address, mode_t mode)
{
    struct stat found;

    if (bind_with_mode(fd, address, mode) == 0) {
        return true;
    }
    if (errno != EADDRINUSE) {
        cli_say_errno(address->sun_path, errno);
        return false;
    }
    if (lstat(address->sun_path, &found) != 0 || !S_ISSOCK(found.st_mode)) {
        cli_say("%s: exists, and is no socket", address->sun_path);
        return false;
    }
    if (!is_dead(address)) {
        cli_say("%s: another program listens there already", address->sun_path);
        return false;
    }
    if (unlink(address->sun_path) != 0 || bind_with_mode(fd, address, mode) != 0) {
        cli_say_errno(address->sun_path, errno);
        return false;
    }
    return true;
}

/* Takes the lock of the path, which its holder has until it ends. */
static int lock_path(const char *path)
{
    char file[AGENT_PATH_SIZE + sizeof ".lock"];
    int fd;

    (void)snprintf(file, sizeof file, "%s.lock", path);
    fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, PRIVATE);
    if (fd < 0) {
        cli_say_errno(file, errno);
        return -1;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        cli_say("%s: another agent listens there already", path);
        (void)close(fd);
        return -1;
    }
    return fd;
}

bool agent_pass_senders(int fd)
{
    const int yes = 1;

    return setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes) == 0;
}

static bool begin(struct agent_socket *self)
{
    const struct group *group =
        geteuid() == 0 ? getgrnam("rql") : NULL; /* NOLINT(concurrency-mt-unsafe) */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat found;

    memcpy(address.sun_path, self->path, sizeof self->path);
    self->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (self->fd < 0 || !agent_pass_senders(self->fd)) {
        cli_say_errno("socket", errno);
        return false;
    }
    if (!bind_at(self->fd, &address, group ? OF_GROUP : PRIVATE)) {
        return false;
    }
    if (lstat(self->path, &found) != 0 ||
        (group &&
         fchownat(AT_FDCWD, self->path, (uid_t)-1, group->gr_gid, AT_SYMLINK_NOFOLLOW) != 0) ||
        listen(self->fd, SOMAXCONN) != 0) {
        cli_say_errno(self->path, errno);
        return false;
    }
    self->device = found.st_dev;
    self->inode = found.st_ino;
    return true;
}

bool agent_socket_open(struct agent_socket *self, const char *path)
{
    *self = (struct agent_socket){.fd = -1, .lock_fd = -1};
    if (strlen(path) >= AGENT_PATH_SIZE) {
        cli_say("%s: is too long for the path of a socket", path);
        return false;
    }
    memcpy(self->path, path, strlen(path) + 1);
    self->lock_fd = lock_path(path);
    if (self->lock_fd >= 0 && begin(self)) {
        return true;
    }
    agent_socket_close(self);
    return false;
}

/* ---- TCP ---- */

bool agent_is_address(const char *text)
{
    return !strchr(text, '/') && strchr(text, ':');
}

static bool read_port(const char *text, in_port_t *out)
{
    char *end;
    const long port = strtol(text, &end, 10);

    *out = htons((uint16_t)port);
    return *text >= '0' && *text <= '9' && *end == '\0' && port > 0 && port <= UINT16_MAX;
}

/* Reads an address of this machine: no other machine may take locks here. */
static bool read_address(const char *text, struct sockaddr_in6 *six, struct sockaddr_in *four)
{
    static const char of_four[] = "127.0.0.1:";
    static const char of_six[] = "[::1]:";

    *four = (struct sockaddr_in){.sin_family = AF_UNSPEC};
    *six = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    if (strncmp(text, of_four, strlen(of_four)) == 0) {
        *four =
            (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        return read_port(text + strlen(of_four), &four->sin_port);
    }
    return strncmp(text, of_six, strlen(of_six)) == 0 &&
           read_port(text + strlen(of_six), &six->sin6_port);
}

bool agent_socket_open_tcp(struct agent_socket *self, const char *address)
{
    const int yes = 1;
    struct sockaddr_in6 six;
    struct sockaddr_in four;
    const bool is_read = read_address(address, &six, &four);
    const bool is_four = four.sin_family == AF_INET;

    *self = (struct agent_socket){.kind = AGENT_SOCKET_TCP, .fd = -1, .lock_fd = -1};
    if (!is_read) {
        cli_say("%s: a path, 127.0.0.1:PORT or [::1]:PORT can be listened at", address);
        return false;
    }
    (void)snprintf(self->path, sizeof self->path, "%s", address);
    self->fd = socket(is_four ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (self->fd < 0 || setsockopt(self->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(self->fd, is_four ? (struct sockaddr *)&four : (struct sockaddr *)&six,
             is_four ? sizeof four : sizeof six) != 0 ||
        listen(self->fd, SOMAXCONN) != 0) {
        cli_say_errno(address, errno);
        agent_socket_close(self);
        return false;
    }
    return true;
}

/* ---- a socket of systemd ---- */

bool agent_socket_adopt(struct agent_socket *self, int fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNSPEC};
    socklen_t size = sizeof address;
    int listens = 0;
    socklen_t listens_size = sizeof listens;

    *self = (struct agent_socket){.kind = AGENT_SOCKET_PASSED, .fd = fd, .lock_fd = -1};
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) != 0 || listens == 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0 || address.sun_family != AF_UNIX ||
        size > sizeof address || !agent_pass_senders(fd) || fcntl(fd, F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        cli_say("the socket of LISTEN_FDS is no Unix socket that listens");
        return false;
    }
    (void)snprintf(self->path, sizeof self->path, "%.*s",
                   (int)(size - offsetof(struct sockaddr_un, sun_path)), address.sun_path);
    return true;
}

/* Removes the file first: behind its closing another agent would take it for a dead one. */
void agent_socket_close(struct agent_socket *self)
{
    struct stat found;

    if (self->inode != 0 && lstat(self->path, &found) == 0 && found.st_dev == self->device &&
        found.st_ino == self->inode) {
        (void)unlink(self->path);
    }
    if (self->fd >= 0) {
        (void)close(self->fd);
    }
    if (self->lock_fd >= 0) {
        (void)close(self->lock_fd);
    }
    self->fd = -1;
    self->lock_fd = -1;
}
