-- Where somebody has removed waiters from a queue: who has a record and no place is put back in its old one.
-- The gem's unlock and clear_locks empty a queue; who waits there goes on waiting.
--
-- in: call queue requests read_record n_there
--
-- n_there: how many have a place, at most. All come back in one call, some 3 us each: whoever was served
-- before would overtake the others.

local n_requests = redis.pcall("HLEN", requests)
if type(n_requests) == "number" and n_requests > 0 then
    for _, mark in ipairs(call("HMGET", requests, "random", "ruby", "holders", "series")) do
        n_requests = n_requests - (mark and 1 or 0)
    end
    if n_requests == 0 and call("EXISTS", queue) == 0 then
        call("DEL", requests) -- these are of no use without a request
    elseif n_requests > n_there then
        local all = call("HGETALL", requests)
        for i = 2, #all, 2 do
            local score_us = select(6, read_record(all[i]))
            if score_us and score_us ~= "" then
                local seconds = string.sub(score_us, 1, -7) .. "." .. string.sub(score_us, -6)
                call("ZADD", queue, "NX", seconds, all[i - 1])
            end
        end
        call("PEXPIRE", queue, "60000")
    end
end
