#ifndef RQLI_INFO_H
#define RQLI_INFO_H

/* Reads the contents of lock and queue keys into the structs of inspect.h. Any contents of a key
 * become a status, never a fault of the library. */

#include "admin/pages.h"

#include <rql/inspect.h>

/*
 * ---- locks (lock_info.c) ----
 *
 * Reads a hash as rql_lock_info in one allocation. Texts with a NUL end there.
 */

/* Number of replies to the commands of rqli_lock_info_ask(). */
enum { RQLI_LOCK_INFO_REPLIES = 2 };

void rqli_lock_info_ask(struct rqli_command *command, struct rqli_slice key);

/* Reads RQLI_LOCK_INFO_REPLIES replies. Only a reply that says nothing about the key (no rights,
 * no memory, another shape) is a fault; `where` is for its message. No I/O. */
rql_status rqli_lock_info_read(const struct rqli_reply *replies, struct rqli_slice key,
                               const char *where, rql_lock_info **out, rql_error *error);

/* Returns whether a field or pair of this name is metadata of the holder. */
bool rqli_is_meta(struct rqli_slice name);

/* Returns whether it is a lock of several, which it stays until its last share ends. */
bool rqli_lock_info_is_of_several(const rql_lock_info *info);

/* Reads n locks. `out` has room for n, all NULL before the call; after a fault it may be filled
 * in part. A key that is gone has a status that says so. A key that holds more than a batch can
 * carry is RQL_KEY_MALFORMED, and not read. */
rql_status rqli_read_locks(const struct rqli_reader *reader, const struct rqli_item *keys, size_t n,
                           rql_lock_info **out);

/*
 * ---- sharers (share_info.c) ----
 *
 * Reads what the server stores of shares (lua/optional.md 57, 58). Pure.
 */

#define RQLI_SHARER_PREFIX "rql_h:" /* followed by the acquirer: the field of a sharer */
#define RQLI_SHARE_FIELD "rql_share"

/* A sharer of a lock of several; borrows the texts of its field. */
struct rqli_sharer {
    struct rqli_slice acquirer;
    struct rqli_slice nonce;
    struct rqli_share share;
    struct rqli_slice slots; /* as in "0,3" */
    int64_t token;
    int64_t ttl_ms;
    struct rqli_slice host;
    struct rqli_slice metadata; /* packed */
};

/* Reads a field of a lock of several. Returns false if it is not that of a sharer, or cannot be
 * read. */
bool rqli_sharer_read(struct rqli_slice name, struct rqli_slice value, struct rqli_sharer *out);

/* Reads the value of RQLI_SHARE_FIELD, such as "1 8s". */
bool rqli_share_read(struct rqli_slice value, struct rqli_share *out);

/* The texts that a script has packed: cmsgpack.pack() of a list, which is MessagePack. */
struct rqli_packed {
    struct rqli_slice rest;
    size_t left;
};

/* Begins at the first text. Bytes that are no list of texts, or are cut, end sooner. */
struct rqli_packed rqli_packed_begin(struct rqli_slice packed);
bool rqli_packed_next(struct rqli_packed *self, struct rqli_slice *out);

/* The most pairs that there may be. */
size_t rqli_packed_count_pairs(struct rqli_slice packed);

/* Copies the pairs that are metadata to *cursor, where they take no more than packed.length bytes.
 * Returns how many there are. */
size_t rqli_packed_read_meta(struct rqli_slice packed, rql_meta *out, char **cursor);

/*
 * ---- holders (holder_info.c) ----
 *
 * Reads a lock as rql_holder_list. Any contents of the key become a status.
 */

/* Asks about the lock with this key, and reads the replies: two about the lock, the ends of shares,
 * the time. No I/O. */
void rqli_holders_ask(struct rqli_command *command, struct rqli_slice key);
rql_status rqli_holders_read(const struct rqli_reply *replies, struct rqli_slice key,
                             const char *where, rql_holder_list **out, rql_error *error);

/* `key` is that of the lock. *out is set after RQL_OK. */
rql_status rqli_read_holders(const struct rqli_reader *reader, struct rqli_slice key,
                             rql_holder_list **out);

/*
 * ---- queues (queue_info.c) ----
 *
 * Reads a sorted set as rql_queue_info in one allocation, from its pages and from the records of
 * its requests, which name the hosts. A page begins at the score where the last one ended, not at a
 * rank: requests that leave meanwhile do not hide other requests.
 */

enum {
    RQLI_QUEUE_PAGE = 1000, /* requests of one command */
    RQLI_QUEUE_HOSTS = 200, /* records of one batch; each carries metadata */
    RQLI_QUEUE_SCORE_SIZE = 40,
};

struct rqli_queue_reading {
    struct rqli_slice key; /* borrowed */
    rql_key_status status;
    int64_t limit;             /* of a page */
    bool has_more;             /* the last page was full */
    size_t n_asked;            /* records that the current command asks for */
    struct rqli_list requests; /* acquirers in their order, with their scores; -1: unreadable */
    struct rqli_list hosts;    /* of the first requests, as many as were read; "": unknown. The
                                * number is that of share_number() */
    struct rqli_list metadata; /* of the same requests, packed */
    int64_t n_ties;            /* requests that have the last score */
    char last_score[RQLI_QUEUE_SCORE_SIZE];
    int64_t server_us; /* the server's time when the last page was read; -1: not known */
};

/* Begins a reading; limit is 1 to RQLI_QUEUE_PAGE. No function of a reading does I/O. */
void rqli_queue_reading_init(struct rqli_queue_reading *self, struct rqli_slice key, int64_t limit);
void rqli_queue_reading_fini(struct rqli_queue_reading *self);

/* While has_more is true, the caller asks for a page and takes it. `where` is for messages. */
void rqli_queue_reading_ask(const struct rqli_queue_reading *self, struct rqli_command *command);
rql_status rqli_queue_reading_take(struct rqli_queue_reading *self, const struct rqli_reply *reply,
                                   const char *where, rql_error *error);

/* Asks for at most `limit` records that are still unknown; returns how many. 0: no record was
 * asked for, and there is no reply to take. */
size_t rqli_queue_reading_ask_hosts(struct rqli_queue_reading *self, struct rqli_command *command,
                                    size_t limit);
rql_status rqli_queue_reading_take_hosts(struct rqli_queue_reading *self,
                                         const struct rqli_reply *reply, const char *where,
                                         rql_error *error);

/* An empty queue is RQL_KEY_RELEASED: the server keeps no empty sets. */
rql_status rqli_queue_reading_finish(const struct rqli_queue_reading *self, rql_queue_info **out,
                                     rql_error *error);

/* Reads n queues, in the same way as rqli_read_locks(). */
rql_status rqli_read_queues(const struct rqli_reader *reader, const struct rqli_item *keys,
                            size_t n, rql_queue_info **out);

#endif
