-- Included by every script that tells the dead in a queue.
--
-- Uses clock.lua.

-- Whether its time is not over, and its client was heard of within X.
local function is_alive(live, identity, now_text, until_us)
    local SILENCE_US = 5000000 -- X: a client silent for longer is dead
    return (until_us == "0" or not is_less(until_us, now_text))
        and (redis.call("ZSCORE", live, identity) or 0) + SILENCE_US >= now_text + 0
end
