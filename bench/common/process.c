#include "common/process.h"

#include "common/clock.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { REAP_TICK_MS = 2 };

void *shared_memory(size_t size_bytes)
{
    void *memory =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static bool timed_wait(sem_t *semaphore, const struct timespec *deadline)
{
    int failed;

    do {
        failed = sem_timedwait(semaphore, deadline);
    } while (failed && errno == EINTR);
    return !failed;
}

int await_posts(sem_t *semaphore, int n, int seconds)
{
    struct timespec deadline;
    int came = 0;

    (void)clock_gettime(CLOCK_REALTIME, &deadline); /* the clock that sem_timedwait() takes */
    deadline.tv_sec += seconds;
    while (came < n && timed_wait(semaphore, &deadline)) {
        came++;
    }
    return came;
}

pid_t fork_tied(void)
{
    pid_t parent = getpid();
    pid_t child = fork();

    if (child != 0) {
        return child;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1); /* the parent ended before the line above */
    }
    return 0;
}

bool reap(pid_t child, int64_t deadline_ns)
{
    int status = 0;
    pid_t ended;

    for (;;) {
        ended = waitpid(child, &status, WNOHANG);
        if (ended != 0) {
            return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
        }
        if (now_ns() >= deadline_ns) {
            (void)kill(child, SIGKILL);
            (void)waitpid(child, &status, 0);
            return false;
        }
        sleep_until_ns(now_ns() + REAP_TICK_MS * RQLB_MS);
    }
}
