-- Included by every script that puts a request into a queue.
--
-- Uses clock.lua, settle.lua, and call, queue, live and acquirer of the including script.

local function seconds(us)
    return shortest(string.format("%d.%06d", math.floor(us / 1000000), us % 1000000))
end

-- A request record: host, ttl, nonce, until, access (q queued, r random, s series); then the
-- metadata, packed.
local function record_of(host, ttl_ms, nonce, until_us, access, meta)
    local head = string.format("%s %s %s %.0f %s ", host, ttl_ms, nonce, until_us, access)
    return #meta > 0 and head .. cmsgpack.pack(meta) or head
end

-- One sign of life counts for all waiters of a client.
local function show_life(identity, is_poll)
    if call("ZADD", live, now_text, identity) == 1 or is_poll then
        call("ZREMRANGEBYSCORE", live, "-inf", now - 10 * SILENCE_US)
        call("PEXPIRE", live, "60000")
    end
end

-- Behind the last, also when the clock stood still; not behind a score from the future (F-38, F-39).
local function tail_score(last)
    local last_us = last[2] and math.floor(tonumber(last[2]) * 1000000 + 0.5) or 0
    if last_us >= now and last_us - now < 1000000 then
        return last_us + 1
    end
    return now
end

-- The first waiter of ours polls for its client; Ruby's in front do not count.
local function is_first(rank)
    if rank == 0 then
        return 1
    elseif identity_of(call("ZRANGE", queue, "0", "0")[1]) then
        return 0
    end
    for _, waiter in ipairs(call("ZRANGE", queue, 0, 15)) do
        if identity_of(waiter) then
            return waiter == acquirer and 1 or 0
        end
    end
    return 0
end
