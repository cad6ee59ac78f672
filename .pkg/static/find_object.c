/* Debian's libgcc_eh.a is made for glibc and asks its _dl_find_object() where to unwind. musl has
 * no such function. Here it finds nothing: nothing is unwound, because at the end of a thread musl
 * only runs the handlers of pthread_cleanup_push(). */

int _dl_find_object(void *address, void *out);

int _dl_find_object(void *address, void *out)
{
    (void)address;
    (void)out;
    return -1;
}
