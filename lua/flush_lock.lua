-- Deletes a lock whose host is dead, and gives it to the next waiter.
--
-- @keys lock queue requests live fence hosts suspects
-- @args random
-- Returns what sweep_lock returns.

local call = redis.call
local held = call("HMGET", KEYS[1], "acq_id", "hst_id", "rql_nonce", "rql_token", "ts", "reason")
-- @include is_dead_host

if not held[2] or not is_dead_host(KEYS[6], KEYS[7], held[2]) then
    return "0 0"
end
-- @include clock
-- @include waiters
-- @include serving
-- @include serve_queue
-- @include delete_lock

return delete_lock(KEYS, now_text, now_seconds, held, ARGV[1])
