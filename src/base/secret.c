#include "base/secret.h"

#include "base/os.h"

#include <stdalign.h>
#include <string.h>
#include <sys/mman.h>

/* Stands in front of the memory that the caller gets. */
struct head {
    alignas(max_align_t) size_t size; /* including this head */
};

/* A kernel that cannot keep the memory out of a core file is no reason to fail. */
void *rqli_secret_new(size_t size)
{
    struct head *head;

    if (size > (size_t)-1 - sizeof *head) {
        return NULL;
    }
    head =
        mmap(NULL, sizeof *head + size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (head == MAP_FAILED) {
        return NULL;
    }
    rqli_os_leave_out_of_dumps(head, sizeof *head + size);
    head->size = sizeof *head + size;
    return head + 1;
}

void *rqli_secret_free(void *self)
{
    struct head *head = self ? (struct head *)self - 1 : NULL;

    if (head) {
        size_t size = head->size;

        explicit_bzero(head, size);
        (void)munmap(head, size);
    }
    return NULL;
}
