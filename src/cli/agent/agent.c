#include "call.h"
#include "cmd.h"
#include "command.h"
#include "conn.h"
#include "hold.h"
#include "messages.h"
#include "os.h"
#include "path.h"
#include "serve/serve.h"
#include "signals.h"
#include "state.h"
#include "systemd.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The command `rql agent`: sets everything up, runs the loop, and ends. */

enum {
    CONNS_MAX = 10000,
    CONNS_LEAST = 2, /* one user may have half of them */
    OWN_FDS = 64,    /* descriptors that are neither of connections nor of processes */
    DRAIN_MS = 30000,
    RESUME_MS = 100,
    N_SIGNALS = 2,
    PASSWORD_SIZE = 512
};

/* ---- the end ---- */

/* Nothing of the library is left on the loop. What is left of the agent are handles that close. */
static void on_loop_closed(void *data)
{
    struct agent *self = data;

    self->loop = NULL;
    agent_tasks_end(&self->tasks);
    uv_close((uv_handle_t *)&self->losses_async, NULL);
    uv_close((uv_handle_t *)&self->drain, NULL);
    uv_close((uv_handle_t *)&self->resume, NULL);
    uv_close((uv_handle_t *)&self->listener, NULL);
}

/* Closes a connection. A request whose withdrawal is not over yet is answered before. */
static void end_conn(struct agent_conn *conn)
{
    if (agent_hold_waiting(conn)) {
        agent_reply_ending(&conn->out);
        agent_conn_flush(conn);
    }
    agent_conn_close(conn, AGENT_BY_AGENT);
}

/* Closes all connections: their locks are left to their TTL. */
static void end(struct agent *self)
{
    if (self->phase == AGENT_ENDS) {
        return;
    }
    self->phase = AGENT_ENDS;
    (void)uv_timer_stop(&self->drain);
    (void)uv_timer_stop(&self->resume);
    (void)uv_poll_stop(&self->listener);
    while (self->conns) {
        end_conn(self->conns);
    }
    agent_holds_forget_left(self);
    agent_calls_end(self);
    (void)!rql_loop_close(self->loop, on_loop_closed, self, NULL); /* no fault: it is open */
}

static void on_drained(uv_timer_t *timer)
{
    end(timer->data);
}

/* By a timer, because the caller is in the midst of something. */
static void on_released(struct agent *self)
{
    if (self->phase == AGENT_DRAINS && self->n_held == 0 && self->n_waiting == 0 &&
        !agent_calls_are_due(self)) {
        (void)uv_timer_start(&self->drain, on_drained, 0, 0);
    }
}

/* The first signal lets the holders finish; the second one does not. */
static void on_signal(uv_signal_t *handle, int signal)
{
    struct agent *self = handle->data;

    (void)signal;
    if (self->phase != AGENT_SERVES) {
        end(self);
        return;
    }
    self->phase = AGENT_DRAINS;
    cli_systemd_notify("STOPPING=1");
    if (self->socket.kind == CLI_SOCKET_PASSED) { /* the next agent serves who connects now */
        (void)uv_poll_stop(&self->listener);
        (void)uv_timer_stop(&self->resume);
    }
    (void)uv_timer_start(&self->drain, on_drained, (uint64_t)self->drain_ms, 0);
    agent_holds_withdraw_all(self);
    on_released(self);
}

/* ---- the beginning ---- */

static void on_connection(uv_poll_t *poll, int status, int events);

static void on_resume(uv_timer_t *timer)
{
    struct agent *self = timer->data;

    (void)uv_poll_start(&self->listener, UV_READABLE, on_connection);
}

/* Without descriptors for more connections, those that come wait a moment. */
static void on_connection(uv_poll_t *poll, int status, int events)
{
    struct agent *self = poll->data;
    int fd = 0;

    (void)status;
    (void)events;
    while (fd >= 0) {
        fd = cli_os_accept(self->socket.fd);
        if (fd >= 0) {
            agent_conn_accept(self, fd);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            (void)uv_poll_stop(poll);
            (void)uv_timer_start(&self->resume, on_resume, RESUME_MS, 0);
        }
    }
}

