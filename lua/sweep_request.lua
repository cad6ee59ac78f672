-- Removes the request of one acquirer from a queue; if the lock is free, serves the next waiter.
--
-- @keys lock queue requests live fence
-- @args acquirer random
-- Returns "is_removed served"; served: lua/README.md 9.

local call = redis.call
local lock, queue, requests, live, fence = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]

-- @include waiters

call("HLEN", requests) -- before any write: a foreign type is an error
local is_removed = call("ZREM", queue, ARGV[1])
local record = call("HGET", requests, ARGV[1])
forget(requests, ARGV[1], record and select(5, read_record(record)))
if is_removed == 0 or call("EXISTS", queue, requests) == 0 or redis.pcall("HEXISTS", lock, "acq_id") ~= 0 then
    return is_removed .. " 0"
end

local random, me, holds, yields, turn, free_ms, passed = ARGV[2]
-- @include clock
-- @include serving
-- @include serve_queue

return is_removed .. " " .. served
