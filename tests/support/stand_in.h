#ifndef STAND_IN_H
#define STAND_IN_H

/* What listens where a server should be: answers every connection by a script, whatever it says.
 *
 * Line 0 goes out when the first bytes arrive, line 1 at the next ones, and so on; behind the last
 * line nothing is answered. When the test cannot get a thread or a socket, it is aborted. */

#include <stdbool.h>

/* The replies to a login without user and database: TIME, CLIENT ID, PUBLISH, CLIENT SETNAME; and a
 * write, CLIENT INFO and INFO, which may be refused. */
#define STAND_IN_LOGIN                                                                             \
    "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n:7\r\n:0\r\n+OK\r\n"                                    \
    ":0\r\n-NOPERM no\r\n-NOPERM no\r\n"

struct stand_in;

/* lines: ended by NULL, live until stand_in_stop(). resets: RST in place of silence at the end. */
struct stand_in *stand_in_start(const char *const *lines, bool resets);
void stand_in_stop(struct stand_in *self);

const char *stand_in_url(const struct stand_in *self); /* redis://127.0.0.1:... */
int stand_in_connections(struct stand_in *self);       /* accepted so far */

#endif