/* Raises the limit of descriptors, and returns how many connections fit, and as many processes:
 * each has one. */
static size_t raise_limit(size_t own_fds)
{
    struct rlimit limit;
    size_t room;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return own_fds;
    }
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    room = limit.rlim_cur > own_fds ? ((size_t)limit.rlim_cur - own_fds) / 2 : 0;
    return room < CONNS_MAX ? room : CONNS_MAX;
}

/* Sets up all handles of the agent. The signals do not keep the loop alive. One that a shell has
 * ignored stays ignored. */
static void begin(struct agent *self, uv_signal_t signals[N_SIGNALS])
{
    static const int numbers[N_SIGNALS] = {SIGTERM, SIGINT};
    const sigset_t ending = cli_signals(numbers, N_SIGNALS);

    self->processes = (struct agent_processes){.uv = &self->uv,
                                               .ended = agent_holds_on_process_ended,
                                               .data = self,
                                               .most = self->most_conns};
    self->tasks.uv = &self->uv;
    for (int i = 0; i < N_SIGNALS; i++) {
        (void)uv_signal_init(&self->uv, &signals[i]);
        signals[i].data = self;
        if (sigismember(&ending, numbers[i])) {
            (void)uv_signal_start(&signals[i], on_signal, numbers[i]);
        }
        uv_unref((uv_handle_t *)&signals[i]);
    }
    (void)uv_timer_init(&self->uv, &self->drain);
    (void)uv_timer_init(&self->uv, &self->resume);
    (void)uv_async_init(&self->uv, &self->losses_async, agent_holds_on_losses);
    (void)uv_poll_init(&self->uv, &self->listener, self->socket.fd);
    self->drain.data = self;
    self->resume.data = self;
    self->losses_async.data = self;
    self->listener.data = self;
    (void)uv_poll_start(&self->listener, UV_READABLE, on_connection);
}

/* Runs until nothing is left on the loop. After the first run only the signals are: they are
 * blocked, because their handlers go. */
static void serve(struct agent *self)
{
    uv_signal_t signals[N_SIGNALS];
    sigset_t all;

    begin(self, signals);
    cli_say("listens at %s", self->socket.path);
    cli_systemd_notify("READY=1");
    (void)uv_run(&self->uv, UV_RUN_DEFAULT);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (int i = 0; i < N_SIGNALS; i++) {
        uv_close((uv_handle_t *)&signals[i], NULL);
    }
    (void)uv_run(&self->uv, UV_RUN_DEFAULT);
    agent_losses_end(self);
    agent_tasks_fini(&self->tasks);
}

/* A socket of systemd stays there while no agent runs: then connections wait. */
static bool open_socket(struct cli_socket *self, const char *path)
{
    char usual[CLI_SOCKET_PATH_SIZE];
    int passed = -1;

    if (!path && !cli_systemd_socket(&passed)) {
        return false;
    }
    if (passed >= 0) {
        return cli_socket_adopt(self, passed);
    }
    if (path && cli_is_address(path)) {
        return cli_socket_open_tcp(self, path);
    }
    return (path || agent_make_default_path(usual)) && cli_socket_open(self, path ? path : usual);
}

/* Reads the first line of a file that not everybody may read. */
static bool read_password(const char *path, char out[PASSWORD_SIZE])
{
    FILE *file = fopen(path, "re");
    struct stat found;
    size_t length;
    bool is_read;

    if (!file || fstat(fileno(file), &found) != 0) {
        cli_say_errno(path, errno);
        if (file) {
            (void)fclose(file);
        }
        return false;
    }
    is_read = (found.st_mode & S_IRWXO) == 0 && fgets(out, PASSWORD_SIZE, file) != NULL;
    (void)fclose(file);
    length = is_read ? strcspn(out, "\r\n") : 0;
    if (length == 0) {
        cli_say("%s: has no password, or all users may read it", path);
        return false;
    }
    if (length == PASSWORD_SIZE - 1) {
        cli_say("%s: the password has more than %d bytes", path, PASSWORD_SIZE - 2);
        return false;
    }
    out[length] = '\0';
    return true;
}

