-- Deletes a lock if it is still the grant that was seen and its host is dead, and gives it to the next waiter.
--
-- @keys lock queue requests live fence hosts suspects
-- @args acq_id hst_id ts nonce random
-- A field that was not there is "". Returns "is_deleted served"; served: lua/README.md 9.

local call = redis.call
-- @include is_dead_host

if not is_dead_host(KEYS[6], KEYS[7], ARGV[2]) then
    return "0 0"
end
-- @include clock
-- @include waiters
-- @include serving
-- @include serve_queue
-- @include delete_seen

return delete_seen(KEYS, now_text, now_seconds, ARGV)
