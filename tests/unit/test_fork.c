#include "check.h"

#include "base/fork.h"
#include "base/random.h"
#include "base/threads.h"

#include <inttypes.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N_MEMBERS = 3, ALL = (1 << N_MEMBERS) - 1, FAILED = 100, UNASKED = 101 };

/* A member sets its bit when it is told that it is in a child. */
struct bit {
    struct rqli_fork_member member;
    unsigned *told;
    unsigned mask;
};

struct group {
    struct bit bits[N_MEMBERS];
    unsigned told;
};

static void tell(void *self)
{
    struct bit *bit = self;

    *bit->told |= bit->mask;
}

static bool try_join_all(struct group *group)
{
    bool joined = true;

    *group = (struct group){0};
    for (unsigned i = 0; i < N_MEMBERS; i++) {
        group->bits[i].told = &group->told;
        group->bits[i].mask = 1U << i;
        joined = rqli_fork_join(&group->bits[i].member, tell, &group->bits[i]) && joined;
    }
    return joined;
}

static void join_all(struct group *group)
{
    assert_true(try_join_all(group));
}

static void leave_but(struct group *group, unsigned left)
{
    for (unsigned i = 0; i < N_MEMBERS; i++) {
        if ((left & group->bits[i].mask) == 0) {
            rqli_fork_leave(&group->bits[i].member);
        }
    }
}

/* As fork(), but runs no handler. */
static pid_t clone_self(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

/* What `body`, which must not use cmocka's asserts, returns in a child of this process. */
static unsigned in_child_by(pid_t (*make)(void), unsigned (*body)(void *data), void *data)
{
    pid_t child = make();
    int how = 0;

    if (child == 0) {
        _exit((int)body(data));
    }
    if (child < 0 || waitpid(child, &how, 0) != child || !WIFEXITED(how)) {
        return FAILED;
    }
    return (unsigned)WEXITSTATUS(how);
}

static unsigned in_child(unsigned (*body)(void *data), void *data)
{
    return in_child_by(fork, body, data);
}

static unsigned who_was_told(void *data)
{
    const struct group *group = data;

    return group->told;
}

/* First, middle, last, and all of them: the list stays whole. */
TEST(who_has_left_is_not_told)
{
    for (unsigned left = 0; left <= ALL; left++) {
        struct group group;

        print_message("# left %u\n", left);
        join_all(&group);
        leave_but(&group, left);
        assert_int_equal(in_child(who_was_told, &group), left);
        leave_but(&group, ALL & ~left);
    }
}

static unsigned who_is_foreign(void *data)
{
    const struct group *group = data;
    unsigned foreign = 0;

    for (unsigned i = 0; i < N_MEMBERS; i++) {
        foreign |= rqli_fork_is_foreign(&group->bits[i].member) ? group->bits[i].mask : 0;
    }
    return foreign;
}

static unsigned join_and_count(void *data)
{
    struct group *group = data;
    struct group own;
    unsigned told;

    if (!try_join_all(&own) || who_is_foreign(&own) != 0 || who_is_foreign(group) != ALL ||
        own.told != 0) {
        return FAILED;
    }
    told = in_child(who_was_told, &own);
    leave_but(&own, 0);
    return told == ALL && in_child(who_was_told, &own) == 0 ? told : FAILED;
}

static uint64_t parents_thread; /* which forks, and is the child's */

static unsigned says_who_it_is(void *data)
{
    char expected[RQL_ID_SIZE];
    char id[RQL_ID_SIZE];

    (void)data;
    (void)snprintf(expected, sizeof expected, "rql:acq:%d/%" PRIu64 "/0/0/me", (int)getpid(),
                   parents_thread);
    rqli_acquirer_id(id, 0, "me");
    return strcmp(id, expected) == 0;
}

/* What a body finds in a child of a process whose group has joined, and there. */
static const struct found {
    const char *name;
    unsigned (*body)(void *data);
    unsigned in_child;
    unsigned here;
} founds[] = {
    {"every member is told in the child only", who_was_told, ALL, 0},
    {"members are foreign in the child only", who_is_foreign, ALL, 0},
    {"ids name the child and the thread that forked", says_who_it_is, 1, 1},
    {"a child has members of its own", join_and_count, ALL, UNASKED},
};

TEST(a_child_is_told_apart_from_its_parent)
{
    parents_thread = rqli_thread_number();
    EACH_ROW (row, founds) {
        struct group group;

        join_all(&group);
        assert_int_equal(in_child(row->body, &group), row->in_child);
        assert_true(row->here == UNASKED || row->body(&group) == row->here);
        leave_but(&group, 0);
    }
}

static unsigned forget_and_ask_a_grandchild(void *data)
{
    struct group *group = data;

    group->told = 0;
    return in_child(who_was_told, group);
}

TEST(a_member_is_told_in_the_first_child_only)
{
    struct group group;

    join_all(&group);
    assert_int_equal(in_child(forget_and_ask_a_grandchild, &group), 0);
    leave_but(&group, 0);
}

static unsigned forks_so_far(void *data)
{
    unsigned levels = *(unsigned *)data;

    if (levels == 0) {
        return rqli_fork_generation();
    }
    levels--;
    return in_child(forks_so_far, &levels);
}

TEST(generations_are_counted)
{
    struct group group;
    unsigned levels = 3;
    unsigned before = rqli_fork_generation();

    join_all(&group);
    assert_int_equal(forks_so_far(&levels), before + 3);
    if (!is_emulated()) { /* QEMU does not clear the page that tells such a child */
        assert_int_equal(in_child_by(clone_self, forks_so_far, &levels), before + 4);
    }
    assert_int_equal(rqli_fork_generation(), before);
    leave_but(&group, 0);
}

TEST(ids_name_process_thread_and_task)
{
    static const struct {
        uint64_t task;
        const char *rest;
        bool is_own; /* of the library, which has no task of the caller's */
    } rows[] = {
        {UINT64_MAX, "18446744073709551615/0/me", false},
        {99999, "99999/1/me", true},
        {1200007, "7/13/me", true},
    };

    char expected[RQL_ID_SIZE];
    char id[RQL_ID_SIZE];

    EACH_BY (row, rows, row->rest) {
        (void)snprintf(expected, sizeof expected, "rql:acq:%d/%" PRIu64 "/%s", (int)getpid(),
                       rqli_thread_number(), row->rest);
        (row->is_own ? rqli_own_acquirer_id : rqli_acquirer_id)(id, row->task, "me");
        assert_string_equal(id, expected);
    }
    (void)snprintf(expected, sizeof expected, "rql:hst:%d/77/0/me", (int)getpid());
    rqli_host_id(id, 77, "me");
    assert_string_equal(id, expected);
}

/* The server stores an id of up to 64 bytes in half the memory of a longer one. With the longest
 * number of a process, a thread of seven digits, and a task or a request of five. */
TEST(an_id_has_64_bytes_at_most)
{
    const size_t longest = strlen("4194304") + strlen("9999999");
    char id[RQL_ID_SIZE];
    char numbers[64];
    size_t here;

    here = (size_t)snprintf(numbers, sizeof numbers, "%d%" PRIu64, (int)getpid(),
                            rqli_thread_number());
    rqli_acquirer_id(id, 99999, "0123456789abcdef0123456789abcdef");
    assert_true(strlen(id) - here + longest <= 64);
    rqli_own_acquirer_id(id, 799999, "0123456789abcdef0123456789abcdef");
    assert_true(strlen(id) - here + longest <= 64);
    rqli_host_id(id, 9999999, "0123456789abcdef0123456789abcdef");
    assert_true(strlen(id) <= 64);
}
