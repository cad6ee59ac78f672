-- Included by settle.lua where it is the turn of a Ruby waiter: it is left alone for a while, then it counts
-- as dead (protocol.md 6).
--
-- Uses what settle.lua uses, and acquirer and me of the including function.

local score = call("ZSCORE", queue, acquirer)
local seen = call("HGET", requests, "ruby") or ""
local since = string.match(seen, "^(%d+) ")
call("PERSIST", queue) -- the gem's queues have no ttl
if me and tonumber(score) * 1000000 < me.oldest_us then
    call("ZREM", queue, acquirer) -- a live one would have moved to the tail (F-37)
    return "gone"
end
if not since or seen ~= since .. " " .. score .. " " .. acquirer then
    call("HSET", requests, "ruby", now_text .. " " .. score .. " " .. acquirer)
    call("PEXPIRE", requests, "60000")
    return "stop"
end
if now - tonumber(since) < GRACE_US then
    return "stop"
end
call("ZREM", queue, acquirer)
call("HDEL", requests, "ruby")
return "gone"
