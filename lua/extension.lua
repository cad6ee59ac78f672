-- Ends an extendable re-entry: the lock loses the time that the re-entry added, but keeps the time that was
-- promised apart from re-entries.
--
-- out: take_back

-- Takes back ms, and returns what is left of the lock in ms, or 0 if it has ended. rql_end is when the lock would
-- end without extendable re-entries.
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