static int run_agent(struct cli_session *session)
{
    static const struct agent_ops ops = {
        .run = agent_command_run, .end_holds = agent_holds_end, .on_released = on_released};
    struct agent self = {.ops = &ops,
                         .client = session->client,
                         .own_fds = OWN_FDS + (session->args->http ? SERVE_FDS : 0),
                         .drain_ms = session->args->drain_ms,
                         .try_ms = session->args->options.io_timeout_ms,
                         .password = session->args->password};
    const char *address = session->args->http;
    struct serve *http = NULL;
    int code = CLI_DONE;

    self.most_conns = raise_limit(self.own_fds);
    if (self.most_conns < CONNS_LEAST) {
        cli_say("the hard limit of descriptors (ulimit -Hn) is too low: an agent needs %zu",
                self.own_fds + 2 * (size_t)CONNS_LEAST);
        return CLI_FAULT;
    }
    if (!open_socket(&self.socket, session->args->listen)) {
        return CLI_FAULT;
    }
    if (address) {
        code = serve_start(&(struct serve_wish){.args = session->args, .listen = address}, &http);
    }
    if (code != CLI_DONE) {
        cli_socket_close(&self.socket);
        return code;
    }
    (void)uv_loop_init(&self.uv);
    if (rql_loop_open(self.client, &self.uv, &self.loop, &session->error) == RQL_OK) {
        serve(&self);
    } else {
        code = cli_fault(&session->error);
    }
    serve_stop(http);
    cli_socket_close(&self.socket);
    (void)uv_loop_close(&self.uv);
    return code;
}

/* Who may open a socket of the file system is known by its mode. */
static int prepare(struct cli_args *args)
{
    static char password[PASSWORD_SIZE];

    args->drain_ms = args->drain_ms == CLI_UNSET ? DRAIN_MS : args->drain_ms;
    if (!args->listen && agent_check_folder() != CLI_DONE) {
        return CLI_USAGE;
    }
    if (args->listen && !strchr(args->listen, '/') &&
        cli_address_kind(args->listen) != CLI_ADDRESS_LOOPBACK) {
        return cli_misused(&cli_agent,
                           "a path with a slash, such as ./agent.sock, 127.0.0.1:PORT or "
                           "[::1]:PORT can be listened at, not ",
                           args->listen);
    }
    if (args->listen && cli_is_address(args->listen) && !args->password_file) {
        return cli_misused(&cli_agent, "an address needs a ", "--password-file");
    }
    if (args->password_file && !read_password(args->password_file, password)) {
        return CLI_FAULT;
    }
    args->password = args->password_file ? password : NULL;
    return serve_check(&cli_agent, args, args->http);
}

const struct cli_command cli_agent = {
    .name = "agent",
    .is_worth_naming = true,
    .takes_locks = true,
    .usage = "[--listen PATH|ADDRESS] [--drain DURATION]",
    .summary = "Serve the processes of this host, in any language",
    .examples = "  rql agent &\n"
                "  rql run report --agent -- ./report.sh     the lock ends with the command\n"
                "  S=/tmp/rql-$(id -u)/agent.sock            /run/rql/agent.sock for root\n"
                "  redis-cli -s $S RQL.LOCK report DETACHED TTL 60000      prints a secret\n"
                "  redis-cli -s $S RQL.UNLOCKSECRET report SECRET\n",
    .notes = "Listens on a Unix socket and speaks the protocol of Redis, so that every Redis "
             "client can take locks. A lock ends with the connection or the process that holds "
             "it. All who may open the socket may take any lock.\n"
             "ADDRESS is 127.0.0.1:PORT or [::1]:PORT, for clients that cannot reach a file. They "
             "send the first line of the password file by AUTH. By TCP a lock ends with its "
             "connection alone.\n",
    .prepare = prepare,
    .run = run_agent,
};
