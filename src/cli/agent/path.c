#include "path.h"

#include "exit.h"
#include "messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char file_name[] = "/agent.sock";

enum { FOLDER_MAX = CLI_SOCKET_PATH_SIZE - sizeof file_name };

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

int agent_check_folder(void)
{
    const char *own = named_folder();

    if (own && (own[0] != '/' || strlen(own) > FOLDER_MAX)) {
        cli_say("RQL_LOCAL_DIR must start with '/' and have at most %d bytes", (int)FOLDER_MAX);
        return CLI_USAGE;
    }
    return CLI_DONE;
}

void agent_default_path(char out[CLI_SOCKET_PATH_SIZE])
{
    const char *own = named_folder();
    char folder[CLI_SOCKET_PATH_SIZE];

    if (own) {
        (void)snprintf(folder, sizeof folder, "%s", own);
    } else if (geteuid() == 0) {
        (void)snprintf(folder, sizeof folder, "/run/rql");
    } else {
        (void)snprintf(folder, sizeof folder, "/tmp/rql-%u", (unsigned)geteuid());
    }
    (void)snprintf(out, CLI_SOCKET_PATH_SIZE, "%.*s%s", (int)FOLDER_MAX, folder, file_name);
}

bool agent_make_default_path(char out[CLI_SOCKET_PATH_SIZE])
{
    const bool is_of_root = geteuid() == 0 && !named_folder();
    char folder[CLI_SOCKET_PATH_SIZE];

    agent_default_path(out);
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(out, '/') - out), out);
    return make_folder(folder, is_of_root ? 0755 : 0700);
}
