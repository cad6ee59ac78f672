/* What Debian's libgcc, which is made for glibc, asks its C library for, and musl does not have. */

#include <sys/auxv.h>

int _dl_find_object(void *address, void *out);
unsigned long __getauxval(unsigned long type);

/* libgcc_eh asks where to unwind. Here it finds nothing: nothing is unwound, because at the end of
 * a thread musl only runs the handlers of pthread_cleanup_push(). */
int _dl_find_object(void *address, void *out)
{
    (void)address;
    (void)out;
    return -1;
}

/* Atomic operations on arm64 ask for the processor's features. In a static program it is musl's
 * own, which musl's shared object hides. */
__attribute__((weak)) unsigned long __getauxval(unsigned long type)
{
    return getauxval(type);
}
