#include "redis_server.h"

#include "stall.h"
#include "wait.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 20000, MAX_ARGUMENTS = 64, PORT_TRIES = 50, BUS = 10000, PORT_MAX = 65535 };

/* Ours first: redis-server takes the last word on an option. */
static void fill_command_line(const char **list, const char *program, const char *port,
                              const struct redis_server *server)
{
    const char *const ours[] = {
        program,
        "--port",
        port,
        "--bind",
        "127.0.0.1",
        "--unixsocket",
        server->socket_path,
        "--dir",
        server->dir,
        "--save",
        "",
        "--appendonly",
        "no",
        "--loglevel",
        "warning",
        "--logfile",
        "server.log",
    };
    const char *const *extra = server->arguments;
    size_t count = sizeof ours / sizeof *ours;

    memcpy(list, ours, sizeof ours);
    while (extra && *extra && count < MAX_ARGUMENTS) {
        list[count++] = *extra++;
    }
    list[count] = NULL;
}

static void run_server(const char *program, const struct redis_server *server, pid_t parent)
{
    const char *list[MAX_ARGUMENTS + 1];
    char port[16];

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127);
    }
    (void)snprintf(port, sizeof port, "%d", server->port);
    fill_command_line(list, program, port, server);
    (void)execv(program, (char *const *)(uintptr_t)list);
    _exit(127);
}

/* A server that asks for a password is up as well. */
static bool says_up(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STATUS ||
           (reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOAUTH", 6) == 0);
}

redisContext *redis_server_connect(const struct redis_server *server)
{
    redisContext *context = redisConnectUnix(server->socket_path);

    if (context && context->err) {
        redisFree(context);
        context = NULL;
    }
    return context;
}

/* It may just end, and hiredis writes with a plain send(). */
static bool is_up(void *data)
{
    const struct redis_server *server = data;
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    redisContext *context = redis_server_connect(server);
    redisReply *reply = context ? redisCommand(context, "PING") : NULL;
    bool up = reply && says_up(reply);

    (void)signal(SIGPIPE, before);
    if (reply) {
        freeReplyObject(reply);
    }
    if (context) {
        redisFree(context);
    }
    return up;
}

/* Also true when it has ended: then there is nothing left to wait for. */
static bool is_up_or_over(void *data)
{
    struct redis_server *server = data;

    if (waitpid(server->pid, NULL, WNOHANG) == server->pid) {
        server->pid = 0;
        return true;
    }
    return is_up(server);
}

int redis_server_available(void)
{
    return getenv("RQL_TEST_REDIS") != NULL;
}

static int launch(struct redis_server *server)
{
    const char *program = getenv("RQL_TEST_REDIS");
    pid_t parent = getpid();

    server->pid = program ? fork() : -1;
    if (server->pid == 0) {
        run_server(program, server, parent);
    }
    if (server->pid < 0 || !wait_until(is_up_or_over, server, START_MS)) {
        return -1;
    }
    stall_watch(server->pid);
    return server->pid > 0 ? 0 : -1;
}

static int start(struct redis_server *server, int port, const char *const *arguments)
{
    *server = (struct redis_server){.port = port, .arguments = arguments};
    (void)snprintf(server->dir, sizeof server->dir, "/tmp/rql-test-XXXXXX");
    if (!mkdtemp(server->dir)) {
        return -1;
    }
    (void)snprintf(server->socket_path, sizeof server->socket_path, "%s/s", server->dir);
    (void)snprintf(server->url, sizeof server->url, "unix://%s", server->socket_path);
    if (port > 0) {
        (void)snprintf(server->url, sizeof server->url, "redis://127.0.0.1:%d", port);
    }
    stall_begin();
    if (launch(server)) {
        redis_server_stop(server);
        return -1;
    }
    return 0;
}

int redis_server_start(struct redis_server *server)
{
    return start(server, 0, NULL);
}

int redis_server_start_with(struct redis_server *server, const char *const *arguments)
{
    return start(server, 0, arguments);
}

/* 0: the system's choice, which is not soon given to another. The result is 0 if it is not free. */
static int free_port(int wanted)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)wanted)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int port = 0;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&address, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0) {
        port = ntohs(address.sin_port);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    return port;
}

/* A node of a cluster listens at one above as well. */
static bool is_bus_free(int port)
{
    return port + BUS <= PORT_MAX && free_port(port + BUS) > 0;
}

int redis_server_start_tcp(struct redis_server *server, const char *const *arguments)
{
    for (int i = 0; i < PORT_TRIES; i++) {
        int port = free_port(0);

        if (port > 0 && is_bus_free(port) && start(server, port, arguments) == 0) {
            return 0;
        }
    }
    return -1;
}

static void end(struct redis_server *server, int signal_number)
{
    if (server->pid > 0) {
        stall_unwatch(server->pid);
        (void)kill(server->pid, signal_number);
        (void)kill(server->pid, SIGCONT); /* it may be paused */
        (void)waitpid(server->pid, NULL, 0);
    }
    server->pid = 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    (void)type;
    (void)where;
    (void)remove(path);
    return 0;
}

void redis_server_stop(struct redis_server *server)
{
    end(server, SIGTERM);
    if (server->dir[0]) {
        (void)nftw(server->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
        stall_end();
    }
    *server = (struct redis_server){0};
}

void redis_server_kill(struct redis_server *server)
{
    end(server, SIGKILL);
}

int redis_server_restart(struct redis_server *server)
{
    end(server, SIGTERM);
    return launch(server);
}

void redis_server_pause(const struct redis_server *server)
{
    (void)kill(server->pid, SIGSTOP);
    (void)waitpid(server->pid, NULL, WUNTRACED);
}

void redis_server_resume(const struct redis_server *server)
{
    (void)kill(server->pid, SIGCONT);
    (void)waitpid(server->pid, NULL, WCONTINUED);
}

static void move_socket(const struct redis_server *server, const char *from, const char *to)
{
    char old[128];
    char new[128];

    (void)snprintf(old, sizeof old, "%s%s", server->socket_path, from);
    (void)snprintf(new, sizeof new, "%s%s", server->socket_path, to);
    (void)rename(old, new);
}

void redis_server_hide(const struct redis_server *server)
{
    move_socket(server, "", ".hidden");
}

void redis_server_show(const struct redis_server *server)
{
    move_socket(server, ".hidden", "");
}
