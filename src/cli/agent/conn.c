#include "conn.h"

#include "exit.h"
#include "list.h"
#include "os.h"
#include "request.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    UNREAD_MAX = 1 << 20, /* bytes of replies: a client with more does not read them */
};

static void on_poll(uv_poll_t *poll, int status, int events);

static bool may_read(const struct agent_conn *self)
{
    return self->in_size < AGENT_REQUEST_MAX && !self->other_waits;
}

/* Waits for what can be done next: for bytes while there is room for them, and always for the end
 * of the connection. */
static void await(struct agent_conn *self)
{
    const int events =
        UV_DISCONNECT | (may_read(self) ? UV_READABLE : 0) | (self->out.size > 0 ? UV_WRITABLE : 0);

    if (self->phase != AGENT_CONN_CLOSED && events != self->events) {
        self->events = events;
        (void)uv_poll_start(&self->poll, events, on_poll);
    }
}

static void on_closed(uv_handle_t *handle)
{
    struct agent_conn *self = (struct agent_conn *)handle;

    (void)close(self->fd);
    free(self->in);
    agent_reply_fini(&self->out);
    free(self);
}

void agent_conn_close(struct agent_conn *self, enum agent_end end)
{
    if (self->phase == AGENT_CONN_CLOSED) {
        return;
    }
    self->phase = AGENT_CONN_CLOSED;
    AGENT_UNLIST(self);
    self->agent->n_conns--;
    self->agent->ops->end_holds(self, end);
    if (self->caller) {
        *self->caller = NULL;
    }
    agent_process_leave(self->process);
    agent_task_leave(self->task);
    (void)uv_poll_stop(&self->poll);
    (void)shutdown(self->fd,
                   SHUT_RDWR); /* the client sees it at once, even if others have the socket */
    uv_close((uv_handle_t *)&self->poll, on_closed);
    self->agent->ops->on_released(self->agent);
}

/* Errors of the socket other than these say nothing about the client. */
static enum agent_end end_of(int error)
{
    return error == ECONNRESET || error == EPIPE ? AGENT_BY_CLIENT : AGENT_BY_AGENT;
}

void agent_conn_flush(struct agent_conn *self)
{
    while (self->phase != AGENT_CONN_CLOSED && self->out.size > 0) {
        const ssize_t sent =
            send(self->fd, self->out.data, self->out.size, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent >= 0) {
            agent_reply_sent(&self->out, (size_t)sent);
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            agent_conn_close(self, end_of(errno));
        }
    }
    if (self->out.size > UNREAD_MAX) {
        agent_conn_close(self, AGENT_BY_AGENT);
    } else if (self->out.size == 0 && self->phase == AGENT_CONN_ENDING) {
        agent_conn_close(self, AGENT_BY_CLIENT);
    }
    await(self);
}

/* Removes the bytes of requests that were handled. */
static void consume(struct agent_conn *self, size_t used)
{
    self->in_size -= used;
    if (self->in_size == 0) {
        free(self->in);
        self->in = NULL;
    } else {
        memmove(self->in, self->in + used, self->in_size);
    }
}

/* Runs requests until one is under way. After bytes that are no request nothing can be read. */
static void run_requests(struct agent_conn *self)
{
    size_t done = 0;

    while (self->phase == AGENT_CONN_OPEN) {
        struct agent_request request;
        const char *wrong = NULL;
        size_t used = 0;
        const enum agent_reading reading =
            agent_request_read(self->in + done, self->in_size - done, &request, &used, &wrong);

        if (reading == AGENT_READ_PART) {
            break;
        }
        done += used;
        if (reading == AGENT_READ_WRONG) {
            agent_reply_error(&self->out, "ERR", "%s", wrong);
            agent_conn_flush(self);
            agent_conn_close(self, AGENT_BY_AGENT);
        } else if (request.count > 0) {
            self->agent->ops->run(self, &request);
        }
    }
    if (self->phase != AGENT_CONN_CLOSED && done > 0) {
        consume(self, done);
    }
}

void agent_conn_go_on(struct agent_conn *self)
{
    self->caller = NULL;
    self->other_waits = false;
    if (self->phase == AGENT_CONN_BUSY) {
        self->phase = AGENT_CONN_OPEN;
        if (self->in_size > 0) {
            run_requests(self);
        }
    }
    agent_conn_flush(self);
}

/* Returns whether the next bytes are of another process than those that wait to be handled. */
static bool is_of_other(const struct agent_conn *self)
{
    char byte;
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    pid_t sender = self->pid;

    (void)cli_os_receive(self->fd, &part, MSG_PEEK, &sender);
    return sender != self->pid;
}

