#ifndef RQLI_UV_START_H
#define RQLI_UV_START_H

/* What libuv cannot go on without it takes for granted: where it finds no memory for the table of
 * what a loop watches, no descriptor for what is set up with the first loop, or no thread for its
 * pool, it ends the process. Here as much is asked for before, and given back. What other threads
 * and processes take in between is not seen, but for the first 8 threads; nor a child that fork()
 * leaves without two descriptors, nor a kernel that has no memory for a descriptor of a loop. */

#include <stdbool.h>
#include <uv.h>

/* uv_loop_init(). False: no memory, or no descriptors; nothing is left behind. */
bool rqli_uv_loop_init(uv_loop_t *loop);

/* Closes all its handles, and the loop. No thread runs it. */
void rqli_uv_loop_drop(uv_loop_t *loop);

/* Before a descriptor is watched for the first time. False: no memory. */
bool rqli_uv_has_room(int fd);

/* Starts the pool that uv_queue_work() takes for granted, once in a process. False: no memory,
 * descriptors or threads. */
bool rqli_uv_pool_start(void);

#endif
