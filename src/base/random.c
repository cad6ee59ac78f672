#include "base/random.h"

#include "base/fork.h"
#include "base/os.h"
#include "base/text.h"
#include "base/threads.h"

#include <string.h>
#include <unistd.h>

enum { STOCK_BYTES = 1024, RUBY_DIGITS = 16 };

/* Kept for each thread: the process id, because getpid() is a system call and every acquisition
 * needs the number; and random bytes, because one system call serves many draws. */
struct kept {
    unsigned generation; /* 0: nothing is kept yet */
    pid_t process;
    size_t left; /* number of `bytes` that were not used */
    unsigned char bytes[STOCK_BYTES];
};

/* Returns what this thread keeps. A fork child takes nothing over from its parent. */
static struct kept *kept_here(void)
{
    static _Thread_local struct kept kept;

    if (kept.generation != rqli_fork_generation()) {
        kept.generation = rqli_fork_generation();
        kept.process = getpid();
        kept.left = 0;
    }
    return &kept;
}

/* Takes bytes from the stock. Each byte is used once: the bytes taken are wiped. */
static bool draw_bytes(unsigned char *out, size_t size)
{
    struct kept *kept = kept_here();

    if (kept->left < size) {
        /* A signal may cut short a request for more than 256 bytes. That counts as a failure, and
         * the next draw asks again. */
        if (!rqli_os_random(kept->bytes, sizeof kept->bytes)) {
            return false;
        }
        kept->left = sizeof kept->bytes;
    }
    kept->left -= size;
    memcpy(out, kept->bytes + kept->left, size);
    explicit_bzero(kept->bytes + kept->left, size);
    return true;
}

/* Does not use the stock, because a machine that is copied while it runs has the same stock twice.
 * If two clients drew the same nonce, one would be answered with the other's grant. */
bool rqli_random_hex(char out[RQLI_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[16];
    size_t i;

    if (!rqli_os_random(bytes, sizeof bytes)) {
        return false;
    }
    for (i = 0; i < sizeof bytes; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[32] = '\0';
    return true;
}

/* For jitter and random choices. The remainder favours small numbers by less than one in 65,000 for
 * the bounds in use. Without random numbers: 0, which is in range. */
uint32_t rqli_random_below(uint32_t bound)
{
    unsigned char bytes[4] = {0};
    uint32_t value;

    if (bound < 2 || !draw_bytes(bytes, sizeof bytes)) {
        return 0;
    }
    memcpy(&value, bytes, sizeof value);
    return value % bound;
}

/* An acquirer of its own has its number in two slots: up to this value in the slot of the fiber, of
 * five digits, and the rest in the slot of the ractor, from 1 on. A task has ractor 0, so two ids
 * are never equal. */
enum { FIBERS = 100000 };

/* Uses the writer because every acquisition calls this twice, and snprintf() takes three times as
 * long. */
static void begin_id(struct rqli_writer *out, char id[RQL_ID_SIZE], const char *kind)
{
    rqli_writer_init(out, id, RQL_ID_SIZE);
    rqli_write_text(out, kind);
    rqli_write_int(out, kept_here()->process);
    rqli_write_text(out, "/");
}

static void end_id(struct rqli_writer *out, uint64_t ractor, const char *identity)
{
    rqli_write_text(out, "/");
    rqli_write_uint(out, ractor);
    rqli_write_text(out, "/");
    rqli_write_text(out, identity);
    (void)rqli_writer_end(out);
}

static void write_acquirer(char out[RQL_ID_SIZE], uint64_t fiber, uint64_t ractor,
                           const char *identity)
{
    struct rqli_writer id;

    begin_id(&id, out, "rql:acq:");
    rqli_write_uint(&id, rqli_thread_number());
    rqli_write_text(&id, "/");
    rqli_write_uint(&id, fiber);
    end_id(&id, ractor, identity);
}

/* Writes the id as the gem does: process, thread, fiber, ractor, identity. A task takes the place
 * of a fiber. */
void rqli_acquirer_id(char out[RQL_ID_SIZE], uint64_t task, const char *identity)
{
    write_acquirer(out, task, 0, identity);
}

/* Spreads the number over both slots, because an id of up to 64 bytes takes the server half the
 * memory of a longer one. With seven digits for the process and seven for the thread, six are left
 * for both. */
void rqli_own_acquirer_id(char out[RQL_ID_SIZE], uint64_t number, const char *identity)
{
    write_acquirer(out, number % FIBERS, 1 + number / FIBERS, identity);
}

/* The thread is a parameter because one thread sends the heartbeats of all hosts of its process. */
void rqli_host_id(char out[RQL_ID_SIZE], uint64_t thread, const char *identity)
{
    struct rqli_writer id;

    begin_id(&id, out, "rql:hst:");
    rqli_write_uint(&id, thread);
    end_id(&id, 0, identity);
}

bool rqli_is_of_ruby(struct rqli_slice id)
{
    const char *slash = id.length > 0 ? memrchr(id.data, '/', id.length) : NULL;

    return slash && (size_t)(id.data + id.length - slash) == RUBY_DIGITS + 1;
}
