-- Refuses a newcomer that finds the queue full, or gives it a place as if it had come earlier.
--
-- in: call queue requests live fields score_us count
-- after: clock waiters serving
-- out: head_start_ms
--
-- Sets score_us and count. The words behind random are max_waiters, -1 for any number, and head_start_ms.

local max_waiters, head_start_ms = fields[6]:match(" (%-?%d+) (%d+)$")
if max_waiters ~= "-1" and count - max_waiters >= 0 then
    local LOOKED_AT = 8 -- the dead are in front, because the queue was not served for them
    local others = call("ZRANGE", queue, 0, LOOKED_AT - 1)
    local records = others[1] and call("HMGET", requests, unpack(others)) or {}
    for i = 1, #others do
        local waiter = read_record(others[i], records[i])
        if waiter and not is_alive(live, waiter, now_text, waiter.score_us) then
            count = count - call("ZREM", queue, others[i])
            forget(requests, others[i], waiter.access)
        end
    end
    if count - max_waiters >= 0 then
        return "8 " .. now_text .. " " .. count
    end
end
score_us = string.format("%.0f", now_text - head_start_ms * 1000)
