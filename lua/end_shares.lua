-- after: remove_shares
-- out: end_shares

-- Ends the shares of these acquirers in a lock of several. The lock then ends with the last share that is left, because
-- a waiter that wants it alone, and Ruby, look at no share; so it ends sooner if one of these was the last. group.used
-- is nil if the lock is free now. fields: as for remove_shares().
local function end_shares(group, keys, now_text, acquirers, fields)
    local call, lock, shares = redis.call, keys[1], keys[6]
    local last, was_last = call("ZRANGE", shares, "-1", "-1")[1], false
    for i = 1, #acquirers do
        was_last = was_last or acquirers[i] == last
    end
    remove_shares(group, keys, acquirers, fields)
    if group.used then
        -- @include remove_ended
    end
    if not (group.used and was_last) then
        return
    end
    local last_us = call("ZRANGE", shares, "-1", "-1", "WITHSCORES")[2]
    local left_ms = math.ceil(((last_us or 0) - now_text) / 1000)
    if left_ms <= 0 then -- more shares have ended than remove_ended() removes
        group.used, group.owner = nil, nil
        call("DEL", lock, shares)
    elseif left_ms < call("PTTL", lock) then
        call("PEXPIRE", lock, left_ms)
        call("PEXPIRE", shares, left_ms)
    end
end
