#include "remote.h"

#include "allocator.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Memory and threads that cannot be had: {"do": "scarce", "what": "memory", "nth": 3} has the third
 * allocation from now on fail, whichever thread asks, and with "times": 2 the one behind it too;
 * "enough" ends that and says whether it struck. What the program asks for itself never fails.
 *
 * libuv ends the process where it cannot enlarge what it watches (uv_loop_init(), uv_poll_start()):
 * what it reallocates does not fail either. */

enum { FRAMES = 8 };

enum what { NOTHING, MEMORY, THREADS };

static _Atomic enum what scarce;
static atomic_long left; /* until one fails */
static atomic_long times;
static atomic_bool has_struck;
static _Thread_local bool is_exempt;

void exempt_thread(bool exempts)
{
    is_exempt = exempts;
}

#if !ALLOCATOR_HAS_NAMES

static const bool works = false;

static void *own_malloc(size_t size)
{
    return malloc(size);
}

static void load_backtrace(void)
{
}

#else

#include <execinfo.h>

static const bool works = true;

/* glibc's, by the names that no replacement takes. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);

static void *own_malloc(size_t size)
{
    return __libc_malloc(size);
}

/* False: there is no more of it. */
static bool may_have(enum what what)
{
    long before;

    if (atomic_load_explicit(&scarce, memory_order_relaxed) != what || is_exempt) {
        return true;
    }
    before = atomic_fetch_sub(&left, 1);
    if (before > 1 || before <= 1 - times) {
        return true;
    }
    has_struck = true;
    return false;
}

/* It loads what it needs when it is first called. */
static void load_backtrace(void)
{
    void *frame;

    (void)backtrace(&frame, 1);
}

static bool is_asked_by_uv(void)
{
    void *frames[FRAMES];
    int count = backtrace(frames, FRAMES);
    Dl_info info;

    /* This function's own frame, and that of realloc(). */
    return count > 2 && dladdr(frames[2], &info) && strstr(info.dli_fname, "libuv");
}

static void *lack_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t size)
{
    return may_have(MEMORY) ? __libc_malloc(size) : lack_memory();
}

void *calloc(size_t nmemb, size_t size)
{
    return may_have(MEMORY) ? __libc_calloc(nmemb, size) : lack_memory();
}

void *realloc(void *ptr, size_t size)
{
    if (scarce == MEMORY && is_asked_by_uv()) {
        return __libc_realloc(ptr, size);
    }
    return may_have(MEMORY) ? __libc_realloc(ptr, size) : lack_memory();
}

int pthread_create(pthread_t *newthread, const pthread_attr_t *attr, void *(*start_routine)(void *),
                   void *arg)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *symbol = dlsym(RTLD_NEXT, "pthread_create");

    memcpy(&real, &symbol, sizeof real);
    return may_have(THREADS) ? real(newthread, attr, start_routine, arg) : EAGAIN;
}

#endif

void *own_memory(size_t size)
{
    void *memory = own_malloc(size);

    if (!memory) {
        wrong(NULL, "no memory");
    }
    return memset(memory, 0, size);
}

void prepare_scarcity(void)
{
    cJSON_Hooks hooks = {own_malloc, free};

    cJSON_InitHooks(&hooks);
    load_backtrace();
}

rql_status begin_scarcity(struct call *call)
{
    has_struck = false;
    left = (long)number_or(call->words, "nth", 1);
    times = (long)number_or(call->words, "times", 1);
    scarce = strcmp(text_in(call->words, "what"), "threads") == 0 ? THREADS : MEMORY;
    (void)cJSON_AddBoolToObject(call->reply, "works", works);
    return RQL_OK;
}

rql_status end_scarcity(struct call *call)
{
    scarce = NOTHING;
    (void)cJSON_AddBoolToObject(call->reply, "has_struck", has_struck);
    return RQL_OK;
}
