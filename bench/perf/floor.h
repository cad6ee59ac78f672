#ifndef RQLB_FLOOR_H
#define RQLB_FLOOR_H

/* What the library is compared with: blocking hiredis, one connection for each thread. The floor is
 * the plain lock that everybody writes: SET NX PX, and a script that deletes what is one's own. */

#include <hiredis.h>
#include <stdbool.h>

struct floor {
    redisContext *context;
    char key[32];
    char owner[32];
    char digest[48]; /* of the script */
};

/* False: errno or the server's word is in reason (FLOOR_REASON_SIZE bytes). */
enum { FLOOR_REASON_SIZE = 160 };

bool floor_open(struct floor *self, const char *socket_path, int number, char *reason);
void floor_close(struct floor *self); /* zero is fine */

bool floor_ping(struct floor *self);

/* Lock and unlock, uncontended. */
bool floor_pair(struct floor *self);

#endif
