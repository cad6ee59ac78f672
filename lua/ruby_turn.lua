-- Included by settle.lua where it is the turn of a Ruby waiter: it is left alone for a while, then it counts
-- as dead (protocol.md 6). If it was seen in the future the clock was set back, and that begins anew.
--
-- Uses what settle.lua uses, and waiter. Leaves turn, or a waiter that is gone.

local score = call("ZSCORE", queue, waiter)
local seen = call("HGET", requests, "ruby") or ""
local since = string.match(seen, "^(%d+) ")
call("PERSIST", queue) -- the gem's queues have no ttl
if not me or score * 1000000 >= oldest_us then -- else a live one would have moved to the tail (F-37)
    local ago_us = now_text - (since or now_text)
    if not since or ago_us < 0 or seen ~= since .. " " .. score .. " " .. waiter then
        call("HSET", requests, "ruby", now_text .. " " .. score .. " " .. waiter)
        call("PEXPIRE", requests, "60000")
        turn = "free"
    elseif ago_us < GRACE_US then
        turn = "free"
    else
        call("HDEL", requests, "ruby")
    end
end
