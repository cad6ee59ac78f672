-- Included by serve_queue.lua where dead Rubies were passed, and it is the turn of another. If they were several,
-- only the first of them had its while at the head. So the last one is put back, with a short while for all:
-- who lives comes back to its old place within that, and takes the lock.
--
-- Uses what serve_queue.lua uses. Leaves turn and free_ms if the lock stays free for them.

local SECOND_US = 500000 -- twice the gem's retry_delay and retry_jitter
local _, last_us, n_gone, score, head =
    string.match(call("HGET", requests, "ruby"), "^(%d+) (%d+) (%d) (%S+) (.*)$")
if n_gone == "1" then
    call("HDEL", requests, "ruby")
else
    local since = string.format("%.0f", now_text - GRACE_US + SECOND_US)
    call("ZADD", queue, score, head)
    call("HSET", requests, "ruby", since .. " " .. last_us .. " 0 " .. score .. " " .. head)
    turn, free_ms = "free", SECOND_US / 1000
end
n_rubies = 0
