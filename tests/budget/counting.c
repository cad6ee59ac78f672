#include "counting.h"

#include "allocator.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_bool is_counting;
static atomic_long count;
static _Thread_local bool exempt;
static const void *_Atomic watched; /* NULL: it was freed */

void counting_begin(void)
{
    atomic_store(&count, 0);
    atomic_store(&is_counting, true);
}

long counting_end(void)
{
    atomic_store(&is_counting, false);
    return atomic_load(&count);
}

void counting_watch(const void *memory)
{
    atomic_store(&watched, memory);
}

bool counting_was_freed(void)
{
    return !atomic_load(&watched);
}

void counting_exempt(bool is_exempt)
{
    exempt = is_exempt;
}

#if ALLOCATOR_IS_TAKEN

bool counting_works(void)
{
    return false;
}

#else

/* glibc's, by the names that no replacement takes. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *memory);

bool counting_works(void)
{
    return true;
}

static void note(void)
{
    if (atomic_load_explicit(&is_counting, memory_order_relaxed) && !exempt) {
        (void)atomic_fetch_add(&count, 1);
    }
}

void *malloc(size_t size)
{
    note();
    return __libc_malloc(size);
}

void *calloc(size_t nmemb, size_t size)
{
    note();
    return __libc_calloc(nmemb, size);
}

void *realloc(void *ptr, size_t size)
{
    note();
    return __libc_realloc(ptr, size);
}

void *memalign(size_t alignment, size_t size)
{
    note();
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **memptr, size_t alignment, size_t size)
{
    *memptr = memalign(alignment, size);
    return *memptr ? 0 : ENOMEM;
}

void free(void *ptr)
{
    const void *expected = ptr;

    if (ptr) {
        (void)atomic_compare_exchange_strong(&watched, &expected, NULL);
        note();
    }
    __libc_free(ptr);
}

#endif
