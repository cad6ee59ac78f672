-- Included by settle.lua where it is the turn of a Ruby waiter: it is left alone for a while, then it counts
-- as dead (protocol.md 6).
--
-- Uses what settle.lua uses, and waiter. Leaves turn, or a waiter that is gone.

local score = call("ZSCORE", queue, waiter)
local seen = call("HGET", requests, "ruby") or ""
local since = string.match(seen, "^(%d+) ")
call("PERSIST", queue) -- the gem's queues have no ttl
if not me or score * 1000000 >= oldest_us then -- else a live one would have moved to the tail (F-37)
    if not since or seen ~= since .. " " .. score .. " " .. waiter then
        call("HSET", requests, "ruby", now_text .. " " .. score .. " " .. waiter)
        call("PEXPIRE", requests, "60000")
        turn = "free"
    elseif now_text - since < GRACE_US then
        turn = "free"
    else
        call("HDEL", requests, "ruby")
    end
end
