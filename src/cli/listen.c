#include "listen.h"

#include "messages.h"
#include "os.h"

#include <arpa/inet.h>
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

/* Returns whether no program listens at the address any more. */
static bool is_dead(const struct sockaddr_un *address)
{
    const int fd = cli_os_stream_socket(AF_UNIX);
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

enum { LOCK_FILE_SIZE = CLI_SOCKET_PATH_SIZE + sizeof ".lock" };

static void name_lock(const char *path, char out[LOCK_FILE_SIZE])
{
    (void)snprintf(out, LOCK_FILE_SIZE, "%s.lock", path);
}

/* Returns whether an open file is the one that this path names. */
static bool is_file_at(int fd, const char *path)
{
    struct stat own;
    struct stat found;

    return fstat(fd, &own) == 0 && lstat(path, &found) == 0 && own.st_dev == found.st_dev &&
           own.st_ino == found.st_ino;
}

/* Opens and locks the file that guards the path. Returns -1 after a message. */
static int open_lock(const char *file, const char *path)
{
    const int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, PRIVATE);

    if (fd < 0) {
        cli_say_errno(file, errno);
    } else if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        cli_say("%s: another program listens there already", path);
        (void)close(fd);
        return -1;
    }
    return fd;
}

/* Takes the lock of the path, which its holder has until it ends. Only the holder removes the file,
 * before it unlocks it. A file that was removed between open() and flock() guards nothing: another
 * program may have made and locked the next one. */
static int lock_path(const char *path)
{
    char file[LOCK_FILE_SIZE];
    int fd;

    name_lock(path, file);
    fd = open_lock(file, path);
    while (fd >= 0 && !is_file_at(fd, file)) {
        (void)close(fd);
        fd = open_lock(file, path);
    }
    return fd;
}

/* Removes the file while it is locked. */
static void unlock_path(int fd, const char *path)
{
    char file[LOCK_FILE_SIZE];

    name_lock(path, file);
    if (is_file_at(fd, file)) {
        (void)unlink(file);
    }
    (void)close(fd);
}

static bool begin(struct cli_socket *self)
{
    const struct group *group =
        geteuid() == 0 ? getgrnam("rql") : NULL; /* NOLINT(concurrency-mt-unsafe) */
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat found;

    memcpy(address.sun_path, self->path, sizeof self->path);
    self->fd = cli_os_stream_socket(AF_UNIX);
    if (self->fd < 0 || !cli_os_pass_senders(self->fd)) {
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

bool cli_socket_open(struct cli_socket *self, const char *path)
{
    *self = (struct cli_socket){.fd = -1, .lock_fd = -1};
    if (strlen(path) >= CLI_SOCKET_PATH_SIZE) {
        cli_say("%s: is too long for the path of a socket", path);
        return false;
    }
    memcpy(self->path, path, strlen(path) + 1);
    self->lock_fd = lock_path(path);
    if (self->lock_fd >= 0 && begin(self)) {
        return true;
    }
    cli_socket_close(self);
    return false;
}

/* ---- TCP ---- */

bool cli_is_address(const char *text)
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

/* An address of either family, and its size. */
struct endpoint {
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address;

    socklen_t size;
};

/* Reads "1.2.3.4:PORT" or "[::1]:PORT". Names are not resolved. */
static bool read_endpoint(const char *text, struct endpoint *out)
{
    const bool is_six = *text == '[';
    const char *colon = strrchr(text, ':');
    char host[INET6_ADDRSTRLEN];
    size_t length = colon ? (size_t)(colon - text) : 0;

    if (is_six && (length < 2 || text[length - 1] != ']')) {
        return false;
    }
    text += is_six;
    length -= is_six ? 2 : 0;
    if (length == 0 || length >= sizeof host) {
        return false;
    }
    (void)snprintf(host, sizeof host, "%.*s", (int)length, text);
    if (is_six) {
        struct sockaddr_in6 *six = &out->address.six;

        *six = (struct sockaddr_in6){.sin6_family = AF_INET6};
        out->size = sizeof *six;
        return inet_pton(AF_INET6, host, &six->sin6_addr) == 1 &&
               read_port(colon + 1, &six->sin6_port);
    }
    out->address.four = (struct sockaddr_in){.sin_family = AF_INET};
    out->size = sizeof out->address.four;
    return inet_pton(AF_INET, host, &out->address.four.sin_addr) == 1 &&
           read_port(colon + 1, &out->address.four.sin_port);
}

static bool is_of_loopback(const struct endpoint *endpoint)
{
    return endpoint->address.any.sa_family == AF_INET6
               ? IN6_IS_ADDR_LOOPBACK(&endpoint->address.six.sin6_addr)
               : ntohl(endpoint->address.four.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

enum cli_address_kind cli_address_kind(const char *text)
{
    struct endpoint endpoint;

    if (!read_endpoint(text, &endpoint)) {
        return CLI_ADDRESS_BAD;
    }
    return is_of_loopback(&endpoint) ? CLI_ADDRESS_LOOPBACK : CLI_ADDRESS_OPEN;
}

bool cli_socket_open_tcp(struct cli_socket *self, const char *address)
{
    const int yes = 1;
    struct endpoint to;

    *self = (struct cli_socket){.kind = CLI_SOCKET_TCP, .fd = -1, .lock_fd = -1};
    if (!read_endpoint(address, &to)) {
        cli_say("%s: is no address with a port, such as 127.0.0.1:PORT or [::1]:PORT", address);
        return false;
    }
    (void)snprintf(self->path, sizeof self->path, "%s", address);
    self->fd = cli_os_stream_socket(to.address.any.sa_family);
    if (self->fd < 0 || setsockopt(self->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) != 0 ||
        bind(self->fd, &to.address.any, to.size) != 0 || listen(self->fd, SOMAXCONN) != 0) {
        cli_say_errno(address, errno);
        cli_socket_close(self);
        return false;
    }
    return true;
}

/* ---- a socket of systemd ---- */

bool cli_socket_adopt(struct cli_socket *self, int fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNSPEC};
    socklen_t size = sizeof address;
    int listens = 0;
    socklen_t listens_size = sizeof listens;

    *self = (struct cli_socket){.kind = CLI_SOCKET_PASSED, .fd = fd, .lock_fd = -1};
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) != 0 || listens == 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0 || address.sun_family != AF_UNIX ||
        size > sizeof address || !cli_os_pass_senders(fd) || fcntl(fd, F_SETFL, O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
        cli_say("the socket of LISTEN_FDS is no Unix socket that listens");
        return false;
    }
    (void)snprintf(self->path, sizeof self->path, "%.*s",
                   (int)(size - offsetof(struct sockaddr_un, sun_path)), address.sun_path);
    return true;
}

/* Removes the file first: behind its closing another program would take it for a dead one. */
void cli_socket_close(struct cli_socket *self)
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
        unlock_path(self->lock_fd, self->path);
    }
    self->fd = -1;
    self->lock_fd = -1;
}
