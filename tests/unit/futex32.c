/* Waits on a futex in a 32-bit program whose time_t has 64 bits. This needs a system call of its
 * own, which kernels before 5.1 lack. Built without cmocka, which a 64-bit system has for 64 bits
 * only. */

#include "base/clock.h"
#include "base/futex.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

enum { PAUSE_US = 20000, MOST_WAITS = 100 };

_Static_assert(sizeof(time_t) > sizeof(long), "this program is about a 64-bit time_t");

/* Returns how often a signal was waited for until a time had come. */
static int waits(void)
{
    const int64_t until_us = rqli_now_us() + PAUSE_US;
    rqli_signal signal = 0;
    int n_waits = 0;

    while (rqli_now_us() < until_us && n_waits < MOST_WAITS) {
        rqli_signal_wait(&signal, 0, until_us);
        n_waits++;
    }
    return n_waits;
}

#if defined(SYS_futex) && defined(SYS_futex_time64)

/* From now on the kernel refuses futex_time64, as kernels before 5.1 do. Returns false if it takes
 * no filter, as QEMU. */
static bool refuse_time64(void)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex_time64, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {.len = sizeof(steps) / sizeof(*steps), .filter = steps};

    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

#else

/* The system has one of the calls only. */
static bool refuse_time64(void)
{
    return false;
}

#endif

static bool report(int number, const char *title, int n_waits)
{
    (void)printf("%s %d - %s # %d waits\n", n_waits < MOST_WAITS ? "ok" : "not ok", number, title,
                 n_waits);
    return n_waits < MOST_WAITS;
}

int main(void)
{
    bool is_good;

    (void)puts("1..2");
    is_good = report(1, "a 32-bit program sleeps until its time", waits());
    if (!refuse_time64()) {
        (void)puts("ok 2 # SKIP futex_time64 cannot be refused here");
        return is_good ? 0 : 1;
    }
    return report(2, "it does so if the kernel lacks futex_time64", waits()) && is_good ? 0 : 1;
}
