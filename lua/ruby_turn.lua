-- Included by serve_queue.lua where it is the turn of a waiter without a record, a Ruby's: it takes a free lock by
-- itself, when it tries again and is the first. It has a while for that, then it counts as dead.
--
-- The while is one for all who stand in the queue when it begins: n dead ones do not cost n times as much, and
-- all leave when it is over; see last_ruby.lua. It begins anew for whoever has come to the head otherwise, also
-- for one that has had the lock since and asks again, as its score tells; and if it was begun in the future:
-- then the clock was set back.
--
-- Uses what serve_queue.lua uses, and waiter. Leaves turn and free_ms, or a waiter that is passed.

local n_left = at
if at > 0 then -- a series, and others that it does not let by; they have their records
    call("ZREMRANGEBYRANK", queue, 0, at - 1)
    at = 0
end
local score = call("ZSCORE", queue, waiter)
local since_us, last_us, n_gone, known_score, head =
    string.match(call("HGET", requests, "ruby") or "", "^(%d+) (%d+) (%d) (%S+) (.*)$")
local is_known = since_us and not is_less(now_text, since_us)
    and ((head == waiter and known_score == score) or (n_gone ~= "0" and score * 1000000 <= last_us + 0))

if me and score * 1000000 < oldest_us then
    is_known = false -- a live one would have moved to the tail
elseif is_known and now_text - since_us >= GRACE_US then
    n_rubies = math.min(n_gone + 1, 2)
    call("HSET", requests, "ruby", since_us .. " " .. last_us .. " " .. n_rubies .. " " .. score .. " " .. waiter)
else
    if not is_known then
        local tail = call("ZRANGE", queue, "-1", "-1", "WITHSCORES")[2]
        since_us, last_us = now_text, string.format("%.0f", math.ceil(tail * 1000000))
        call("HSET", requests, "ruby", since_us .. " " .. last_us .. " 0 " .. score .. " " .. waiter)
        call("PEXPIRE", requests, "60000")
        -- @include notify_first
    end
    turn, free_ms = "free", math.ceil((GRACE_US - (now_text - since_us)) / 1000)
end
