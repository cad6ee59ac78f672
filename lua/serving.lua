-- These functions are for scripts that serve waiters or sweep dead ones. Like the functions of waiters.lua, they
-- capture no local variable, except for is_less.
--
-- in: is_less
-- out: budget is_alive notify

local budget = 30 -- of serve_queue.lua, in turns of dead waiters: less than 1 ms in one call of the script

-- Returns whether the waiter's time is not over and its client sent a heartbeat within SILENCE_US. A heartbeat in
-- the future was sent before the server's clock was set back. Its age is not known, so it counts as sent now,
-- once. A request that entered its queue within SILENCE_US, by its score, was a heartbeat itself.
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

-- Publishes a message to a client and returns how many clients received it, or nil if this user may not publish.
-- The keys of a partition have a tag in front, and its channels are in their slot: PUBLISH would go to all nodes
-- of a cluster, and count the receivers of one.
local function notify(identity, message)
    local prefix = string.match(KEYS[1], "^rql:{%w+}:")
    local channel = (prefix or "rql:") .. "wake:" .. identity
    local heard = redis.pcall(prefix and "SPUBLISH" or "PUBLISH", channel, message)
    return type(heard) == "number" and heard or nil
end
