#include "check.h"

#include "base/secret.h"

#include <fcntl.h>
#include <rql/admin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WORD_BYTES = 19, CHUNK_BYTES = 65536, LARGE_BYTES = 1 << 20 };

/* Never in clear but where it is put: else the test would find itself. */
static const unsigned char hidden[WORD_BYTES] = {0x26, 0x30, 0x26, 0x34, 0x38, 0x30, 0x78,
                                                 0x6c, 0x61, 0x62, 0x64, 0x66, 0x60, 0x78,
                                                 0x3a, 0x25, 0x30, 0x3b, 0x74};

static void write_word(char *out)
{
    for (size_t i = 0; i < WORD_BYTES; i++) {
        out[i] = (char)(hidden[i] ^ 0x55);
    }
}

static bool has_word(const char *bytes, size_t length)
{
    const char *at = bytes;

    while ((at = memchr(at, hidden[0] ^ 0x55, length - (size_t)(at - bytes)))) {
        size_t left = length - (size_t)(at - bytes);
        size_t same = 0;

        while (same < WORD_BYTES && same < left &&
               (unsigned char)at[same] == (hidden[same] ^ 0x55)) {
            same++;
        }
        if (same == WORD_BYTES) {
            return true;
        }
        at++;
    }
    return false;
}

/* What cannot be read is not dumped, either. */
static bool is_in(uintptr_t from, uintptr_t to)
{
    static char chunk[CHUNK_BYTES];
    int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    bool is_found = false;
    ssize_t got;

    assert_true(memory >= 0);
    while (from < to && !is_found) {
        size_t size = to - from < CHUNK_BYTES ? to - from : CHUNK_BYTES;

        got = pread(memory, chunk, size, (off_t)from);
        is_found = got > 0 && has_word(chunk, (size_t)got);
        from += got < CHUNK_BYTES ? size : CHUNK_BYTES - WORD_BYTES;
    }
    (void)close(memory);
    explicit_bzero(chunk, sizeof chunk); /* or it would be found in here */
    return is_found;
}

/* Is the word in a part of this process that goes into a core file, or, if not, in any other? Those
 * of sanitizers are too large to be read. What a compiler leaves on the stack for a moment is not
 * kept there. */
static bool is_in_memory(bool is_dumped)
{
    FILE *maps = fopen("/proc/self/smaps", "re");
    uintptr_t from = 0;
    uintptr_t to = 0;
    bool is_readable = false;
    bool is_found = false;
    char line[512];

    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        char *rest;
        uintptr_t begin = strtoul(line, &rest, 16);

        if (*rest == '-') { /* "7f00-7f80 rw-p ...": a part begins */
            from = begin;
            to = strtoul(rest + 1, &rest, 16);
            is_readable = rest[1] == 'r' && !strstr(line, "[stack]");
        }
        if (strncmp(line, "VmFlags:", 8) == 0 && !strstr(line, " dd") == is_dumped && is_readable &&
            (is_dumped || to - from < LARGE_BYTES)) {
            is_found = is_found || is_in(from, to);
        }
    }
    (void)fclose(maps);
    return is_found;
}

/* Nor is a password where the library puts it. */
TEST(a_client_keeps_its_password_secret)
{
    static const char *const begins[] = {"unix://user:", "redis://:", "redis://user:"};
    rql_options options;

    if (is_emulated()) {
        print_message("# QEMU leaves no memory out of core files\n");
        return;
    }
    rql_options_init(&options);
    EACH (row, begins) {
        rql_client *client = NULL;
        char *url = rqli_secret_new(100);

        (void)snprintf(url, 100, "%s%*s@%s", *row, WORD_BYTES, "",
                       strchr(*row, 'x') ? "/nowhere" : "127.0.0.1:1");
        write_word(url + strlen(*row));
        options.url = url;
        CHECK_OK(rql_client_new(&options, &client, NULL));
        assert_null(rqli_secret_free(url));
        assert_true(rql_client_connect(client, NULL) < 0);
        assert_true(is_in_memory(false));
        assert_false(is_in_memory(true));
        client = rql_client_free(client);
        assert_false(is_in_memory(false) || is_in_memory(true));
    }
}
