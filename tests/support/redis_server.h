#ifndef REDIS_SERVER_H
#define REDIS_SERVER_H

/* A private redis-server for one test group: a Unix socket in a fresh directory, on request a port
 * of 127.0.0.1 as well, no persistence, gone when the test process dies for whatever reason.
 *
 * The server dies with the thread that started it: start it from the main thread.
 * Functions that return int give 0 for success. */

#include <hiredis.h>
#include <sys/types.h>

struct redis_server {
    pid_t pid;                    /* 0: not running */
    int port;                     /* 0: Unix socket only */
    const char *const *arguments; /* of the caller, ended by NULL; or NULL */
    char dir[64];
    char socket_path[96];
    char url[128]; /* unix://<socket_path>, or redis://127.0.0.1:<port> */
};

int redis_server_available(void); /* is RQL_TEST_REDIS set? */

/* Returns when the server answers. `arguments` go behind our own ("--requirepass", "x", NULL) and
 * must live until redis_server_stop(). */
int redis_server_start(struct redis_server *server);
int redis_server_start_with(struct redis_server *server, const char *const *arguments);
int redis_server_start_tcp(struct redis_server *server, const char *const *arguments);

/* Ends the server and removes its directory. Harmless when it was never started. */
void redis_server_stop(struct redis_server *server);

/* Ends it as a crash does, keeping the directory; redis_server_restart() starts it again with the
 * same socket path, port and arguments (after a crash, or to replace a live one). */
void redis_server_kill(struct redis_server *server);
int redis_server_restart(struct redis_server *server);

/* A paused server accepts connections and bytes, and answers nothing. In force on return. */
void redis_server_pause(const struct redis_server *server);
void redis_server_resume(const struct redis_server *server);

/* Nobody can connect through the Unix socket until it is shown again; connections stay. */
void redis_server_hide(const struct redis_server *server);
void redis_server_show(const struct redis_server *server);

/* Connected through the Unix socket, whatever the url; NULL: it does not answer. redisFree(). */
redisContext *redis_server_connect(const struct redis_server *server);

#endif
