-- Who waits in a queue.
--
-- out: read_record whole_host identity_of forget pause_end restore
--
-- These capture no local of the script: each that is captured costs the server as much as a small command
-- does, in every call of the script, needed or not. So does number-to-text.
--
-- A waiter of ours has a record in the hash of requests; whoever has none is the gem's. Nothing else tells
-- them apart: an acquirer id is whatever its owner likes.

-- A request record in parts: host (see whole_host()), ttl, nonce, until when (us, 0: for ever), access (q
-- queued, r random, s series; a capital: it holds other locks too), score (us; version 0.1 wrote none);
-- and where its metadata begins, packed. Nothing: it is no record.
local function read_record(record)
    return string.match(record, "^(%S+) (%d+) (%x+) (%d+) (%a) (%d*) ?()")
end

-- A record leaves out the identity that ends the ids of host and acquirer alike; one of version 0.1 did not.
local function whole_host(host, acquirer)
    return string.byte(host, -1) == 47 and host .. string.sub(acquirer, -32) or host
end

-- The channel and the heartbeat of a waiter of ours bear its client's identity, which ends its acquirer id.
local function identity_of(acquirer)
    return string.sub(acquirer, -32)
end

-- The record goes, and what it is counted in: random requests and those of holders are counted, so that
-- others know of them without a look at each. How a lock is kept free for a series ends with its request, and
-- with no other's.
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

-- Until when nothing is granted, in microseconds; nil: there is no pause (lua/README.md 46).
local function pause_end(fence, now_text)
    local last = redis.pcall("GET", fence)
    local until_us = type(last) == "string" and string.match(last, "^q (%d+) ")
    return until_us and until_us - now_text > 0 and until_us or nil
end

-- Where somebody has removed waiters from a queue: who has a record and no place is put back in its old one.
-- The gem's unlock and clear_locks empty a queue; who waits there goes on waiting. n_there: how many have a
-- place, at most. All come back in one call, some 3 us each: whoever was served before would overtake the
-- others.
local function restore(queue, requests, n_there, read_record)
    local n_requests = redis.pcall("HLEN", requests)
    if type(n_requests) ~= "number" or n_requests == 0 then
        return
    end
    for _, mark in ipairs(redis.call("HMGET", requests, "random", "ruby", "holders", "series")) do
        n_requests = n_requests - (mark and 1 or 0)
    end
    if n_requests == 0 and redis.call("EXISTS", queue) == 0 then
        redis.call("DEL", requests) -- these are of no use without a request
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
