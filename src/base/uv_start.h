#ifndef RQLI_UV_START_H
#define RQLI_UV_START_H

/* libuv ends the process if it finds no memory for the table of descriptors that a loop watches, no
 * descriptor for its first loop, or no thread for its pool. The functions here first acquire as
 * much of each, and give it back. They cannot see what other threads and processes take in between,
 * except for the first 8 threads. Nor do they notice a child that fork() leaves without two
 * descriptors, or a kernel that has no memory for a descriptor of a loop. */

#include <stdbool.h>
#include <uv.h>

/* Calls uv_loop_init(). False: no memory, or no descriptors; nothing is left behind. */
bool rqli_uv_loop_init(uv_loop_t *loop);

/* Closes all handles of the loop, and the loop. No thread may be running it. */
void rqli_uv_loop_drop(uv_loop_t *loop);

/* Called before a descriptor is watched for the first time. False: no memory. */
bool rqli_uv_has_room(int fd);

/* Starts the pool that uv_queue_work() relies on, once in a process. False: no memory, descriptors
 * or threads. */
bool rqli_uv_pool_start(void);

#endif
