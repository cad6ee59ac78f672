#ifndef AGENT_REQUEST_H
#define AGENT_REQUEST_H

/* Reads requests of the Redis protocol: an array of bulk strings, or an inline line. Lengths and
 * counts are checked when they are read, so that no announced number costs anything. Pure. */

#include <stddef.h>

enum {
    AGENT_WORDS_MAX = 256,
    AGENT_REQUEST_MAX = 65536, /* bytes of a request with its lengths */
};

/* A word in the buffer that was read; terminated in place. */
struct agent_word {
    char *data;
    size_t length;
};

struct agent_request {
    size_t count; /* 0: an empty line or array, to be ignored */
    struct agent_word words[AGENT_WORDS_MAX];
};

enum agent_reading {
    AGENT_READ_ALL,  /* *out is a request */
    AGENT_READ_PART, /* more bytes are needed */
    AGENT_READ_WRONG /* *wrong says why; nothing behind it can be read */
};

/* Reads the first request in the buffer; *used is the number of its bytes. A word is terminated by
 * a NUL in place of the byte behind it, which belongs to the same request. */
enum agent_reading agent_request_read(char *data, size_t size, struct agent_request *out,
                                      size_t *used, const char **wrong);

#endif
