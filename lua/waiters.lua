-- These functions are about the waiters in a queue.
--
-- out: access_of forget pause_end restore
--
-- They capture no variable of the script: each captured variable costs the server as much as a small command, in
-- every call of the script, whether it is needed or not. So does the conversion of a number to text.
--
-- A waiter of ours has a record in the hash of requests; a waiter without a record is a Ruby waiter. Nothing else
-- distinguishes them, because an owner is free to choose its acquirer id.

-- Returns the access in a record, or nil if there is no record.
local function access_of(record)
    return string.match(record or "", "^%S+ %d+ %x+ %d+ (%a) ")
end

-- Removes a request's record and takes it out of the counts. Random requests and those of holders are counted, so
-- that other calls know of them without reading each record. The reservation for a series ends with the request
-- of that series, and with no other request.
local function forget(requests, acquirer, access, mark)
    local call = redis.call
    local n_gone = mark and call("HDEL", requests, acquirer, mark) or call("HDEL", requests, acquirer)

    if n_gone == 0 or access == "q" or not access then
        return
    end
    if (access == "r" or access == "R") and call("HINCRBY", requests, "random", "-1") < 1 then
        call("HDEL", requests, "random")
    elseif access == "s" or access == "S" then
        local kept = call("HGET", requests, "series")
        if kept and kept:sub(-#acquirer) == acquirer then
            call("HDEL", requests, "series")
        end
    end
    if access < "a" and call("HINCRBY", requests, "holders", "-1") < 1 then
        call("HDEL", requests, "holders")
    end
end

-- Returns until when nothing is granted, in microseconds, or nil if there is no pause (lua/README.md 46).
local function pause_end(fence, now_text)
    local last = redis.pcall("GET", fence)
    local until_us = type(last) == "string" and last:match("^q (%d+) ")
    return until_us and until_us - now_text > 0 and until_us or nil
end

-- Puts the requests that have a record but no place back in their old places, after another client has removed
-- waiters from the queue. The gem's unlock and clear_locks empty a queue, but our waiters there wait on. At most
-- n_there of the requests have a place. All requests come back in one call, which takes some 3 us for each of
-- them: a request that was served before all are back would overtake the rest.
local function restore(queue, requests, n_there)
    local call = redis.call
    local n_requests = redis.pcall("HLEN", requests)
    if type(n_requests) ~= "number" or n_requests == 0 then
        return
    end
    for _, mark in ipairs(call("HMGET", requests, "random", "ruby", "holders", "series")) do
        n_requests = n_requests - (mark and 1 or 0)
    end
    if n_requests == 0 and call("EXISTS", queue) == 0 then
        call("DEL", requests) -- the marks are of no use without a request
    elseif n_requests > n_there then
        local all = call("HGETALL", requests)
        for i = 2, #all, 2 do
            local score_us = all[i]:match("^%S+ %d+ %x+ %d+ %a (%d+)")
            if score_us then
                call("ZADD", queue, "NX", score_us:sub(1, -7) .. "." .. score_us:sub(-6), all[i - 1])
            end
        end
        call("PEXPIRE", queue, "60000")
    end
end
