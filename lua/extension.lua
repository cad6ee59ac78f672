-- The end of an extendable re-entry: what it added goes, what was promised stays.
--
-- out: take_back

-- Returns what is left of the lock in ms; 0: it has ended. rql_end is its end without extensions.
local function take_back(lock, now_text, ms)
    local left = redis.call("PTTL", lock)
    local promised = math.ceil(((redis.call("HGET", lock, "rql_end") or 0) - now_text) / 1000)
    left = math.min(left, math.max(left - ms, promised))
    if left > 0 then
        redis.call("PEXPIRE", lock, left)
        return left
    end
    redis.call("DEL", lock)
    return 0
end
