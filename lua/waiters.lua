-- Who waits in a queue.
--
-- out: budget read_record whole_host identity_of forget notify pause_end
--
-- These capture no local of the script: each that is captured costs the server as much as a small command
-- does, in every call of the script, needed or not. So does number-to-text.
--
-- A waiter of ours has a record in the hash of requests; whoever has none is the gem's. Nothing else tells
-- them apart: an acquirer id is whatever its owner likes.

local budget = 30 -- of serve_queue.lua, in turns of the dead: less than 1 ms in one call of the script

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

-- How many clients hear a message; nil: this user may not send it. The keys of a partition have a tag in
-- front, and its channels are of their slot: PUBLISH would go to all nodes of a cluster, and count those of one.
local function notify(identity, message)
    local prefix = string.match(KEYS[1], "^rql:{%w+}:")
    local channel = (prefix or "rql:") .. "wake:" .. identity
    local heard = redis.pcall(prefix and "SPUBLISH" or "PUBLISH", channel, message)
    return type(heard) == "number" and heard or nil
end
