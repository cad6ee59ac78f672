-- Included by every script that tells the dead in a queue.
--
-- Uses clock.lua.

-- Whether its time is not over, and its client was heard of within X. What was heard in the future was heard
-- before the clock was set back: who lives is heard of again.
local function is_alive(live, identity, now_text, until_us)
    local SILENCE_US = 5000000 -- X: a client silent for longer is dead
    return (until_us == "0" or not is_less(until_us, now_text))
        and math.abs((redis.call("ZSCORE", live, identity) or 0) - now_text) <= SILENCE_US
end
