-- Removes the request of one acquirer from a queue; if the lock is free, serves the next waiter.
--
-- @keys lock queue requests live fence
-- @args acquirer is_dry random
-- Returns "is_removed served"; served: lua/README.md 9.

local call = redis.call
local lock, queue, requests = KEYS[1], KEYS[2], KEYS[3]

-- @include waiters

call("HLEN", requests) -- before any write: a foreign type is an error
if ARGV[2] == "1" then
    return call("ZSCORE", queue, ARGV[1]) and "1 0" or "0 0"
end
local is_removed = call("ZREM", queue, ARGV[1])
forget(requests, ARGV[1], access_of(call("HGET", requests, ARGV[1])))
if is_removed == 0 or call("EXISTS", queue, requests) == 0 or redis.pcall("HEXISTS", lock, "acq_id") ~= 0 then
    return is_removed .. " 0"
end

-- @include clock
-- @include serving
-- @include serve_queue

return is_removed .. " " .. select(4, serve(KEYS, now_text, now_seconds, ARGV[3]))
