-- These functions are for scripts that put a request into a queue. The metadata of the request is in ARGV. Like
-- the functions of waiters.lua, they capture no local variable.
--
-- out: seconds_of micros_of end_of record_of tail_us put_at keep note_heartbeat leads

local function seconds_of(us)
    return us:sub(1, -7) .. "." .. us:sub(-6)
end

local function micros_of(score)
    return string.format("%.0f", math.floor(score * 1000000 + 0.5))
end

-- Returns when a wait ends, or "0" for never. The time is up to a second late, because that is quick to write.
local function end_of(wait_ms, time, micros)
    return wait_ms == "-1" and "0" or time[1] + math.ceil(wait_ms / 1000) .. micros
end

-- Returns a request's record, in the form that read_record() reads.
local function record_of(acquirer, host, ttl_ms, nonce, until_us, access, score_us)
    local place = host:sub(1, -33)
    local head = (place .. acquirer:sub(-32) == host and place or host) .. " " .. ttl_ms .. " " ..
        nonce .. " " .. until_us .. " " .. access .. " " .. score_us .. " "
    return #ARGV > 6 and head .. cmsgpack.pack({unpack(ARGV, 7)}) or head
end

-- Returns the score of a place behind the last waiter, even if the server's clock stood still or was set back. A
-- Ruby waiter with a score in the future does not count: it uses its own clock, and all later requests would
-- stand behind those with a right clock. But if the last token is in the future, too, then the server's clock was
-- set back, and the Ruby waiter's clock is the right one.
local function tail_us(queue, requests, fence, now_text)
    local FUTURE_US, PLACES = 1000000, -32
    local last = redis.call("ZRANGE", queue, PLACES, "-1", "WITHSCORES")
    local token = redis.pcall("GET", fence)
    local was_set_back = type(token) == "string"
        and (tonumber(string.match(token, "%d+$")) or 0) - now_text >= FUTURE_US
    for i = #last, 2, -2 do
        local us = math.floor(last[i] * 1000000 + 0.5)
        if us < now_text + 0 then
            return now_text
        elseif was_set_back or us - now_text < FUTURE_US
            or redis.call("HEXISTS", requests, last[i - 1]) == 1 then
            return string.format("%.0f", us + 1)
        end
    end
    return now_text
end

-- Renews the TTL of both keys. They end with their last waiter or, if the last waiters died, 60 s after the last
-- poll. A Ruby waiter that still waits then puts itself back.
local function keep(queue, requests)
    local call = redis.call
    call("PEXPIRE", queue, "60000")
    call("PEXPIRE", requests, "60000")
end

-- Puts a request in its place. The record is written first: if that fails, the request must not get a place to
-- which it could not be put back.
local function put_at(queue, requests, acquirer, seconds, record)
    local call = redis.call
    call("HSET", requests, acquirer, record)
    call("ZADD", queue, seconds, acquirer)
end

-- Writes a heartbeat, which counts for all waiters of the client. Clients that were silent for long are removed.
local function note_heartbeat(live, acquirer, now_text, is_poll)
    local call = redis.call
    if call("ZADD", live, now_text, acquirer:sub(-32)) == 1 or is_poll then
        call("ZREMRANGEBYSCORE", live, "-inf", now_text - 50000000)
        call("PEXPIRE", live, "60000")
    end
end

-- Returns "1" if this is the first waiter of ours, else "0". The first one polls for its client. Ruby waiters in
-- front do not count.
local function leads(queue, requests, acquirer, rank)
    local PLACES = 512 -- behind more Ruby waiters than that, each waiter polls for itself
    for from = 0, math.min(rank, PLACES) - 1, 32 do
        local others = redis.call("ZRANGE", queue, from, math.min(from + 31, rank - 1))
        local records = redis.call("HMGET", requests, unpack(others))
        for i = 1, #others do
            if records[i] then
                return "0"
            end
        end
    end
    return "1"
end
