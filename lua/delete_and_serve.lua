-- Ends a script that deletes a lock which a client has seen: deletes the lock and gives it to the next waiter. The
-- random number is the fifth argument.
--
-- in: call lock queue requests live fence

local is_deleted = call("DEL", lock)
if call("EXISTS", queue, requests) == 0 or type(redis.pcall("HLEN", requests)) ~= "number" then
    return is_deleted .. " 0" -- no waiter, or a foreign type in place of the requests
end

local random, me, holds, yields, turn, free_ms, passed = ARGV[5]
-- @include clock
-- @include waiters
-- @include serving
-- @include serve_queue

return is_deleted .. " " .. served
