-- Releases a grant if it is still in force, and gives the lock to the next waiter.
--
-- @keys lock queue requests live fence
-- @args nonce random
-- With the nonce "-" the script only serves the queue.
-- Returns "1 served" when released, "0 served" when the grant had ended; served: lua/README.md 9.

local call, keys = redis.call, KEYS -- a global variable costs ten times as much as a local one
local lock, queue, requests = keys[1], keys[2], keys[3]
local owned = call("HGET", lock, "rql_nonce") == ARGV[1]

if owned then
    call("DEL", lock)
end
if call("EXISTS", queue, requests) == 0 or (not owned and call("HEXISTS", lock, "acq_id") == 1) then
    return owned and "1 0" or "0 0"
end

-- @include clock
-- @include waiters
-- @include serving
-- @include serve_queue

return (owned and "1 " or "0 ") .. select(4, serve(keys, now_text, now_seconds, ARGV[2]))