static void read_some(struct agent_conn *self)
{
    static char data[AGENT_REQUEST_MAX]; /* one for all connections */
    struct iovec part = {.iov_base = data, .iov_len = sizeof data - self->in_size};
    ssize_t length;

    if (self->phase == AGENT_CONN_BUSY && self->in_size > 0 && is_of_other(self)) {
        self->other_waits = true;
        await(self);
        return;
    }
    /* A socket that a program has passed may not have told the sender of the first bytes: they are
     * of the process that has connected. */
    length = cli_os_receive(self->fd, &part, 0, &self->pid);
    if (length > 0) {
        self->in = cli_must(realloc(self->in, self->in_size + (size_t)length));
        memcpy(self->in + self->in_size, data, (size_t)length);
        self->in_size += (size_t)length;
        run_requests(self);
        agent_conn_flush(self);
    } else if (length == 0) {
        agent_conn_close(self, AGENT_BY_CLIENT);
    } else if (errno != EAGAIN && errno != EINTR) {
        agent_conn_close(self, end_of(errno));
    }
}

/* Returns the error of the socket that the loop has noticed. */
static int error_of(const struct agent_conn *self)
{
    int error = 0;
    socklen_t size = sizeof error;

    return getsockopt(self->fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 ? error : errno;
}

/* The end of a connection is found by reading, unless there is no room: what was sent before the
 * end is done first, up to a request that is under way when the end is found. */
static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct agent_conn *self = (struct agent_conn *)poll;

    if (status < 0) { /* a client that closes with unread replies, for example */
        agent_conn_close(self, end_of(error_of(self)));
        return;
    }
    if (events & UV_WRITABLE) {
        agent_conn_flush(self);
    }
    if (self->phase == AGENT_CONN_CLOSED) {
        return;
    }
    if (may_read(self)) {
        if (events & (UV_READABLE | UV_DISCONNECT)) {
            read_some(self);
        }
    } else if (events & UV_DISCONNECT) {
        agent_conn_close(self, AGENT_BY_CLIENT);
    }
}

enum agent_watch agent_conn_watch(struct agent_conn *self, struct agent_process **out)
{
    enum agent_watch watch = AGENT_WATCHED;

    if (!agent_process_is(self->process, self->pid)) {
        agent_process_leave(self->process);
        watch = agent_process_watch(&self->agent->processes, self->pid, &self->process);
    }
    *out = agent_process_share(self->process);
    return watch;
}

/* The program is read once for each process, because a connection is made after exec. A process of
 * another namespace of pids has the number 0. */
void agent_conn_describe(struct agent_conn *self, char out[AGENT_HOLDER_SIZE])
{
    const char *space = self->label[0] != '\0' ? " " : "";

    if (self->agent->socket.kind == CLI_SOCKET_TCP) {
        (void)snprintf(out, AGENT_HOLDER_SIZE, "tcp%s%s", space, self->label);
        return;
    }
    if (self->pid == 0) {
        (void)snprintf(out, AGENT_HOLDER_SIZE, "user %u%s%s", (unsigned)self->uid, space,
                       self->label);
        return;
    }
    if (self->program_pid != self->pid) {
        self->program_pid = self->pid;
        cli_os_program_of(self->pid, self->program, sizeof self->program);
    }
    (void)snprintf(out, AGENT_HOLDER_SIZE, "%s[%d]%s%s", self->program, (int)self->pid, space,
                   self->label);
}

static size_t count_of_user(const struct agent *agent, uid_t uid)
{
    size_t count = 0;

    for (const struct agent_conn *conn = agent->conns; conn; conn = conn->next) {
        count += conn->uid == uid;
    }
    return count;
}

/* Refuses a connection with a line that clients show. */
static void refuse(int fd)
{
    static const char line[] = "-ERR max number of clients reached\r\n";

    (void)send(fd, line, sizeof line - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)close(fd);
}

/* Finds out who has connected. One user may have half of all connections; by TCP the users are not
 * known. */
static bool read_peer(const struct agent *agent, int fd, struct cli_os_peer *out)
{
    const int yes = 1;

    if (agent->socket.kind == CLI_SOCKET_TCP) {
        *out = (struct cli_os_peer){.pid = 0};
        return setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes) == 0;
    }
    return cli_os_peer(fd, out) && cli_os_pass_senders(fd) &&
           count_of_user(agent, out->uid) < agent->most_conns / 2;
}

void agent_conn_accept(struct agent *agent, int fd)
{
    struct agent_conn *self;
    struct cli_os_peer peer;

    if (agent->n_conns >= agent->most_conns || !read_peer(agent, fd, &peer)) {
        refuse(fd);
        return;
    }
    self = cli_must(calloc(1, sizeof *self));
    *self = (struct agent_conn){.agent = agent,
                                .fd = fd,
                                .uid = peer.uid,
                                .pid = peer.pid,
                                .id = ++agent->last_id,
                                .is_known = !agent->password};
    if (uv_poll_init(&agent->uv, &self->poll, fd) != 0) {
        free(self);
        refuse(fd);
        return;
    }
    self->task = agent_task_take(&agent->tasks);
    AGENT_LIST(&agent->conns, self);
    agent->n_conns++;
    await(self);
}
