#include "process.h"

#include "exit.h"
#include "list.h"
#include "os.h"

#include <errno.h>
#include <unistd.h>

struct agent_process {
    uv_poll_t poll; /* of fd, which is readable when the process has ended; first */
    struct agent_processes *all;
    struct agent_process *next;
    struct agent_process **at;
    pid_t pid;
    int fd;
    bool has_ended; /* it is not listed: its pid may be that of another process by now */
    size_t references;
};

static void on_closed(uv_handle_t *handle)
{
    struct agent_process *self = (struct agent_process *)handle;

    (void)close(self->fd);
    self->all->count--;
    free(self);
}

static void unlist(struct agent_process *self)
{
    AGENT_UNLIST(self);
}

static void on_ended(uv_poll_t *poll, int status, int events)
{
    struct agent_process *self = (struct agent_process *)poll;

    (void)status;
    (void)events;
    (void)uv_poll_stop(poll);
    unlist(self);
    self->has_ended = true;
    self->references++; /* the callback may drop all others */
    self->all->ended(self, self->all->data);
    agent_process_leave(self);
}

static struct agent_process *find(const struct agent_processes *self, pid_t pid)
{
    struct agent_process *process = self->first;

    while (process && process->pid != pid) {
        process = process->next;
    }
    return process;
}

bool agent_process_is(const struct agent_process *self, pid_t pid)
{
    return self && self->pid == pid && !self->has_ended;
}

static enum agent_watch why_not(int error)
{
    return error == ESRCH                                          ? AGENT_HAS_ENDED
           : error == EMFILE || error == ENFILE || error == ENOMEM ? AGENT_TOO_MANY
                                                                   : AGENT_NOT_WATCHED;
}

/* Opens a descriptor for a process that is not watched yet. */
static enum agent_watch begin(struct agent_processes *self, pid_t pid, struct agent_process **out)
{
    struct agent_process *process;
    const int fd = self->count < self->most ? cli_os_process(pid) : -1;

    if (fd < 0) {
        return self->count < self->most ? why_not(errno) : AGENT_TOO_MANY;
    }
    process = cli_must(calloc(1, sizeof *process));
    *process = (struct agent_process){.all = self, .pid = pid, .fd = fd, .references = 1};
    if (uv_poll_init(self->uv, &process->poll, fd) != 0) {
        (void)close(fd);
        free(process);
        return AGENT_TOO_MANY;
    }
    AGENT_LIST(&self->first, process);
    self->count++;
    (void)uv_poll_start(&process->poll, UV_READABLE, on_ended);
    *out = process;
    return AGENT_WATCHED;
}

enum agent_watch agent_process_watch(struct agent_processes *self, pid_t pid,
                                     struct agent_process **out)
{
    *out = NULL;
    if (pid <= 0) {
        return AGENT_NOT_WATCHED;
    }
    *out = agent_process_share(find(self, pid));
    return *out ? AGENT_WATCHED : begin(self, pid, out);
}

struct agent_process *agent_process_share(struct agent_process *self)
{
    if (self) {
        self->references++;
    }
    return self;
}

void agent_process_leave(struct agent_process *self)
{
    if (self && --self->references == 0) {
        if (!self->has_ended) {
            unlist(self);
        }
        uv_close((uv_handle_t *)&self->poll, on_closed);
    }
}
