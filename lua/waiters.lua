-- These functions are about the waiters in a queue.
--
-- out: read_record whole_host identity_of forget pause_end restore
--
-- They capture no local variable of the script: each captured variable costs the server as much as a small
-- command, in every call of the script, whether it is needed or not. So does the conversion of a number to text.
--
-- A waiter of ours has a record in the hash of requests; a waiter without a record is a Ruby waiter. Nothing else
-- distinguishes them, because an owner is free to choose its acquirer id.

-- Returns the parts of a request's record: host (see whole_host()), ttl, nonce, end of the wait (us, 0: never),
-- access (q queued, r random, s series; a capital: the acquirer holds other locks, too), score (us; version 0.1
-- wrote none), and the position at which the packed metadata begins. Returns nil if the text is not a record.
local function read_record(record)
    return string.match(record, "^(%S+) (%d+) (%x+) (%d+) (%a) (%d*) ?()")
end

-- Returns the whole host id. A record omits the identity at the end of the host id if the acquirer id ends with
-- the same one; a record of version 0.1 did not.
local function whole_host(host, acquirer)
    return string.byte(host, -1) == 47 and host .. string.sub(acquirer, -32) or host
end

-- Returns the identity of the client of a waiter of ours, which is the end of the acquirer id. It names the
-- client's channel and heartbeat.
local function identity_of(acquirer)
    return string.sub(acquirer, -32)
end

-- Removes a request's record and takes it out of the counts. Random requests and those of holders are counted, so
-- that other calls know of them without reading each record. The reservation for a series ends with the request
-- of that series, and with no other request.
local function forget(requests, acquirer, access, mark)
    local n_gone = mark and redis.call("HDEL", requests, acquirer, mark) or redis.call("HDEL", requests, acquirer)

    if n_gone == 0 or access == "q" or not access then
        return
    end
    if (access == "r" or access == "R") and redis.call("HINCRBY", requests, "random", "-1") < 1 then
        redis.call("HDEL", requests, "random")
    elseif access == "s" or access == "S" then
        local kept = redis.call("HGET", requests, "series")
        if kept and string.sub(kept, -#acquirer) == acquirer then
            redis.call("HDEL", requests, "series")
        end
    end
    if access < "a" and redis.call("HINCRBY", requests, "holders", "-1") < 1 then
        redis.call("HDEL", requests, "holders")
    end
end

-- Returns until when nothing is granted, in microseconds, or nil if there is no pause (lua/README.md 46).
local function pause_end(fence, now_text)
    local last = redis.pcall("GET", fence)
    local until_us = type(last) == "string" and string.match(last, "^q (%d+) ")
    return until_us and until_us - now_text > 0 and until_us or nil
end

-- Puts the requests that have a record but no place back in their old places, after another client has removed
-- waiters from the queue. The gem's unlock and clear_locks empty a queue, but our waiters there wait on. At most
-- n_there of the requests have a place. All requests come back in one call, which takes some 3 us for each of
-- them: a request that was served before all are back would overtake the rest.
local function restore(queue, requests, n_there, read_record)
    local n_requests = redis.pcall("HLEN", requests)
    if type(n_requests) ~= "number" or n_requests == 0 then
        return
    end
    for _, mark in ipairs(redis.call("HMGET", requests, "random", "ruby", "holders", "series")) do
        n_requests = n_requests - (mark and 1 or 0)
    end
    if n_requests == 0 and redis.call("EXISTS", queue) == 0 then
        redis.call("DEL", requests) -- the marks are of no use without a request
    elseif n_requests > n_there then
        local all = redis.call("HGETALL", requests)
        for i = 2, #all, 2 do
            local score_us = select(6, read_record(all[i]))
            if score_us and score_us ~= "" then
                local seconds = string.sub(score_us, 1, -7) .. "." .. string.sub(score_us, -6)
                redis.call("ZADD", queue, "NX", seconds, all[i - 1])
            end
        end
        redis.call("PEXPIRE", queue, "60000")
    end
end
