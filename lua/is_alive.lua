-- Who is dead in a queue.
--
-- in: is_less
-- out: is_alive

-- Whether its time is not over, and its client was heard of within SILENCE_US. What was heard in the future
-- was heard before the clock was set back; when, is not known: it counts as heard now, once.
local function is_alive(live, identity, now_text, until_us)
    local SILENCE_US = 5000000 -- a client silent for longer is dead
    if until_us ~= "0" and is_less(until_us, now_text) then
        return false
    end
    local silent_us = now_text - (redis.call("ZSCORE", live, identity) or 0)
    if silent_us < -SILENCE_US then
        redis.call("ZADD", live, now_text, identity)
        return true
    end
    return silent_us <= SILENCE_US
end
