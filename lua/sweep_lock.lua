-- Deletes a lock if it is still the grant that was seen, and gives it to the next waiter.
--
-- @keys lock queue requests live fence
-- @args acq_id hst_id ts nonce random
-- A field that was not there is "". Returns "is_deleted served"; served: lua/README.md 9.

local call = redis.call
-- @include clock
-- @include waiters
-- @include serving
-- @include serve_queue
-- @include delete_seen

return delete_seen(KEYS, now_text, now_seconds, ARGV)
