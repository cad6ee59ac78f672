-- Included at the end of every script that deletes a lock which was seen before: it goes to the next waiter.
--
-- Uses call, lock, queue and requests of the including script; the random number is the fifth argument.

local is_deleted = call("DEL", lock)
if call("EXISTS", queue, requests) == 0 or type(redis.pcall("HLEN", requests)) ~= "number" then
    return is_deleted .. " 0" -- nobody waits, or nobody knows who
end

local random, me, oldest_us, holds, yields, turn, free_ms, passed = ARGV[5]
-- @include clock
-- @include waiters
-- @include is_alive
-- @include serve_queue

return is_deleted .. " " .. served
