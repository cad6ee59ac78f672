#include "file.h"

#include "exit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum { FOR_ALL_TO_READ = S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH };

/* Writes the text and always closes `fd`: a remote file system may report only then that there was
 * no room for the text. */
static int write_and_close(int fd, const char *text)
{
    size_t left = strlen(text);
    int fault = 0;

    while (left > 0 && fault == 0) {
        const ssize_t written = write(fd, text, left);

        if (written >= 0) {
            text += written;
            left -= (size_t)written;
        } else if (errno != EINTR) {
            fault = errno;
        }
    }
    return close(fd) != 0 && fault == 0 ? errno : fault;
}

/* Writes into the file of this name. Through a link the file is created as well. */
static int write_into(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, FOR_ALL_TO_READ);

    return fd < 0 ? errno : write_and_close(fd, text);
}

/* Writes the text to a file with a unique name next to `path`, and then renames it to `path`. */
static int replace(const char *path, const char *text)
{
    const size_t size = strlen(path) + sizeof ".XXXXXX";
    CLI_AUTO(cli_free) char *beside = cli_must(malloc(size));
    int fault;
    int fd;

    (void)snprintf(beside, size, "%s.XXXXXX", path);
    fd = mkostemp(beside, O_CLOEXEC);
    if (fd < 0) {
        return errno;
    }
    fault = fchmod(fd, FOR_ALL_TO_READ) == 0 ? 0 : errno;
    if (fault == 0) {
        fault = write_and_close(fd, text);
    } else {
        (void)close(fd);
    }
    if (fault == 0 && rename(beside, path) != 0) {
        fault = errno;
    }
    if (fault != 0) {
        (void)unlink(beside);
    }
    return fault;
}

/* Replaces the file while signals that end this program are blocked, so that none of them leaves
 * the temporary file behind. Signals that report a mistake of the program itself cannot be
 * blocked. */
static int replace_undisturbed(const char *path, const char *text)
{
    static const int mistakes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigset_t held_back;
    sigset_t before;
    int fault;

    (void)sigfillset(&held_back);
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        (void)sigdelset(&held_back, mistakes[i]);
    }
    (void)pthread_sigmask(SIG_BLOCK, &held_back, &before);
    fault = replace(path, text);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return fault;
}

/* Finds the file that `path` leads to. If a link leads to nothing, an empty file is made there
 * first, which is then replaced like any other. */
static int find_target(const char *path, struct stat *out)
{
    int fault = stat(path, out) == 0 ? 0 : errno;

    if (fault == ENOENT) {
        fault = write_into(path, "");
        fault = fault == 0 && stat(path, out) != 0 ? errno : fault;
    }
    return fault;
}

int cli_file_write(const char *path, const char *text)
{
    CLI_AUTO(cli_free) char *target = NULL;
    struct stat there;
    int fault;

    if (lstat(path, &there) != 0) {
        return errno == ENOENT ? replace_undisturbed(path, text) : errno;
    }
    fault = find_target(path, &there);
    if (fault != 0) {
        return fault;
    }
    /* An open file whose name was removed, as /dev/stdout may be, has no path either. */
    target = S_ISREG(there.st_mode) ? realpath(path, NULL) : NULL;
    return target ? replace_undisturbed(target, text) : write_into(path, text);
}

/* Writes once. The signal of a file that may not grow any more (ulimit -f) would end this program:
 * it is taken instead. */
static int write_once(int fd, const char *bytes, size_t size)
{
    const struct timespec no_time = {0};
    sigset_t growth;
    sigset_t before;
    ssize_t written;
    int fault;

    (void)sigemptyset(&growth);
    (void)sigaddset(&growth, SIGXFSZ);
    (void)pthread_sigmask(SIG_BLOCK, &growth, &before);
    written = write(fd, bytes, size);
    fault = written < 0 ? errno : 0;
    if (fault == EFBIG) {
        (void)sigtimedwait(&growth, NULL, &no_time);
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return fault == 0 && (size_t)written < size ? ENOSPC : fault; /* a part of it had room */
}

int cli_file_append(const char *path, const char *bytes, size_t size)
{
    const int flags = O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    const int fd = open(path, flags, FOR_ALL_TO_READ);
    int fault;

    if (fd < 0) {
        return errno;
    }
    fault = write_once(fd, bytes, size);
    return close(fd) != 0 && fault == 0 ? errno : fault;
}
