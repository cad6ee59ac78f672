-- Included by every script that puts a request into a queue.
--
-- Uses waiters.lua, and the metadata in ARGV. Captures as little as that does, see there.

local function seconds_of(us)
    return string.sub(us, 1, -7) .. "." .. string.sub(us, -6)
end

local function micros_of(score)
    return string.format("%.0f", math.floor(score * 1000000 + 0.5))
end

-- When a wait is over; up to a second late, for that is quickly written.
local function end_of(wait_ms, time, micros)
    return wait_ms == "-1" and "0" or time[1] + math.ceil(wait_ms / 1000) .. micros
end

-- What read_record() reads.
local function record_of(host, ttl_ms, nonce, until_us, access)
    local head = host .. " " .. ttl_ms .. " " .. nonce .. " " .. until_us .. " " .. access .. " "
    return #ARGV > 6 and head .. cmsgpack.pack({unpack(ARGV, 7)}) or head
end

-- Behind the last, also when the clock stood still; not behind a score from the future (F-38, F-39).
local function tail_us(queue, now_text)
    local last = redis.call("ZRANGE", queue, "-1", "-1", "WITHSCORES")[2]
    local us = last and math.floor(last * 1000000 + 0.5) or 0
    if us >= now_text + 0 and us - now_text < 1000000 then
        return string.format("%.0f", us + 1)
    end
    return now_text
end

-- The gem's queues have no ttl, and stay so; a queue of one is its waiter's.
local function keep(queue, requests, count)
    if count == 1 or redis.call("PTTL", queue) > 0 then
        redis.call("PEXPIRE", queue, "60000")
    end
    redis.call("PEXPIRE", requests, "60000")
end

-- Redis walks a short queue from its head for each newcomer, up to 128 of them; not if it ever had a long
-- member. It has one for a moment, and stays a tree for as long as it lives.
local function plant_tree(queue, acquirer)
    redis.call("ZADD", queue, "0", acquirer .. acquirer)
    redis.call("ZREM", queue, acquirer .. acquirer)
end

-- One sign of life counts for all waiters of a client. Who was silent for long is forgotten.
local function show_life(live, acquirer, now_text, is_poll)
    if redis.call("ZADD", live, now_text, string.sub(acquirer, -32)) == 1 or is_poll then
        redis.call("ZREMRANGEBYSCORE", live, "-inf", now_text - 50000000)
        redis.call("PEXPIRE", live, "60000")
    end
end

-- "1": the first waiter of ours, who polls for its client; Ruby's in front do not count.
local function leads(queue, acquirer, rank)
    if rank == 0 then
        return "1"
    elseif identity_of(redis.call("ZRANGE", queue, "0", "0")[1]) then
        return "0"
    end
    for _, waiter in ipairs(redis.call("ZRANGE", queue, "0", "15")) do
        if identity_of(waiter) then
            return waiter == acquirer and "1" or "0"
        end
    end
    return "0"
end
