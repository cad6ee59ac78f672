#include "base/random.h"

#include "base/fork.h"

#include <string.h>
#include <sys/random.h>

/* One system call serves many draws of a thread; a fork child starts with an empty stock. */
enum { STOCK_BYTES = 1024 };

struct stock {
    unsigned char bytes[STOCK_BYTES];
    size_t left;
    unsigned generation;
};

static _Thread_local struct stock stock;

static bool draw(unsigned char *out, size_t size)
{
    if (stock.left < size || stock.generation != rqli_fork_generation()) {
        if (getrandom(stock.bytes, sizeof stock.bytes, 0) != (ssize_t)sizeof stock.bytes) {
            return false;
        }
        stock.left = sizeof stock.bytes;
        stock.generation = rqli_fork_generation();
    }
    stock.left -= size;
    memcpy(out, stock.bytes + stock.left, size);
    explicit_bzero(stock.bytes + stock.left, size);
    return true;
}

/* Not from the stock: a machine that is copied while it runs has that twice, and who draws the same
 * nonce is answered with the other's grant (F-59). */
bool rqli_random_hex(char out[RQLI_HEX_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[16];
    size_t i;

    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        return false;
    }
    for (i = 0; i < sizeof bytes; i++) {
        out[2 * i] = digits[bytes[i] >> 4];
        out[2 * i + 1] = digits[bytes[i] & 15];
    }
    out[32] = '\0';
    return true;
}

uint32_t rqli_random_below(uint32_t bound)
{
    unsigned char bytes[4] = {0};
    uint32_t value;

    if (bound < 2 || !draw(bytes, sizeof bytes)) {
        return 0;
    }
    memcpy(&value, bytes, sizeof value);
    return value % bound;
}
