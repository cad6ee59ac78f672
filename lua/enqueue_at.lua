-- Included by enqueue.lua where a waiter gets another place than the one that its record says.
--
-- Uses what enqueue.lua uses and has. If the record cannot be written, the place is none to put it back to.

call("HSET", requests, acquirer, record_of(acquirer, host, ttl_ms, nonce, until_us, access, score_us))
call("ZADD", queue, seconds_of(score_us), acquirer)
