-- For scripts that serve who waits, or sweep who is dead. These capture as little as those of waiters.lua.
--
-- in: is_less
-- out: budget is_alive notify

local budget = 30 -- of serve_queue.lua, in turns of the dead: less than 1 ms in one call of the script

-- Whether its time is not over, and its client was heard of within SILENCE_US. What was heard in the future
-- was heard before the clock was set back; when, is not known: it counts as heard now, once. A request that
-- entered its queue that lately, by its score, was a heartbeat itself.
local function is_alive(live, identity, now_text, until_us, score_us)
    local SILENCE_US = 5000000 -- a client silent for longer is dead
    if until_us ~= "0" and is_less(until_us, now_text) then
        return false
    end
    local age_us = score_us and score_us ~= "" and now_text - score_us
    if age_us and age_us <= SILENCE_US and age_us >= -SILENCE_US then
        return true
    end
    local silent_us = now_text - (redis.call("ZSCORE", live, identity) or 0)
    if silent_us < -SILENCE_US then
        redis.call("ZADD", live, now_text, identity)
        return true
    end
    return silent_us <= SILENCE_US
end

-- How many clients hear a message; nil: this user may not send it. The keys of a partition have a tag in
-- front, and its channels are of their slot: PUBLISH would go to all nodes of a cluster, and count those of one.
local function notify(identity, message)
    local prefix = string.match(KEYS[1], "^rql:{%w+}:")
    local channel = (prefix or "rql:") .. "wake:" .. identity
    local heard = redis.pcall(prefix and "SPUBLISH" or "PUBLISH", channel, message)
    return type(heard) == "number" and heard or nil
end
